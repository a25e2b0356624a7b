"""What a journal proves: replay, verification by running again, and checks of stored bytes."""
