"""`cellule workflow`: runs as people read them, and what people tell them: to stop, or to begin anew."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cellule.cli.cell_versions import read_versions
from cellule.cli.controls import Act, Once, perform_on
from cellule.cli.output import compact, counted, facts, table
from cellule.cli.session import Session, cell_of, in_session, renderer_of, within
from cellule.errors import Rejected
from cellule.host.ingress.cell_handle import CellHandle
from cellule.host.ingress.handles import WorldHandle
from cellule.host.limits import HISTORY_MAX
from cellule.host.read.calls import find_called
from cellule.host.read.history import Version
from cellule.host.read.record_view import key_text
from cellule.kernel.limits import DROP_PER_CONTROL_MAX
from cellule.kernel.manifest.model import Manifest
from cellule.modules.workflow.signature import CANCEL, RERUN, order_event
from cellule.modules.workflow.view import Timeline, is_workflow
from cellule.values.schema.text_forms import time_text

app = typer.Typer(help="Workflows: runs, their timelines, stopping them, letting them begin anew.",
                  no_args_is_help=True)  # fmt: skip

Module = Annotated[str, typer.Argument(help="The workflow, with or without its namespace.")]
Key = Annotated[str, typer.Argument(help="The run's key; leave it out for a workflow without keys.")]


@app.command()
@in_session
async def show(session: Session, module: Module, key: Key = "") -> None:
    """Show a run: how it stands, what it waits for since when, what it published and gave."""
    async with session.world_to_read() as world:
        manifest, cell = await _run(world, module, key)
        view = await cell.view()
        if view is None:
            raise _no_run(world, module, key)
        run: dict[str, Any] = view.state or {}
        data: dict[str, Any] = {"world": world.name, "module": cell.module, "key": key}
        data |= {"status": view.status, "run": run}
        shown: list[Any] = [facts(_facts(run, view.status, view.reason, view.queue))]
        if run.get("waits"):
            columns = ("what", "since", "until", "place")
            rows = [[str(wait.get(name) or "") for name in columns] for wait in run["waits"]]
            shown.append(table([name.upper() for name in columns], rows, title="waits for"))
            data["called"] = await _called(world, manifest, cell, run["waits"])
            shown += [
                f"{each['module']} {each['key']}, which it called: {each['reason']}"
                for each in data["called"]
            ]
        session.output.document(data, *shown)


@app.command()
@in_session
async def history(
    session: Session, module: Module, key: Key = "",
    limit: Annotated[int, typer.Option(help="Steps, the newest ones.", min=1, max=HISTORY_MAX)] = 100,
) -> None:  # fmt: skip
    """Show what came to a run and what it asked for, oldest first."""
    async with session.world_to_read() as world:
        _, cell = await _run(world, module, key)
        with session.output.progress("reading the history") as step:
            versions, more = await read_versions(cell, limit, step)
        if not versions:
            raise _no_run(world, module, key)
        rows = [_step(each) for each in reversed(versions)]
        rows = [each for each in rows if each.get("lines") != []]  # an answer that nobody waited for any more
        data = {"world": world.name, "module": cell.module, "key": key, "steps": rows, "more": more}
        earlier = ["earlier steps are not shown: --limit"] if more else []
        session.output.document(data, *earlier, *map(_step_text, rows))


@app.command()
@in_session
async def cancel(session: Session, act: Once, module: Module, key: Key = "") -> None:
    """Cancel a run: it ends where it waits, once its `finally` blocks are done."""
    await _tell(session, module, key, CANCEL, act)


@app.command()
@in_session
async def rerun(session: Session, act: Once, module: Module, key: Key = "") -> None:
    """Let a run begin anew with the event that started it; what it did is not undone.

    Of a halted one, the events that wait are dropped: they were for the run that ends.
    """
    await _tell(session, module, key, RERUN, act)


async def _called(
    world: WorldHandle, manifest: Manifest, cell: CellHandle[Any], waits: list[dict[str, Any]]
) -> list[dict[str, str]]:
    """The cells that the run has called and that have not answered, with what they wait for."""
    calls = {each["call"]: each["what"] for each in waits if each.get("call")}
    return [
        {
            "what": calls[each.call], "module": each.module,
            "key": key_text(manifest, each.module, each.key), "reason": each.reason,
        }
        for each in await find_called(world.reader, cell.module, cell.key, calls)
    ]  # fmt: skip


async def _tell(session: Session, module: str, key: str, verb: str, act: Once) -> None:
    async with within(act.timeout_s, f"the outcome of workflow {verb}"), session.world_to_change() as world:
        manifest, cell = await _run(world, module, key)
        view = await cell.view()
        if view is None:
            raise _no_run(world, module, key)
        is_halted = view.status == "halted"
        known = manifest.modules[cell.module]
        event = (order_event(known.name), {"verb": verb, "why": act.why})
        typed = None if known.key is None else cell.key
        applied = await world.send(event, key=typed, id=act.id, wait="durable" if is_halted else "applied")
        dropped = min(view.queue, DROP_PER_CONTROL_MAX) if is_halted and verb == RERUN else 0
        if dropped:
            arguments = {"module": cell.module, "key": cell.key, "count": dropped}
            await perform_on(session, world, "cell.drop", Act(act.why, act.timeout_s), **arguments)
        after: dict[str, Any] = (await cell.state()) or {"status": "gone"}
        data = {
            "world": world.name, "module": cell.module, "key": key, "verb": verb, "height": applied.height,
            "dropped": dropped, "run": after,
        }  # fmt: skip
        text = f"{module} {key}".strip() + f": {verb} at height {applied.height}; it is {after['status']}"
        if is_halted and verb == CANCEL:
            text += f", and halted: it hears of this once it goes on, `cellule cell resume {module} {key}`"
        session.output.document(data, f"{text}; {counted(dropped, 'event')} dropped" if dropped else text)


async def _run(world: WorldHandle, module: str, key: str) -> tuple[Manifest, CellHandle[Any]]:
    manifest = await renderer_of(world).manifest()
    base, stored = cell_of(manifest, module, key)
    if not is_workflow(manifest.modules[base]):
        raise Rejected(
            "cli.no_workflow", "{module} is no workflow", module=base,
            hint="See any cell with `cellule cell show`.",
        )  # fmt: skip
    return manifest, CellHandle(world, base, stored)


def _no_run(world: WorldHandle, module: str, key: str) -> Rejected:
    return Rejected(
        "cli.no_cell", "there is no cell {module} {key} in world {world}{when}",
        module=module, key=key, world=world.name, when="", hint=f"See `cellule cell list {module}`.",
    )  # fmt: skip


def _facts(run: dict[str, Any], status: str, reason: str, queue: int) -> dict[str, object]:
    pairs: dict[str, object] = {"status": f"{run['status']}, run {run['number']}", "started": run["started"]}
    pairs |= {"by": run["event"], "commands": run.get("commands", 0)}
    if status != "waiting":
        pairs["cell"] = f"{status}: {reason}, {counted(queue, 'event')} waiting"
    for name in ("ended", "text"):
        if name in run:
            pairs[name] = run[name]
    for name in ("published", "result"):
        if name in run:
            pairs[name] = compact(run[name])
    return pairs


def _step(version: Version[Any]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "height": version.height, "time": time_text(version.now_ns), "status": version.status,
        "event": version.schema,
    }  # fmt: skip
    if isinstance(version.state, Timeline):
        row["lines"] = list(version.state)
    if version.error:
        row |= {"error": version.error, "code": version.code}
    return row


def _step_text(row: dict[str, Any]) -> str:
    lines = row.get("lines") or [row["event"]]
    if len(lines) == 1 and lines[0] != row["event"]:  # the step that ends a run keeps no more than how
        lines = [row["event"], *lines]
    if "error" in row:
        lines = [*lines, f"{row['status']}: {row['error']} [{row['code']}]"]
    return "\n".join([f"{row['time'][:19]}  {lines[0]}", *(f"{'':19}  {line}" for line in lines[1:])])
