"""Engines, the CAS, object stores, caches and the key layout."""
