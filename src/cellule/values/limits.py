"""Every limit of canonical values, in one place.

They are part of the format: what one node writes every other node must read. Lowering one makes stored
bytes unreadable, so they only ever grow, together with the format version.
"""

from __future__ import annotations

from typing import Final

BYTES_MAX: Final = 8_000_000
"""Longest encoded value."""

DEPTH_MAX: Final = 128
"""Most lists and maps open at once; a value that is no container has depth 0."""

INT_MIN: Final = -(1 << 64)
INT_MAX: Final = (1 << 64) - 1

RECURSION_LIMIT_SAFE: Final = 10_000
"""libipld recurses natively, about 600 bytes a level, as deep as `sys.getrecursionlimit()` allows.

Measured on a stack of 8 MB: 12,000 levels pass, 15,000 end the process. Above this setting the exact
reader and writer, which do not recurse, take over.
"""

NAMESPACE_CHARS_MAX: Final = 128
LOCAL_CHARS_MAX: Final = 128
VERSION_MAX: Final = (1 << 32) - 1
