"""What users wrote does not steer the terminal of whoever reads it: no command prints a control character."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    Cellule = Any

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\u202eo9"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
PLAIN = "[2J"  # what is left of it for people


@pytest.fixture
def hostile(shop: Cellule) -> Cellule:
    """The shop with an order whose key holds what terminals obey, halted for a text of that kind."""
    shop("event", "send", "Placed", json.dumps({"order_id": HOSTILE, "total": 3}), "--id", HOSTILE)
    shop("cell", "halt", "order", HOSTILE, "--why", HOSTILE)
    return shop


@pytest.mark.parametrize(
    "command",
    [
        ("cell", "list"),
        ("cell", "show", "order", HOSTILE),
        ("journal", "tail", "--no-follow", "-n", "9"),
        ("why", f"order/{HOSTILE}"),
        ("stuck",),
    ],
    ids=lambda command: " ".join(command[:2]).partition("/")[0],
)
def test_no_command_prints_control_characters_of_users(hostile: Cellule, command: tuple[str, ...]) -> None:
    shown = hostile(*command)
    assert PLAIN in shown.out
    assert OBEYED.findall(shown.out + shown.err) == []
    for_programs = hostile(*command, "--json").out
    assert OBEYED.findall(for_programs) == []
    assert HOSTILE in [_text for line in _documents(for_programs) for _text in _texts(line)]


def test_errors_print_no_control_characters_of_users(shop: Cellule) -> None:
    for arguments in (
        ("cell", "show", "order", HOSTILE),
        ("--world", HOSTILE, "cell", "list"),
        ("event", "send", HOSTILE, "{}"),
    ):
        told = shop(*arguments, code=1)
        assert OBEYED.findall(told.out + told.err) == []
        assert OBEYED.findall(shop(*arguments, "--json", code=1).err) == []


def _documents(text: str) -> list[Any]:
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def _texts(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [text for each in value.values() for text in _texts(each)]
        case list():
            return [text for each in value for text in _texts(each)]
        case _:
            return []
