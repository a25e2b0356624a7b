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

TIMEOUT_NS_DEFAULT: Final = 60 * 10**9
"""Time for one attempt of an effect that does not say another."""

ATTEMPTS_DEFAULT: Final = 5
"""Attempts of an effect that does not say another number."""

ATTEMPTS_MAX: Final = 10_000
"""Format: most attempts of an effect."""

PRIORITY_DEFAULT: Final = 5
"""Priority of an effect that does not say another."""

PRIORITY_MAX: Final = 9
"""Format: the priority that is served last; 0 is served first."""

OPEN_MAX_DEFAULT: Final = 10_000
"""Open external intents of a module before its events wait."""

OPEN_MAX_MAX: Final = 10_000_000
"""Format: highest `open_max` of a module."""

BYTES_MAX_MAX: Final = 1 << 30
"""Format: highest `bytes_max` of a grant."""

COUNT_MAX: Final = 10**12
"""Format: highest count of a budget."""

BACKFILL_DEFAULT: Final = 100
"""Missed times that a schedule with `backfill` makes up for, if it does not say another number."""

BACKFILL_MAX: Final = 1_000
"""Format: most missed times that a schedule makes up for."""

RULES_MAX: Final = 1_000
"""Format: most rules of a policy; every intent is held against them in order."""

PROBLEMS_MAX: Final = 100
"""Problems listed for one manifest; the rest is found when these are mended."""

SHOWN_CHARS_MAX: Final = 300
"""Characters of one step of a path, or of a name that is looked for among the known ones."""

SUGGESTIONS_MAX: Final = 3
"""Names offered beside one that is not known."""
