"""`cellule fsm`: contracts of states and transitions, and the machines that run them.

A contract is named by its file, by a module of `--app` or of the world; a machine as `module/key`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from cellule.cli.cell_versions import read_versions
from cellule.cli.controls import Timeout
from cellule.cli.fsm_contracts import contract_in_file, contract_named, machine_of
from cellule.cli.fsm_paths import write_paths
from cellule.cli.output import counted, facts, table, write_file
from cellule.cli.session import Session, in_session, within
from cellule.errors import Rejected
from cellule.host.codecs import StoredCodecs
from cellule.host.ingress.cell_handle import CellHandle
from cellule.host.limits import HISTORY_MAX
from cellule.kernel.manifest.model import TIMER_SET, Manifest
from cellule.modules.fsm.contract import Contract
from cellule.modules.fsm.graph import overlaps
from cellule.modules.fsm.interface import MANUAL, interface_of, manual_event
from cellule.modules.fsm.picture import mermaid
from cellule.modules.fsm.records import StateChange, state_changes
from cellule.modules.fsm.svg import draw
from cellule.values.json_view import to_json
from cellule.values.link import Link
from cellule.values.names import Name
from cellule.values.schema.scalars import time_ns
from cellule.values.schema.text_forms import time_text

app = typer.Typer(help="FSM contracts: checking, drawing, testing, moving by hand.", no_args_is_help=True)

Source = Annotated[str, typer.Argument(help="A contract's file, or a module of --app or of the world.")]
File = Annotated[str, typer.Argument(help="A contract's file.")]
Cell = Annotated[str, typer.Argument(help="The machine: order/o1.")]
Out = Annotated[Path | None, typer.Option(help="Write to this file.", dir_okay=False)]


@app.command()
@in_session
async def check(session: Session, file: File) -> None:
    """Check a contract, and show what it says."""
    contract = contract_in_file(file)
    data = _facts(contract)
    pairs = {name: ", ".join(each) if isinstance(each, list) else each for name, each in data.items()}
    session.output.document(data, facts({name: each for name, each in pairs.items() if each}))


@app.command()
@in_session
async def diagram(
    session: Session,
    source: Annotated[
        str, typer.Argument(help="A contract's file, a module, or a cell (order/o1), whose state is marked.")
    ],
    svg: Annotated[bool, typer.Option("--svg", help="An SVG picture instead of Mermaid text.")] = False,
    out: Out = None,
) -> None:
    """Draw a machine: Mermaid text, or an SVG picture."""
    found = await contract_named(session, source)
    made = (draw if svg or (out is not None and out.suffix == ".svg") else mermaid)(
        found.contract, found.current
    )
    _answer(session, made, out, {"machine": found.contract.title, "state": found.current})


@app.command()
@in_session
async def manifest(
    session: Session, file: File,
    name: Annotated[str, typer.Option(help="The module's full name.")] = "main/machine@1",
    out: Out = None,
) -> None:  # fmt: skip
    """Write a manifest that fits a contract: its module, schemas and routes."""
    contract = contract_in_file(file)
    made = interface_of(contract, name, uses_now=b"now_ns" in contract.source).document()
    code = made["modules"][name]["code"]
    made["modules"][name]["code"] = {each: code[each] for each in code if not isinstance(code[each], Link)}
    text = yaml.safe_dump(json.loads(json.dumps(made)), sort_keys=False, allow_unicode=True)
    _answer(session, text, out, {"module": name})
    wanted = [each for each in contract.effect_kinds() if each != TIMER_SET]
    if wanted:
        session.output.note(f"declare these effects, too, in the section `effects`: {', '.join(wanted)}")


@app.command()
@in_session
async def paths(
    session: Session, source: Source,
    out: Annotated[Path | None, typer.Option(help="The tests; test_MODULE_paths.py by default.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:  # fmt: skip
    """Write tests that walk every transition and path of a machine, the impossible ones too."""
    made = write_paths(session, source, out, force=force)
    text = f"{counted(made['tests'], 'test')} written to {made['file']}: {made['summary']}"
    session.output.document(made, f"{text}\nrun them: python -m pytest {made['file']}")


@app.command()
@in_session
async def transition(
    session: Session, cell: Cell,
    source: Annotated[str, typer.Option("--from", help="The state that you believe it is in.")],
    target: Annotated[str, typer.Option("--to", help="The state to move it to.")],
    trigger: Annotated[
        str, typer.Option(help="The transition's trigger; `manual` takes the first that leads there.")
    ] = MANUAL,
    id: Annotated[str | None, typer.Option(help="Doing it again with the same id changes nothing.")] = None,
    timeout_s: Timeout = 30.0,
) -> None:  # fmt: skip
    """Move a machine by hand, along a transition of its contract; its guard is not asked."""
    async with within(timeout_s, "the outcome of the transition"), session.world_to_change() as world:
        base, manifest, handle, contract = await machine_of(world, cell)
        event = manual_event(Name.parse(manifest.modules[base].name))
        value = {"from_state": source, "to_state": target, "trigger": trigger}
        applied = await world.send((event, {contract.key: _key(manifest, base, handle.key)} | value), id=id)
        change = await _change_at(handle, applied.steps[0].height) if applied.steps else None
        data = {"world": world.name, "cell": cell, "height": applied.height, "duplicate": applied.duplicate}
        moved = None if change is None else change_json(change)
        before = "done already: " if applied.duplicate else ""
        shown = "" if change is None else f": {change.from_state} -> {change.to_state} on {change.trigger}"
        session.output.document(
            {**data, "change": moved}, f"{before}{cell} at height {applied.height}{shown}"
        )


@app.command()
@in_session
async def history(
    session: Session, cell: Cell,
    limit: Annotated[int, typer.Option(help="Steps, the newest ones.", min=1, max=HISTORY_MAX)] = 100,
) -> None:  # fmt: skip
    """Show how a machine's state changed: from, to, by which trigger, and when."""
    async with session.world_to_read() as world:
        _, _, handle, _ = await machine_of(world, cell)
        with session.output.progress("reading the history") as step:
            versions, more = await read_versions(handle, limit, step)
        if not versions:
            raise Rejected(
                "cli.no_cell", "there is no cell {cell} in world {world}", cell=cell, world=world.name,
                hint="See `cellule cell list`.",
            )  # fmt: skip
        rows = [change_json(each) for each in state_changes(versions)]
        data = {"world": world.name, "cell": cell, "changes": rows, "more": more}
        names = ("time", "from", "to", "trigger", "height")
        shown = table(names, ([row[name] or "" for name in names] for row in rows))
        session.output.document(data, shown)


