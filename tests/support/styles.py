"""The order of `examples/13-styles` in every style: what each keeps, as one form; what is to happen.

A *view* is what an order is to whoever looks at it: status, reference, parcel. Reducers, machines and modules
react: what does not fit now is refused. Plans wait: an event that comes early is kept for its step.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from cellule import WorkflowRun
from cellule.kernel.journal.codes import Status
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import IntentRecord, ReceiptRecord, StepRecord
from tests.support.nodes import load_app
from tests.support.wasm_sources import built

EXAMPLE = Path(__file__).parents[2] / "examples" / "13-styles"
REACTS = ("in_python", "in_fsm", "in_c")
WAITS = ("in_plan", "in_workflow")
STYLES = (*REACTS, *WAITS)
PLAN_STATUS = {"charged": "charging", "shipped": "paid", "told": "sending"}

View = tuple[str, str, str]


def place_app(folder: Path) -> Path:
    """A copy of the example with its module built, in a folder; its file."""
    target = folder / "orders"
    shutil.copytree(EXAMPLE, target)
    (target / "order.wasm").write_bytes(built(EXAMPLE / "order.c"))
    return target / "orders.py"


def styles_app(folder: Path) -> ModuleType:
    """The example's own code, from such a copy."""
    return load_app(place_app(folder))


def view_of(state: Any) -> View | None:
    """What an order is, in whichever style it is kept."""
    if state is None:
        return None
    if isinstance(state, WorkflowRun):
        return view_of(state.published if state.result is None else state.result)
    if isinstance(state, list):  # a step of a workflow, as its history shows it: a line for each thing
        lines = [line.partition(" ") for line in state]
        shown = [text for what, _, text in lines if what in ("published", "completed:")]
        return view_of(json.loads(shown[-1])) if shown else None
    if not isinstance(state, dict):
        return state.status, state.reference, state.parcel
    if "commands" in state:  # a workflow's run as JSON
        return view_of(state.get("result", state.get("published")))
    if "at" not in state:  # a machine, or an order as JSON
        return state.get("state", state.get("status")), state.get("reference", ""), state.get("parcel", "")
    charged = state["step"].get("charged") or {}
    shipped = state["step"].get("shipped") or {}
    status = state["result"] if state["status"] == "ended" else PLAN_STATUS[state["at"]]
    return status, (charged.get("value") or {}).get("reference", ""), shipped.get("parcel", "")


class Story(NamedTuple):
    """What happens to one order, and the views it comes through; `kept` where an event is kept for later.

    Deeds: `place`, `ship`; `pay` or `no money`, the receipts of its charge; `told` or `lost`, of its letter.
    """

    deeds: tuple[str, ...]
    views: tuple[View, ...]
    refused: int = 0
    kept: tuple[View, ...] | None = None


CHARGING, PAID = ("charging", "", ""), ("paid", "r1", "")
SENDING, DONE, UNPAID = ("sending", "r1", "p1"), ("done", "r1", "p1"), ("unpaid", "", "")
WHOLE = (CHARGING, PAID, SENDING, DONE)
STORIES = {
    "shipped": Story(("place", "pay", "ship", "told"), WHOLE),
    "letter-lost": Story(("place", "pay", "ship", "lost"), WHOLE),
    "unpaid": Story(("place", "no money"), (CHARGING, UNPAID)),
    "unpaid-shipped": Story(("place", "no money", "ship"), (CHARGING, UNPAID), 1),
    "placed-twice": Story(("place", "place", "pay", "place", "ship", "told"), WHOLE, 2),
    "shipped-twice": Story(("place", "pay", "ship", "ship", "told", "ship"), WHOLE, 2),
    "never-placed": Story(("ship",), (), 1),
    "shipped-early": Story(("place", "ship", "pay"), (CHARGING, PAID), 1, (CHARGING, SENDING)),
}


def views_of(story: Story, style: str) -> tuple[View, ...]:
    """What an order comes through in a style."""
    return story.kept if story.kept is not None and style in WAITS else story.views


def changed(views: Iterable[View | None]) -> tuple[View, ...]:
    """Views without those that change nothing."""
    found: list[View] = []
    for view in views:
        if view is not None and view != (found[-1] if found else None):
            found.append(view)
    return tuple(found)


def life_of(frames: Iterable[bytes], module: str, key: str) -> list[tuple[str, str]]:
    """The records of a cell: steps that did something, what they asked for, and what came back."""
    cell, found = (module, key.encode()), []
    for frame in frames:
        for record in decode_frame(frame).records:
            if not isinstance(record, StepRecord | IntentRecord | ReceiptRecord):
                continue
            if (record.module, record.key) != cell:
                continue
            if isinstance(record, IntentRecord):
                found.append(("intent", record.kind))
            elif isinstance(record, ReceiptRecord):
                found.append(("receipt", record.schema))
            else:
                found.append(("step", Status(record.status).name.lower()))
    return found
