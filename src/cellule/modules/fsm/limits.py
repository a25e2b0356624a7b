"""Every limit of FSM contracts. They decide which contracts are accepted, so they only grow."""

from __future__ import annotations

from typing import Final

CONTRACT_BYTES_MAX: Final = 512 * 1024
"""Longest contract, as UTF-8."""

STATES_MAX: Final = 500
"""States of one contract."""

TRANSITIONS_MAX: Final = 5_000
"""Transitions of one contract, each state of a list counted."""

FIELDS_MAX: Final = 200
"""Fields of a contract's data, or of one of its events."""

REQUESTS_MAX: Final = 20
"""Requests for effects in one list; a step runs three lists at most: exit, transition, entry."""

AFTER_NS_MAX: Final = 100 * 365 * 86_400 * 10**9
"""Longest timeout, in nanoseconds: a hundred years."""

PARTS_MAX: Final = 1_000
"""Values in one template of params."""

DEPTH_MAX: Final = 30
"""How deep maps and lists nest in a contract."""

PROBLEMS_MAX: Final = 50
"""Problems that one refusal lists."""

ALLOWED_SHOWN_MAX: Final = 20
"""Triggers that a refused event is told of."""

DRAWN_STATES_MAX: Final = 120
"""States of one picture."""

DRAWN_ARROWS_MAX: Final = 400
"""Arrows of one picture."""

EXAMPLES_MAX: Final = 400
"""Values of one event that are tried for a transition."""

TRIES_MAX: Final = 20_000
"""Steps that are tried to walk a whole machine; what is not reached by then is walked by hand."""

PATHS_MAX: Final = 200
"""Paths through one machine that are walked."""

BEGINNINGS_MAX: Final = 30
"""Values of the first event from which a machine is walked."""
