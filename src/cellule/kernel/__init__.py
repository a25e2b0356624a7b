"""The deterministic world: bytes in, bytes out.

Nothing here waits, reads a clock, draws chance, starts a thread or keeps a global. What is not in memory is
asked for with a `Need` and delivered by the host.
"""
