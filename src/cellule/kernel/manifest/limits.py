"""Every number of manifests and routing, in one place. Those marked *format* decide which manifests load."""

from __future__ import annotations

from typing import Final

FORMAT_VERSION: Final = 0  # format: the version that stands in every normal form
KEY_BYTES_MAX: Final = 512  # format: longest key of a cell, in ABI bytes
# format: most schemas, modules, subscriptions, upcasters or other entries of a section
ENTRIES_MAX: Final = 10_000
# format: longest text that is not a name, such as an effect kind, an inbox source or a key path
TEXT_CHARS_MAX: Final = 1_000
TIMEOUT_NS_DEFAULT: Final = 0  # format: as the adapter has it
ATTEMPTS_DEFAULT: Final = 0  # format: as the adapter has it; so are timeout and deadline where they are 0
ATTEMPTS_MAX: Final = 10_000  # format: most attempts of an effect
PRIORITY_DEFAULT: Final = 5  # priority of an effect that does not say another
PRIORITY_MAX: Final = 9  # format: the priority that is served last; 0 is served first
OPEN_MAX_DEFAULT: Final = 10_000  # open external intents of a module before its events wait
OPEN_MAX_MAX: Final = 10_000_000  # format: highest `open_max` of a module
BYTES_MAX_MAX: Final = 1 << 30  # format: highest `bytes_max` of a grant
COUNT_MAX: Final = 10**12  # format: highest count of a budget
# missed times that a schedule with `backfill` makes up for, if it does not say another number
BACKFILL_DEFAULT: Final = 100
BACKFILL_MAX: Final = 1_000  # format: most missed times that a schedule makes up for
RULES_MAX: Final = 1_000  # format: most rules of a policy; every intent is held against them in order
PROBLEMS_MAX: Final = 100  # problems listed for one manifest; the rest is found when these are mended
# characters of one step of a path, or of a name that is looked for among the known ones
SHOWN_CHARS_MAX: Final = 300
SUGGESTIONS_MAX: Final = 3  # names offered beside one that is not known
