"""Ways to write a cell. Each turns an author's code into `kernel.program.Program`s; the kernel knows none.

`python/` runs plain functions from content-addressed bundles of their source. Nothing here waits, and nothing
here knows a store: code arrives as nodes of the CAS, like everything else a world reads.
"""
