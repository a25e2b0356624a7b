"""Every limit of expressions, in one place. They decide which expressions are accepted, so they only grow."""

from __future__ import annotations

from typing import Final

TEXT_BYTES_MAX: Final = 4_000
"""Longest expression, as UTF-8."""

DEPTH_MAX: Final = 32
"""Most levels of nesting; terms joined by operators are one level, each step of a path is one.

The library's own parser gives up at about 95 brackets, and what is handed to it has one per level.
"""

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1

PATTERN_SIZE_MAX: Final = 256
"""Largest regular expression, by `patterns.pattern_size`."""

PATTERN_COST: Final = 1_000
"""Units of work per size of a pattern: the library compiles it at every evaluation, about 30 us a size."""

WORK_MAX: Final = 5_000_000
"""Most units of work of one evaluation; a unit is a node evaluated, an item visited or a part copied.

Measured at 0.01 to 0.1 us a unit, so the longest evaluation takes some tenths of a second.
"""

WORK_DEGREE_MAX: Final = 3
"""Most loops over values inside each other."""

SIZE_MIN: Final = 16
"""An expression that could not be evaluated over values of even this size is refused when compiled."""

PART_BYTES: Final = 64
"""A bound value has size 1, and 1 more for every so many bytes of text."""

VALUE_DEPTH_MAX: Final = 128
SHOWN_CHARS_MAX: Final = 60
