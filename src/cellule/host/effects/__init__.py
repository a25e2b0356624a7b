"""Effects of an open world, as people and programs see and steer them."""
