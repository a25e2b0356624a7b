"""What can be seen of the effects of a world."""
