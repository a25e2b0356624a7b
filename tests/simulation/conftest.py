"""Seeds of a scenario, in slices: many seeds are many tests, run beside each other, and tell progress."""

from __future__ import annotations

from cellule.testing import seeds_wanted
from cellule.testing.simulation import SEEDS_DEFAULT

SLICE = 50


def pytest_generate_tests(metafunc):
    """`seeds` are those that the environment asks for; `@pytest.mark.seeds(12)` tells the usual number."""
    if "seeds" not in metafunc.fixturenames:
        return
    usual = metafunc.definition.get_closest_marker("seeds")
    wanted = list(seeds_wanted(usual.args[0] if usual else SEEDS_DEFAULT))
    slices = [wanted[begin : begin + SLICE] for begin in range(0, len(wanted), SLICE)]
    metafunc.parametrize("seeds", slices, ids=[f"{each[0]}-{each[-1]}" for each in slices])
