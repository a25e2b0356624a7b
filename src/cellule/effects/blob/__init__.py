"""`blob.put` and `blob.get`: bytes of cells in the CAS of their universe.

Reading order: `types` (asked and answered), `adapter`.
"""
