"""How much work an expression can cause, as a polynomial in the size of the values bound to it.

Computed when compiled, so that evaluation only compares one number. The bound is generous, not exact; it
holds for time and for the size of every value on the way, because each grows by a node, an item or a copy.
"""

from __future__ import annotations

from typing import Final

from cellule.values.expressions.limits import WORK_DEGREE_MAX, WORK_MAX

Work = tuple[int, ...]
"""Coefficients: `(3, 2)` is 3 + 2n, where n is the size of all bound values."""

ONE: Final[Work] = (1,)
ALL: Final[Work] = (0, 1)


def plus(*parts: Work) -> Work:
    """One node more than all `parts` together."""
    length = max((len(part) for part in parts), default=1)
    sums = [sum(part[degree] for part in parts if degree < len(part)) for degree in range(max(length, 1))]
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
