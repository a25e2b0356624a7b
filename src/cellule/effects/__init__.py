"""Adapters: what performs intents outside of the world, and what they may reach.

Reading order: `adapter` (the contract, the decorator, the registry), `attempt` (what an adapter is told),
`outcomes`, `secrets`, then one package for each built-in kind. None of these but the last loads a client.
"""
