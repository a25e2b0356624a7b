"""Seeds that are tried in slices: which of them must reach everything that a scenario can reach."""

from __future__ import annotations

from collections.abc import Sequence

from cellule.testing.simulation import SEEDS_DEFAULT


def need_not_reach_all(seeds: Sequence[int], usual: int = SEEDS_DEFAULT) -> bool:
    """Tell whether these are not the usual ones, which reach everything; a slice may lack what is rare."""
    return seeds[0] != 0 or len(seeds) < usual
