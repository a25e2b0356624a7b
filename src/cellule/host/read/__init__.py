"""Reads of worlds, cells, journals and effects."""
