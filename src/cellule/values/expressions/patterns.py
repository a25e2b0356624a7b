"""What a regular expression of `matches` may be: a literal, valid, and small.

The library's engine takes time linear in the text, but compiles the pattern at every evaluation; counted
repetitions and classes make that slow, so size is estimated here and counted as work.
"""

from __future__ import annotations

import re
from typing import Final

_REPEATED: Final = re.compile(r"\{(\d{1,9})?(?:,(\d{1,9})?)?\}")
_CLASSES: Final = re.compile(r"\\.|\.|\[|\(\?")
_CLASS_SIZE: Final = 8  # a class of Unicode compiles to many states, a plain character to one


def pattern_size(pattern: str) -> int:
    """Estimate what compiling `pattern` costs: characters and classes, times all counted repetitions.

    >>> pattern_size("^a+$"), pattern_size(r"[a-z]{10}") >= 100
    (4, True)
    """
    repeats = 1
    for low, high in _REPEATED.findall(pattern):
        repeats *= max(int(low or 0), int(high or 0), 1)
    return (len(pattern) + _CLASS_SIZE * len(_CLASSES.findall(pattern))) * repeats
