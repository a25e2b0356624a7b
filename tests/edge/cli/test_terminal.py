"""What users wrote does not steer the terminal of whoever reads it: no command prints a control character."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
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


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_is_not_utf_8_gets_escapes(shop: Cellule, encoding: str) -> None:
    """A key outside the encoding of the terminal was told as a bug of Cellule."""
    shop("event", "send", "Placed", '{"order_id": "\u00e9\u4e9c\U0001f600", "total": 3}')
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    shown = shop.process("cell", "list", env=environment, encoding=encoding)
    assert "\\u4e9c\\U0001f600" in shown.out
    told = shop.process("cell", "list", "--json", env=environment, encoding=encoding).json
    assert "\u00e9\u4e9c\U0001f600" in [each["key"] for each in told["cells"]]
    line = ("--json", "cell", "show", "order", "\u4e9c")
    missing = shop.process(*line, env=environment, encoding=encoding, code=1)
    assert missing.error["fields"]["key"] == "\u4e9c"


def test_a_command_works_where_nobody_takes_what_it_tells(shop: Cellule) -> None:
    """Standard output is closed in some jobs of cron and containers: it was a trace."""
    line = shlex.join(shop.command("event", "send", "Placed", '{"order_id": "o7", "total": 3}'))
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        done = subprocess.run(["sh", "-c", f"{line} {closed}"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    assert shop("cell", "show", "order", "o7", "--json").json["version"] == 3
    asked = shlex.join(shop.command("world", "delete", "main"))
    done = subprocess.run(["sh", "-c", f"{asked} <&-"], capture_output=True, text=True, check=False)
    assert (done.returncode, "cannot be undone" in done.stderr) == (2, True)


@pytest.mark.parametrize("line", [("event", "send", "Placed", "-"), ("mailbox", "post", "/a", "-")])
def test_input_that_is_no_text_is_told(shop: Cellule, line: tuple[str, ...]) -> None:
    done = subprocess.run(shop.command(*line), input=b'"\xff\xfe"', capture_output=True, check=False)
    assert done.returncode == 1
    assert b"cli.json" in done.stderr
