"""Enzymes: functions `(ctx, signal, target)` that signals run, against the world tree as the beat found it.

Authors use `EnzymeContext`, `RETRY` and `FATAL`. Reading order: `context` (what an enzyme may do),
`signature` (what a function must look like), `program` (a run, as the kernel calls it).
"""

from __future__ import annotations

from cellule.modules.enzyme.context import FATAL, RETRY, EnzymeContext

__all__ = ["FATAL", "RETRY", "EnzymeContext"]
