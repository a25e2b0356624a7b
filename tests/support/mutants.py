"""Mutants: parts that are broken on purpose, to see that a simulation catches what they do.

A mutant that fails by itself proves nothing: one whose signature is not that of the part it stands for raises
a TypeError, and a test that takes any failure for the fault is content. So a mutant says when its fault
happens (`happened`), and `assert_caught` wants both: that it did, and that the check it breaks said so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest

from cellule.errors import InvariantBroken

_OWN_MISTAKES: Final = ("TypeError", "AttributeError", "NameError", "ImportError")
HAPPENED: Final[Counter[str]] = Counter()


def happened(mutant: type | Callable[..., Any]) -> None:
    """Tell that the fault of a mutant has happened."""
    HAPPENED[mutant.__qualname__] += 1


def assert_caught(simulated: Callable[[], object], mutant: type | Callable[..., Any], said: str) -> None:
    """Run a simulation with a mutant in it: it must reach its fault, and a check must say `said`."""
    HAPPENED.clear()
    with pytest.raises(InvariantBroken) as caught:
        simulated()
    assert caught.value.code == "testing.seed_failed"
    assert "fails identically" in str(caught.value)
    assert HAPPENED[mutant.__qualname__] > 0, f"{mutant.__qualname__} never came to its fault"
    causes = list(_causes(caught.value.__cause__))
    assert any(re.search(said, text) for text in causes), f"{said!r} is not what was found: {causes}"
    strange = [text for text in causes if text.startswith(_OWN_MISTAKES)]
    assert strange == [], "the mutant itself is broken"


def _causes(error: BaseException | None) -> Any:
    """An error, those inside of it and those behind it, as texts."""
    if error is None:
        return
    yield f"{type(error).__name__}: {error}"
    for inner in getattr(error, "exceptions", ()):
        yield from _causes(inner)
    yield from _causes(error.__cause__)
