"""How events and commands reach a world."""
