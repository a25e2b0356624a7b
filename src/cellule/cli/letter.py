"""`cellule letter`: dead letters, which are events and effects that were given up."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cellule.cli.controls import Act
from cellule.cli.effect_lines import letter_json, letter_line
from cellule.cli.errors import usage
from cellule.cli.session import Session, in_session, operator, renderer_of, within
from cellule.host.codecs import StoredCodecs
from cellule.host.ingress.handles import WorldHandle
from cellule.host.ingress.world_effects import LIST_MAX
from cellule.host.read.effects.model import Letter

app = typer.Typer(help="Dead letters: events and effects that were given up.", no_args_is_help=True)

Heights = Annotated[list[int] | None, typer.Argument(help="Dead letters, by their heights.", min=1)]
All = Annotated[bool, typer.Option("--all", help="All of them, or all of --module.")]
Module = Annotated[str | None, typer.Option(help="Of this module only.")]


@app.command("list")
@in_session
async def list_(
    session: Session, module: Module = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=LIST_MAX)] = 50,
    after: Annotated[int, typer.Option(help="Only above this height.", min=0)] = 0,
) -> None:  # fmt: skip
    """List dead letters, oldest first."""
    async with session.world_to_read() as world:
        renderer = renderer_of(world)
        found = await _page(world, await _base(world, module), limit, after)
        letters = [await letter_json(renderer, each) for each in found]
        following = found[-1].height if len(found) == limit else None
        data = {"world": world.name, "letters": letters, "next": following}
        session.output.document(data, *map(letter_line, letters))
        if not letters:
            session.output.note("there is no dead letter")
        if following is not None:
            session.output.note(f"there may be more: --after {following}")


@app.command()
@in_session
async def redrive(
    session: Session, act: Act, heights: Heights = None, every: All = False, module: Module = None
) -> None:  # fmt: skip
    """Let dead letters happen again: an event goes to its cell, an effect is requested once more."""
    await _act(session, "redrive", heights, every, module, act)


@app.command()
@in_session
async def dismiss(
    session: Session, act: Act, heights: Heights = None, every: All = False, module: Module = None
) -> None:  # fmt: skip
    """Let dead letters go for good."""
    await _act(session, "dismiss", heights, every, module, act)


async def _act(
    session: Session, verb: str, heights: list[int] | None, every: bool, module: str | None, act: Act
) -> None:  # fmt: skip
    if bool(heights) == every or (heights and module is not None):
        raise usage(
            "name dead letters by their heights, or say --all", hint="See them with `cellule letter list`."
        )
    async with session.world_to_change() as world:
        wanted = heights or [each.height async for each in _walk(world, await _base(world, module))]
        person = world.operator(operator())
        async with within(act.timeout_s, f"the outcome of letter {verb}"):
            done = await getattr(person, verb)(*wanted, why=act.why)
        data: dict[str, Any] = {
            "world": world.name,
            "letters": wanted,
            "heights": [each.height for each in done],
        }
        names = ", ".join(map(str, wanted[:20]))
        count = "1 dead letter" if len(wanted) == 1 else f"{len(wanted)} dead letters"
        session.output.document(
            data, f"letter {verb} in world {world.name}: {count}{f' ({names})' if names else ''}"
        )


async def _base(world: WorldHandle, module: str | None) -> str | None:
    if module is None:
        return None
    return StoredCodecs(await renderer_of(world).manifest()).module(module)


async def _page(world: WorldHandle, base: str | None, limit: int, after: int) -> list[Letter]:
    found: list[Letter] = []
    async for letter in _walk(world, base, after):
        found.append(letter)
        if len(found) == limit:
            break
    return found


async def _walk(world: WorldHandle, base: str | None, after: int = 0) -> Any:
    while page := await world.dead_letters(limit=LIST_MAX, after=after):
        for letter in page:
            if base is None or letter.module == base:
                yield letter
        after = page[-1].height
