"""`cellule`: the root command and its global options.

Global options may stand anywhere on the line, before or after the command: they are brought to the front
before the line is read.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import cellule
from cellule.cli import (
    archive,
    beat,
    cell,
    effect,
    enzyme,
    event,
    fsm,
    gc,
    item,
    journal,
    letter,
    mailbox,
    module,
    op,
    receipt,
    ref,
    schedule,
    secret,
    tree,
    universe,
    workflow,
    world,
    world_storage,
)
from cellule.cli.backup import backup, restore
from cellule.cli.bench import bench
from cellule.cli.check import check
from cellule.cli.deploy import deploy
from cellule.cli.dev import dev
from cellule.cli.doctor import doctor
from cellule.cli.errors import Exit, error_json, usage
from cellule.cli.init import init
from cellule.cli.output import Output, close_broken_pipe, prepare_streams
from cellule.cli.run import run
from cellule.cli.session import Session
from cellule.cli.signal import signal
from cellule.cli.stuck import stuck
from cellule.cli.verify import reseed, verify
from cellule.cli.why import why

_VALUED = ("--data", "--objects", "--app", "--world", "--universe")
_FLAGS = ("--json",)
_EPILOG = "--data, --objects, --app, --world, --universe and --json may stand anywhere on the line."


class AnywhereGroup(TyperGroup):
    """A root command whose own options may also stand behind its subcommands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the line with the global options brought to the front."""
        return super().parse_args(ctx, globals_first(args))


def globals_first(arguments: list[str]) -> list[str]:
    """The same line with the global options in front; what stands behind `--` stays where it is.

    >>> globals_first(["cell", "show", "order", "o1", "--json", "--data", "d"])
    ['--json', '--data', 'd', 'cell', 'show', 'order', 'o1']
    """
    front: list[str] = []
    rest: list[str] = []
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        if argument == "--":
            rest += [argument, *waiting]
            break
        if argument in _VALUED:
            front += [argument, *waiting[:1]]
            waiting = waiting[1:]
        elif argument in _FLAGS or argument.partition("=")[0] in _VALUED:
            front.append(argument)
        else:
            rest.append(argument)
    return front + rest


app = typer.Typer(
    name="cellule", cls=AnywhereGroup, help="Cellule: a durable runtime for very many small state machines.",
    epilog=_EPILOG, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich",
)  # fmt: skip
app.add_typer(universe.app, name="universe")
app.add_typer(world.app, name="world")
app.add_typer(ref.app, name="ref")
cell.app.command("archive")(archive.export_cell)
cell.app.command("import")(archive.import_cell)
app.command("test-from")(archive.make_test)
for verb, command in world_storage.COMMANDS.items():
    world.app.command(verb)(command)
app.add_typer(cell.app, name="cell")
app.add_typer(module.app, name="module")
app.add_typer(event.app, name="event")
app.add_typer(fsm.app, name="fsm")
app.add_typer(workflow.app, name="workflow")
app.add_typer(journal.app, name="journal")
app.add_typer(gc.app, name="gc")
app.add_typer(effect.app, name="effect")
app.add_typer(letter.app, name="letter")
app.add_typer(receipt.app, name="receipt")
app.add_typer(item.app, name="item")
app.add_typer(schedule.app, name="schedule")
app.add_typer(mailbox.app, name="mailbox")
app.add_typer(op.app, name="op")
app.add_typer(enzyme.app, name="enzyme")
app.add_typer(beat.app, name="beat")
app.add_typer(tree.app, name="tree")
app.add_typer(secret.app, name="secret")
for command in (init, dev, run, deploy, signal, why, stuck, verify, check, backup, restore, bench, doctor):
    app.command()(command)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"cellule {cellule.__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    data: Annotated[
        str,
        typer.Option(envvar="CELLULE_DATA", help="The store: a folder or postgresql://user@host/database."),
    ] = "data",
    objects: Annotated[
        str | None,
        typer.Option(
            envvar="CELLULE_OBJECTS",
            help="Where large values go: a folder, s3://bucket/prefix, gs://... or az://...",
        ),
    ] = None,
    app: Annotated[
        str | None,
        typer.Option(envvar="CELLULE_APP", help="The app: FILE.py:app or module:app; few commands need it."),
    ] = None,
    world: Annotated[str | None, typer.Option(envvar="CELLULE_WORLD", help="The world: name or id.")] = None,
    universe: Annotated[str, typer.Option(envvar="CELLULE_UNIVERSE", help="The universe.")] = "default",
    json: Annotated[bool, typer.Option("--json", help="Answers and errors as JSON.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:  # fmt: skip
    """Cellule: a durable runtime for very many small state machines."""
    del version
    context.obj = Session(data, objects, app, world, universe, Output(as_json=json))


def main() -> None:
    """Run the command line and exit."""
    prepare_streams()
    reseed(sys.argv[1:])
    try:
        code = _run_json() if "--json" in sys.argv else _run()
    except Exception:  # noqa: BLE001 - a bug of ours: its place is all that helps
        traceback.print_exc()
        sys.stderr.write("This is a bug in Cellule: please report it with the lines above.\n")
        code = Exit.BUG
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read has left, with something still to be told
        close_broken_pipe()
    sys.exit(code)


def _run() -> int:
    """For people: typer itself tells what is wrong with the line."""
    try:
        app()
    except SystemExit as end:
        if end.__context__ is not None and isinstance(end.__context__.__cause__, KeyboardInterrupt):
            return Exit.INTERRUPTED  # typer has made an exit of its own of it
        return end.code if isinstance(end.code, int) else Exit.OK
    return Exit.OK


def _run_json() -> int:
    """For programs: what is wrong with the line is JSON too."""
    try:
        return int(app(standalone_mode=False) or 0)
    except typer.Abort:
        return Exit.INTERRUPTED
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        told = usage("{problem}", problem=error.format_message(), hint="See --help.")
        sys.stderr.write(json.dumps(error_json(told)) + "\n")
        return Exit.USAGE
