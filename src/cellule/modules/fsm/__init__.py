"""FSM contracts: a YAML file of states and transitions as the code of a module.

    document (YAML with lines) -> read -> graph (checks) -> contract (data) -> machine (compiled) -> program

Every cell is one machine. A step on an event takes the first transition from the current state whose trigger
the event is and whose guard holds; there is none: the step refuses, and nothing changes. What happened stands
typed in the Step record's note (`records.py`), so the journal is the history.

Rejected: an emitted event for each transition as the record of it. It costs a record of its own and a place
in the queue of the world for what is the step's own outcome; `announce: true` emits them where others listen.
"""

from cellule.modules.fsm.programs import FsmPrograms
from cellule.modules.fsm.records import StateChange, state_changes

__all__ = ["FsmPrograms", "StateChange", "state_changes"]
