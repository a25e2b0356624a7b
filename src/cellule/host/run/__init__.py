"""Worlds at work on their owner."""
