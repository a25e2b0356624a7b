"""The error tree: messages from fields, stable codes, a help section for every code."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import pytest

import cellule
from cellule.errors import (
    Conflict,
    Corrupted,
    InvariantBroken,
    OutcomeUnknown,
    Parked,
    Refused,
    Rejected,
    StepFailed,
    Unavailable,
    ensure,
)

SOURCES = Path(cellule.__file__).parent
PAGES = Path(__file__).parents[2] / "docs" / "errors"
RAISERS = {
    "Rejected", "VersionConflict", "TooOld", "Gone", "HistoryChanged", "Unavailable", "OutcomeUnknown",
    "Fenced",
    "Corrupted", "StepFailed", "Parked", "InvariantBroken", "Conflict", "StepFault",
}  # fmt: skip
CODE = re.compile(r"[a-z]+\.[a-z0-9_]+")


def test_message_is_built_from_the_fields():
    error = Rejected(
        "store.key_size", "key {key} has {size} bytes", key=b"\x00\xff", size=2, hint="Shorten it."
    )
    assert str(error) == "key 0x00ff has 2 bytes. Shorten it."
    assert error.fields == {"key": b"\x00\xff", "size": 2}


def test_long_bytes_are_cut_in_the_message_and_kept_in_the_fields():
    error = Corrupted("store.row_damaged", "key {key}", key=bytes(100))
    assert str(error) == "key 0x" + "00" * 40 + "..."
    assert error.fields["key"] == bytes(100)


def test_an_error_survives_pickling_with_its_fields():
    error = OutcomeUnknown("store.io", "lost {what}", what="connection", hint="Send again.")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.code, str(again), again.fields) == (
        OutcomeUnknown, error.code, str(error), error.fields,
    )  # fmt: skip


def test_a_refusal_survives_pickling_with_reason_code_and_cell():
    error = Refused("only {3} left", code="shop.short", cell="shop/order/o1", height=7)
    again = pickle.loads(pickle.dumps(error))
    assert (again.reason, again.code, again.cell, again.height) == (
        "only {3} left",
        "shop.short",
        error.cell,
        7,
    )
    assert str(again) == "shop/order/o1 refused the event: only {3} left"


def test_ensure_raises_only_when_the_condition_fails():
    ensure(1, "a.b", "never")
    with pytest.raises(InvariantBroken, match="height 7") as caught:
        ensure(0, "kernel.broken", "height {height}", height=7)
    assert caught.value.code == "kernel.broken"


def test_reactions_follow_the_tree():
    assert issubclass(OutcomeUnknown, Unavailable)
    assert issubclass(Parked, StepFailed)
    assert issubclass(Refused, Rejected)
    assert not issubclass(Conflict, Rejected)


def test_every_error_code_raised_in_the_package_has_a_help_section():
    documented = {
        line[3:].strip()
        for page in PAGES.glob("*.md")
        for line in page.read_text().splitlines()
        if line[:3] == "## "
    }
    raised = {code: place for path in sorted(SOURCES.rglob("*.py")) for code, place in _codes(path)}
    missing = {code: place for code, place in raised.items() if code not in documented}
    assert missing == {}


def test_every_help_section_names_a_code_that_is_raised():
    raised = {code for path in sorted(SOURCES.rglob("*.py")) for code, _ in _codes(path)}
    texts = "\n".join(path.read_text() for path in SOURCES.rglob("*.py"))
    stale = [
        heading
        for page in PAGES.glob("*.md")
        for heading in re.findall(r"^## ([a-z]+\.[a-z0-9_]+)$", page.read_text(), re.MULTILINE)
        if heading not in raised
        and f'"{heading}"' not in texts
        and f'"{heading.partition(".")[2]}"' not in texts  # built from its area and a word
    ]
    assert stale == []


def _codes(path: Path) -> list[tuple[str, str]]:
    """The codes given as literals to an error class, `ensure`, `broken` or a helper of the same shape."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        position = 1 if name == "ensure" else 0
        if name not in RAISERS | {"ensure", "broken"} or len(node.args) <= position:
            continue
        code = node.args[position]
        if isinstance(code, ast.Constant) and isinstance(code.value, str) and CODE.fullmatch(code.value):
            found.append((code.value, f"{path.relative_to(SOURCES)}:{node.lineno}"))
    return found
