"""The regular expressions of `matches`: a text in the syntax of RE2, run as an automaton.

Time is linear in the text, whatever the pattern: every character moves the set of steps that are active. The
classes `\\d \\w \\s` and the flag `(?i)` mean ASCII, so that no table of Unicode decides an answer.
Look-around, back references and `\\p{...}` do not exist.

Rejected: Python's `re`. It tries one way after the other, and some patterns take it years.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from cellule.values.expressions.limits import DEPTH_MAX, PATTERN_SIZE_MAX

_Ranges = tuple[tuple[int, int], ...]
_Move = tuple[frozenset[int], int, str]
"""The steps that are next, what is true here, and the character that follows."""

_Emit = Callable[["_Program"], None]
"""A part of a pattern: writes its steps to the end of a program."""

_LAST: Final = 0x10FFFF
_DIGIT: Final[_Ranges] = ((48, 57),)
_WORD: Final[_Ranges] = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Final[_Ranges] = ((9, 10), (12, 13), (32, 32))
_CLASSES: Final[dict[str, _Ranges]] = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_POSIX: Final[dict[str, _Ranges]] = {
    "alpha": ((65, 90), (97, 122)), "digit": _DIGIT, "alnum": ((48, 57), (65, 90), (97, 122)),
    "upper": ((65, 90),), "lower": ((97, 122),), "space": ((9, 13), (32, 32)), "word": _WORD,
    "xdigit": ((48, 57), (65, 70), (97, 102)), "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
}  # fmt: skip
_ESCAPES: Final = dict(zip("aftnrv", "\a\f\t\n\r\v", strict=True))
_COUNT: Final = re.compile(r"\{([0-9]{1,4})(?:(,)([0-9]{1,4})?)?\}", re.ASCII)
_HEX: Final = re.compile(r"x(?:([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,6})\})", re.ASCII)
_GROUP: Final = re.compile(r"\?(?:P?<[A-Za-z_]\w*>|(?P<flags>[imsU]*)(?P<end>[:)]))", re.ASCII)

MOVES_MAX: Final = 4_096
"""Most moves that one pattern remembers."""

START, END, LINE_START, LINE_END, BOUNDARY, INSIDE = 1, 2, 4, 8, 16, 32
"""What is true between two characters, as bits."""


class PatternError(Exception):
    """A text that is no regular expression."""


class PatternTooLarge(Exception):
    """A pattern with too many steps, or brackets too deep inside each other."""


class _Step(NamedTuple):
    """A character of `ranges`; else, without reading one, all of `to` where every bit of `needs` is true."""

    ranges: _Ranges | None
    to: tuple[int, ...] = ()
    needs: int = 0


class _Program:
    def __init__(self) -> None:
        self.steps: list[_Step] = []

    def add(self, step: _Step) -> int:
        if len(self.steps) >= PATTERN_SIZE_MAX:
            raise PatternTooLarge
        self.steps.append(step)
        return len(self.steps) - 1

    @property
    def end(self) -> int:
        return len(self.steps)


class Pattern:
    """A compiled pattern; `size` is the number of its steps.

    `_moves` remembers where a set of steps leads by a character: how the same texts are met again and again.
    """

    __slots__ = ("_moves", "_needs_neighbours", "_steps", "size")

    def __init__(self, text: str) -> None:
        program = _Program()
        _Parser(text).whole()(program)
        self._steps = program.steps
        self._needs_neighbours = any(step.needs & ~(START | END) for step in self._steps)
        self._moves: dict[_Move, frozenset[int]] = {}
        self.size = len(self._steps) + 1

    def is_in(self, text: str) -> bool:
        """Tell whether a part of `text` matches."""
        last = len(text)
        pending: frozenset[int] = frozenset()
        for at in range(last + 1):
            if self._needs_neighbours:
                here = _between(text, at)
            else:
                here = (0 if at else START) | (0 if at < last else END)
            move = (pending, here, text[at : at + 1])
            known = self._moves.get(move)
            pending = self._remembered(move) if known is None else known
            if len(self._steps) in pending:
                return True
        return False

    def _remembered(self, move: _Move) -> frozenset[int]:
        if len(self._moves) >= MOVES_MAX:
            self._moves.clear()
        return self._moves.setdefault(move, self._moved(*move))

    def _moved(self, pending: frozenset[int], here: int, character: str) -> frozenset[int]:
        """The steps that follow those which read `character`; only the end where it was reached before."""
        code = ord(character) if character else -1
        found: set[int] = set()
        seen: set[int] = set()
        ahead = [0, *pending]  # a match may begin anywhere
        while ahead:
            at = ahead.pop()
            if at in seen:
                continue
            seen.add(at)
            if at == len(self._steps):
                return frozenset({at})
            step = self._steps[at]
            if step.ranges is None:
                ahead.extend(step.to if step.needs & ~here == 0 else ())
            elif any(low <= code <= high for low, high in step.ranges):
                found.add(at + 1)
        return frozenset(found)


def _between(text: str, at: int) -> int:
    before, after = text[at - 1 : at] if at else "", text[at : at + 1]
    bits = BOUNDARY if _is_word(before) != _is_word(after) else INSIDE
    bits |= 0 if before else START
    bits |= 0 if after else END
    bits |= LINE_START if before in ("", "\n") else 0
    return bits | (LINE_END if after in ("", "\n") else 0)


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


def _one(ranges: _Ranges) -> _Emit:
    def emit(program: _Program) -> None:
        program.add(_Step(ranges))

    return emit


def _assertion(needs: int) -> _Emit:
    def emit(program: _Program) -> None:
        program.add(_Step(None, (program.end + 1,), needs))

    return emit


def _sequence(parts: list[_Emit]) -> _Emit:
    def emit(program: _Program) -> None:
        if not parts:
            program.add(_Step(None, (program.end + 1,)))  # so that repeating nothing is counted too
        for part in parts:
            part(program)

    return emit


def _either(parts: list[_Emit]) -> _Emit:
    def emit(program: _Program) -> None:
        jumps = []
        for part in parts[:-1]:
            split = program.add(_Step(None))
            part(program)
            jumps.append(program.add(_Step(None)))
            program.steps[split] = _Step(None, (split + 1, program.end))
        parts[-1](program)
        for jump in jumps:
            program.steps[jump] = _Step(None, (program.end,))

    return emit


def _repeated(part: _Emit, least: int, most: int | None) -> _Emit:
    def emit(program: _Program) -> None:
        for _ in range(least):
            part(program)
        if most is None:
            split = program.add(_Step(None))
            part(program)
            program.add(_Step(None, (split,)))
            program.steps[split] = _Step(None, (split + 1, program.end))
            return
        splits = []
        for _ in range(most - least):
            splits.append(program.add(_Step(None)))
            part(program)
        for split in splits:
            program.steps[split] = _Step(None, (split + 1, program.end))

    return emit


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._flags = frozenset[str]()

    def whole(self) -> _Emit:
        emit = self._alternatives()
        if self._at < len(self._text):
            raise PatternError("a bracket is closed that was not opened")
        return emit

    def _taken(self, sign: str) -> bool:
        if self._text.startswith(sign, self._at):
            self._at += len(sign)
            return True
        return False

    def _character(self) -> str:
        if self._at >= len(self._text):
            raise PatternError("the pattern ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _alternatives(self) -> _Emit:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise PatternTooLarge
        flags, branches = self._flags, [self._branch()]
        while self._taken("|"):
            branches.append(self._branch())
        self._flags = flags
        self._depth -= 1
        return _either(branches)

    def _branch(self) -> _Emit:
        parts: list[_Emit] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            atom = self._atom()
            if atom is not None:
                parts.append(self._counted(atom))
        return _sequence(parts)

    def _counted(self, atom: _Emit) -> _Emit:
        bounds = self._bounds()
        if bounds is None:
            return atom
        self._taken("?")  # lazy or not, the same texts match
        if self._text[self._at : self._at + 1] in ("*", "+", "?", "{"):
            raise PatternError("a repetition is repeated")
        return _repeated(atom, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._taken(sign):
                return bounds
        if not self._text.startswith("{", self._at):
            return None
        count = _COUNT.match(self._text, self._at)
        if count is None:
            raise PatternError("a count is written {n}, {n,} or {n,m}")
        self._at = count.end()
        least = int(count[1])
        most = least if count[2] is None else None if count[3] is None else int(count[3])
        if most is not None and most < least:
            raise PatternError("a count ends before it begins")
        return least, most

    def _atom(self) -> _Emit | None:
        """The next part; None for flags, which are none."""
        sign = self._character()
        match sign:
            case "(":
                return self._group()
            case "[":
                return _one(self._class())
            case ".":
                return _one(((0, _LAST),) if "s" in self._flags else ((0, 9), (11, _LAST)))
            case "^":
                return _assertion(LINE_START if "m" in self._flags else START)
            case "$":
                return _assertion(LINE_END if "m" in self._flags else END)
            case "*" | "+" | "?" | "{":
                raise PatternError("there is nothing to repeat")
            case "\\":
                return self._escaped()
        return _one(self._folded(_single(ord(sign))))

    def _group(self) -> _Emit | None:
        flags = self._flags
        if self._text.startswith("?", self._at):
            group = _GROUP.match(self._text, self._at)
            if group is None:
                raise PatternError("there is no such group")
            self._at = group.end()
            self._flags = flags | set(group["flags"] or "")
            if group["end"] == ")":
                return None  # the flags hold to the end of the group around
        emit = self._alternatives()
        self._flags = flags
        if not self._taken(")"):
            raise PatternError("a bracket is not closed")
        return emit

    def _escaped(self) -> _Emit:
        needs = {"A": START, "z": END, "b": BOUNDARY, "B": INSIDE}
        sign = self._text[self._at : self._at + 1]
        if sign in needs:
            self._at += 1
            return _assertion(needs[sign])
        return _one(self._folded(self._escape()))

    def _escape(self) -> _Ranges:
        sign = self._character()
        if sign.lower() in _CLASSES:
            ranges = _CLASSES[sign.lower()]
            return ranges if sign.islower() else _outside(ranges)
        if sign in _ESCAPES:
            return _single(ord(_ESCAPES[sign]))
        code = _HEX.match(self._text, self._at - 1)
        if code is not None:
            self._at = code.end()
            return _single(int(code[1] or code[2], 16))
        if sign.isascii() and not sign.isalnum():
            return _single(ord(sign))
        raise PatternError("there is no such escape")

    def _class(self) -> _Ranges:
        negated = self._taken("^")
        ranges: _Ranges = ()
        is_first = True
        while is_first or not self._taken("]"):
            is_first = False
            ranges += self._class_item()
        ranges = self._folded(ranges)
        return _outside(ranges) if negated else ranges

    def _class_item(self) -> _Ranges:
        if self._taken("[:"):
            negated = self._taken("^")
            end = self._text.find(":]", self._at)
            name = self._text[self._at : end]
            if end < 0 or name not in _POSIX:
                raise PatternError("there is no such class")
            self._at = end + 2
            return _outside(_POSIX[name]) if negated else _POSIX[name]
        low = self._class_character()
        if self._text[self._at : self._at + 1] != "-" or self._text[self._at + 1 : self._at + 2] in ("]", ""):
            return low
        self._at += 1
        high = self._class_character()
        first, last = low[0], high[0]
        if len(low) > 1 or len(high) > 1 or first[0] != first[1] or last[0] != last[1] or first > last:
            raise PatternError("a range goes from one character to a later one")
        return ((first[0], last[0]),)

    def _class_character(self) -> _Ranges:
        sign = self._character()
        return self._escape() if sign == "\\" else _single(ord(sign))

    def _folded(self, ranges: _Ranges) -> _Ranges:
        return (*ranges, *_other_case(ranges)) if "i" in self._flags else ranges


def _single(code: int) -> _Ranges:
    if code > _LAST:
        raise PatternError("there is no such character")
    return ((code, code),)


def _outside(ranges: _Ranges) -> _Ranges:
    found, begin = [], 0
    for low, high in sorted(ranges):
        if begin < low:
            found.append((begin, low - 1))
        begin = max(begin, high + 1)
    return (*found, (begin, _LAST)) if begin <= _LAST else tuple(found)


def _other_case(ranges: _Ranges) -> Iterator[tuple[int, int]]:
    for low, high in ranges:
        for first, last, away in ((65, 90, 32), (97, 122, -32)):
            if max(low, first) <= min(high, last):
                yield max(low, first) + away, min(high, last) + away
