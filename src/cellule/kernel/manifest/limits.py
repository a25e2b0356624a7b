"""Every number of manifests and routing, in one place. Those marked *format* decide which manifests load."""

from __future__ import annotations

from typing import Final

FORMAT_VERSION: Final = 0
"""Format: the version that stands in every normal form."""

KEY_BYTES_MAX: Final = 512
"""Format: longest key of a cell, in ABI bytes."""

ENTRIES_MAX: Final = 10_000
"""Format: most schemas, modules, subscriptions, inboxes, triggers or upcasters of one manifest."""

TEXT_CHARS_MAX: Final = 1_000
"""Format: longest text that is not a name, such as an effect kind, an inbox source or a key path."""

PROBLEMS_MAX: Final = 100
"""Problems listed for one manifest; the rest is found when these are mended."""

SHOWN_CHARS_MAX: Final = 300
"""Characters of one step of a path, or of a name that is looked for among the known ones."""

SUGGESTIONS_MAX: Final = 3
"""Names offered beside one that is not known."""
