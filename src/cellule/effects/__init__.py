"""Adapters: what performs intents outside of the world, and what they may reach."""
