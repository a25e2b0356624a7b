"""The state of a world, and the only functions that change it."""
