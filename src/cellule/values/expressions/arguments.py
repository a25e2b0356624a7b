"""Arguments: the paths an expression reads, what is found there, checked and counted, and the answer.

Only what an expression mentions is read, each path once, so an evaluation costs what it uses and not what its
arguments hold. Integers outside 64 bits and floats that are not finite are refused, links become the text of
their CID, and everything is counted, because the size of what is bound bounds the work.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from cellule.values.expressions.fault import ExpressionFault
from cellule.values.expressions.limits import INT_MAX, INT_MIN, PART_BYTES, VALUE_DEPTH_MAX
from cellule.values.link import Link

ABSENT: Final = object()
"""What stands at the end of a path that leads nowhere."""


class Path(NamedTuple):
    """The argument and the fields, keys and indices from there; `asks` whether the last step is there."""

    root: str
    steps: tuple[str | int, ...] = ()
    asks: bool = False

    def __str__(self) -> str:
        shown = "".join(
            f".{step}"
            if isinstance(step, str) and step.isidentifier()
            else f"[{json.dumps(step, ensure_ascii=False)}]"
            for step in self.steps
        )
        return f"{self.root}{shown}"

    @property
    def missing(self) -> str:
        """What is not there when the path leads nowhere."""
        return f"map {Path(self.root, self.steps[:-1])}" if self.asks else str(self)

    def longer(self, step: str | int) -> Path:
        """The path to a part of what is here."""
        return Path(self.root, (*self.steps, step))

    def read(self, arguments: Mapping[str, object]) -> object:
        """The value at the path, whether it is there for one that asks, or `ABSENT`."""
        value: Any = arguments.get(self.root, ABSENT)
        for step in self.steps[:-1] if self.asks else self.steps:
            if value.__class__ is dict and isinstance(step, str):
                value = value.get(step, ABSENT)
            elif value.__class__ is list and isinstance(step, int) and 0 <= step < len(value):
                value = value[step]
            else:
                return ABSENT
        if not self.asks:
            return value
        return self.steps[-1] in value if value.__class__ is dict else ABSENT


class Sizes:
    """Counts the parts of values while it checks and converts them."""

    __slots__ = ("size",)

    def __init__(self) -> None:
        self.size = 0

    def bound(self, value: Any, path: Path, depth: int = 0) -> Any:
        """Check `value` and return what the expression sees; raises `ExpressionFault` naming `path`."""
        self.size += 1
        # By class, not by `isinstance`: a bool is an int, and a subclass may answer as it likes.
        kind = value.__class__
        if kind is str or kind is bytes:
            self.size += len(value) // PART_BYTES
            return value
        if kind is bool or value is None or value is ABSENT:
            return value
        if kind is int:
            return _checked_int(value, path)
        if kind is float:
            return _checked_float(value, path)
        if depth >= VALUE_DEPTH_MAX:
            raise ExpressionFault("values.expression_argument", f"{path} nests too deeply")
        if kind is list or kind is tuple:
            return [self.bound(item, path, depth + 1) for item in value]
        if kind is dict:
            return {_checked_key(key, path): self.bound(item, path, depth + 1) for key, item in value.items()}
        if isinstance(value, Link):
            return str(value.cid)
        raise ExpressionFault(
            "values.expression_argument", f"{path} holds a {kind.__name__}, which is no plain value"
        )


def _checked_int(value: int, path: Path) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise ExpressionFault("values.expression_int_range", f"{path} holds an integer outside 64 bits")


def _checked_float(value: float, path: Path) -> float:
    if math.isfinite(value):
        return value
    raise ExpressionFault("values.expression_not_finite", f"{path} is not a finite number")


def _checked_key(key: object, path: Path) -> str:
    if isinstance(key, str):
        return key
    raise ExpressionFault("values.expression_argument", f"{path} holds a map with a key that is not text")


def answer(value: Any) -> Any:
    """Return a result as a plain value of its own: maps in canonical order, no `-0.0`, a type by its name."""
    kind = value.__class__
    if kind is float:
        return value + 0.0
    if kind is list:
        return [answer(item) for item in value]
    if kind is dict:
        return {key: answer(value[key]) for key in sorted(value, key=_canonical)}
    return str(value) if isinstance(value, str) else value


def _canonical(key: str) -> tuple[int, bytes]:
    raw = key.encode()
    return len(raw), raw
