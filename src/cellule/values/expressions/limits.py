"""Every limit of expressions, and how much work one can cause.

They decide which expressions are accepted, so they only grow.
Work is a polynomial in the size of the values bound. It is computed when an expression is compiled, so that
an evaluation only compares one number. The bound is generous, not exact; it holds for time and for the size
of every value on the way, because each grows by a node, an item or a copy.
"""

from __future__ import annotations

from typing import Final

TEXT_BYTES_MAX: Final = 4_000
"""Longest expression, as UTF-8."""

DEPTH_MAX: Final = 40
"""Most levels of nesting; terms joined by operators are one level, each step of a path is one."""

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1

PATTERN_SIZE_MAX: Final = 512
"""Largest regular expression, in steps of its automaton: counted repetitions are written out."""

WORK_MAX: Final = 5_000_000
"""Most units of work of one evaluation; a unit is a node evaluated, an item visited or a part copied.

Measured at 0.05 to 0.15 us a unit, so the longest evaluation takes some tenths of a second.
"""

WORK_DEGREE_MAX: Final = 3
"""Most loops over values inside each other."""

SIZE_MIN: Final = 16
"""An expression that could not be evaluated over values of even this size is refused when compiled."""

PART_BYTES: Final = 64
"""A bound value has size 1, and 1 more for every so many bytes of text."""

VALUE_DEPTH_MAX: Final = 128
SHOWN_CHARS_MAX: Final = 60

Work = tuple[int, ...]
"""Coefficients: `(3, 2)` is 3 + 2n, where n is the size of all bound values."""

ONE: Final[Work] = (1,)
ALL: Final[Work] = (0, 1)


def plus(*parts: Work) -> Work:
    """One node more than all `parts` together."""
    length = max((len(part) for part in parts), default=1)
    sums = [sum(part[degree] for part in parts if degree < len(part)) for degree in range(length)]
    return (sums[0] + 1, *sums[1:])


def times(outer: Work, inner: Work) -> Work:
    """`inner` done `outer` times."""
    product = [0] * (len(outer) + len(inner) - 1)
    for i, left in enumerate(outer):
        for j, right in enumerate(inner):
            product[i + j] += left * right
    return tuple(product)


def size_max(work: Work) -> int:
    """The largest size of bound values for which `work` stays within bounds; -1 if there is none."""
    if len(work) - 1 > WORK_DEGREE_MAX or work[0] > WORK_MAX:
        return -1
    low, high = 0, WORK_MAX
    while low < high:
        middle = (low + high + 1) // 2
        if sum(factor * middle**degree for degree, factor in enumerate(work)) <= WORK_MAX:
            low = middle
        else:
            high = middle - 1
    return low
