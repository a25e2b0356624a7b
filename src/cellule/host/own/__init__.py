"""Which node owns a store, and which worlds are in it."""