def _facts(contract: Contract) -> dict[str, Any]:
    """What a contract says, as JSON data."""
    triggers = contract.triggers.values()
    return {
        "machine": contract.title, "initial": contract.initial, "states": list(contract.states),
        "terminal": [each for each in contract.states if each in contract.terminal],
        "transitions": [
            f"{each.source} -> {each.target} on {each.trigger}" for each in contract.transitions
        ],
        "events": [each.name for each in triggers if each.receipt is None and not each.is_timer],
        "receipts": [each.receipt for each in triggers if each.receipt is not None],
        "effects": list(contract.effect_kinds()), "key": contract.key, "data": list(contract.data),
        "overlaps": [
            f"lines {one.line} and {two.line}: both may fit {one.trigger} in {one.source}; the first is taken"
            for one, two in overlaps(contract)
        ],
    }  # fmt: skip


def _answer(session: Session, text: str, out: Path | None, data: dict[str, Any]) -> None:
    """A text as the answer of a command, or into a file."""
    if out is None:
        session.output.document({**data, "text": text}, text.rstrip("\n"))
        return
    write_file(out, text)
    session.output.document({**data, "file": str(out)}, f"written to {out}")


def _key(manifest: Manifest, base: str, key: bytes) -> Any:
    """A key as it stands in the JSON of events."""
    module = manifest.modules[base]
    wire = StoredCodecs(manifest).typed_key(base).wire(key)
    return to_json(wire, module.key, manifest.schemas)


async def _change_at(cell: CellHandle[Any], height: int) -> StateChange | None:
    """The newest change of the step at a height."""
    changes = state_changes(await cell.history(limit=1, before=height + 1))
    return changes[-1] if changes else None


def change_json(change: StateChange) -> dict[str, Any]:
    """One change as JSON data."""
    return {
        "from": change.from_state, "to": change.to_state, "trigger": change.trigger,
        "time": time_text(time_ns(change.at)), "height": change.height,
    }  # fmt: skip
