"""Nodes: processes that host worlds. Ownership, ingress, the commit pipeline, snapshots, reads."""
