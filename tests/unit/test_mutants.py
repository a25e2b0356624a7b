"""A mutant counts as caught only if it came to its fault and the right check said so."""

from __future__ import annotations

import pytest

from cellule.errors import InvariantBroken
from tests.support.mutants import assert_caught, happened


def mutant():
    """Stands for a broken part."""


def failing(cause, *, comes=True):
    def simulated():
        if comes:
            happened(mutant)
        raise InvariantBroken("testing.seed_failed", "seed 1 fails identically") from cause

    return simulated


def test_a_fault_that_the_right_check_found_is_caught():
    assert_caught(failing(AssertionError("an event was lost")), mutant, "was lost")
    group = ExceptionGroup("in a task", [ValueError("an event was lost")])
    assert_caught(failing(group), mutant, "was lost")


@pytest.mark.parametrize(
    ("simulated", "why"),
    [
        (failing(TypeError("commit() takes 2 arguments")), "is not what was found"),
        (failing(ExceptionGroup("was lost", [TypeError("commit() takes 2")])), "the mutant itself is broken"),
        (failing(AssertionError("another check")), "is not what was found"),
        (failing(AssertionError("was lost"), comes=False), "never came to its fault"),
    ],
)
def test_a_mutant_that_fails_by_itself_is_not_caught(simulated, why):
    """One whose signature was stale raised a TypeError, and that was taken for its fault."""
    with pytest.raises(AssertionError, match=why):
        assert_caught(simulated, mutant, "was lost")
