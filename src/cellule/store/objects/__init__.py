"""Object stores: whole immutable bodies by name."""
