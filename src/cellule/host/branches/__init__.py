"""Worlds as branches: forks, refs, lineage, what differs between two, merges, and what would happen if."""
