"""What a store keeps and for how long: collection of garbage, pins, old frames, kept snapshots, quotas."""
