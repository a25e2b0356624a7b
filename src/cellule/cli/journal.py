"""`cellule journal`: what happened in a world, record by record."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from cellule.cli.correlation import Correlation, among, correlations
from cellule.cli.errors import usage
from cellule.cli.given import number_of
from cellule.cli.lines import record_line
from cellule.cli.session import Session, in_session, renderer_of, until_interrupted
from cellule.errors import Rejected

app = typer.Typer(help="The journal: every record of a world, in order.", no_args_is_help=True)

RECORDS_MAX = 10_000  # records one `show` writes


@app.command()
@until_interrupted
async def tail(
    session: Session,
    lines: Annotated[int, typer.Option("--lines", "-n", help="To begin with.", min=0, max=RECORDS_MAX)] = 10,
    after: Annotated[int | None, typer.Option(help="Begin behind this height instead.", min=0)] = None,
    follow: Annotated[bool, typer.Option(help="Go on until interrupted.")] = True,
    count: Annotated[int | None, typer.Option(help="Stop after so many records.", min=1)] = None,
    correlation: Correlation = None,
) -> None:  # fmt: skip
    """Show the newest records, and those to come."""
    async with session.world_to_read() as world:
        renderer = renderer_of(world)
        head = await world.head()
        start = max(0, head.height - lines) if after is None else after
        left = count
        story = await correlations(world, renderer, correlation)
        frames = world.tail(start) if follow else world.frames(start + 1)
        async for frame in frames:
            wanted = {height for height in await story.within(frame) if height > start}
            for told in await renderer.frame(frame, among(wanted)):
                session.output.line(told.json(), record_line(told))
                left = None if left is None else left - 1
                if left == 0:
                    return


@app.command()
@in_session
async def show(
    session: Session,
    heights: Annotated[str, typer.Argument(help="A height, or a range such as 10..20.")],
    correlation: Correlation = None,
) -> None:
    """Show the records at some heights, whole."""
    first, last = _range(heights)
    async with session.world_to_read() as world:
        renderer = renderer_of(world)
        head = await world.head()
        if not 1 <= first <= last <= head.height:
            raise Rejected(
                "host.height", "{heights} is not in the journal of world {world}, which has 1..{height}",
                heights=heights, world=world.name, height=head.height,
            )  # fmt: skip
        end = (await renderer.frame_with(last)).header.last  # frames are found by their last height
        records = []
        story = await correlations(world, renderer, correlation)
        async for frame in world.frames(first, end):
            wanted = {height for height in await story.within(frame) if first <= height <= last}
            records += await renderer.frame(frame, among(wanted))
        data = {"world": world.name, "records": [told.json() for told in records]}
        session.output.document(data, Text("\n").join(record_line(told) for told in records))


def _range(heights: str) -> tuple[int, int]:
    first, dots, last = heights.partition("..")
    low = number_of(first)
    high = number_of(last) if dots else low
    if low is None or high is None:
        raise usage("{heights} is no height and no range", heights=heights, hint="Write 12, or 10..20.")
    if low > high or high - low >= RECORDS_MAX:
        raise usage(
            "{heights} is no range of at most {most} records", heights=heights, most=RECORDS_MAX,
            hint="Write the lower height first.",
        )  # fmt: skip
    return low, high
