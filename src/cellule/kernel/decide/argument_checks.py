"""Arguments of controls, proven as they are read: `Rejected` names the one that is missing or wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cellule.errors import CelluleError, Rejected
from cellule.values.cbor import decode

CHOOSING: Final = {
    "cell.resume": ("module", "key", "all", "until"),
    "cell.drop": ("module", "key", "all", "until", "count", "message"),
    "cell.migrate": ("module", "key", "all", "until", "to", "after"),
}
"""What verbs take that concern all cells unless told which: a misspelt argument must not mean "all"."""


def check_choice(verb: str, arguments: Mapping[str, Any]) -> None:
    """Refuse what a verb that chooses cells does not know."""
    unknown = sorted(set(arguments) - set(CHOOSING.get(verb, arguments)))
    if unknown:
        raise Rejected(
            "kernel.argument", "{verb} takes no `{field}`; it takes {takes}",
            verb=verb, field=unknown[0], takes=", ".join(f"`{each}`" for each in CHOOSING[verb]),
        )  # fmt: skip


def check_height(value: Any, field: str) -> int:
    """A height among the arguments of a control."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise Rejected("kernel.argument", "the control needs `{field}`, a height", field=field)
    return value


def check_text(value: Any, field: str) -> str:
    """A text among the arguments of a control."""
    if not isinstance(value, str):
        raise Rejected("kernel.argument", "the control needs `{field}`, a text", field=field)
    return value


def check_bytes(value: Any, field: str) -> bytes:
    """Bytes among the arguments of a control."""
    if not isinstance(value, bytes):
        raise Rejected("kernel.argument", "the control needs `{field}`, bytes", field=field)
    return value


def check_value(data: bytes, field: str) -> None:
    """Bytes that are recorded as a value: they are one, and in its canonical form."""
    try:
        decode(data)
    except CelluleError as error:
        raise Rejected("kernel.argument", "`{field}` is no value: {why}", field=field, why=error) from error
