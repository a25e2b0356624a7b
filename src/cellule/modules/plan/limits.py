"""The numbers of plans."""

from __future__ import annotations

STEPS_MAX = 1_000  # steps of one plan
EDGES_MAX = 10_000  # edges of one plan
EXPR_NODES_MAX = 10_000  # parts of all expressions of one plan
EXPR_DEPTH_MAX = 50  # expressions inside each other
PROBLEMS_MAX = 100  # problems listed for one plan; the rest is found when these are mended
EARLY_MAX = 100  # awaited events that a run keeps until it comes to their step; further ones are refused
VALUE_BYTES_MAX = 100_000  # encoded bytes of one local, and characters of one text that an operator makes
ADVANCE_MAX = 10_000  # steps of a plan that one event lets a run take
FILE_BYTES_MAX = 1_000_000  # bytes of a file that holds a plan
DOCUMENT_NODES_MAX = 1_000_000  # values of a plan or manifest in a file, with those that aliases stand for
