"""Cellule: a durable runtime for very many small state machines."""

__version__ = "0.1.0"
