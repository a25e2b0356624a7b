"""Enzymes that register others by the thousand, and fill the tree."""

from __future__ import annotations

from cellule import App, EnzymeContext

app = App("fillers")


@app.enzyme("/fill/enzymes")
def register(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    """Register an entry for each number of a range."""
    for number in range(*ctx.payload):
        ctx.register(f"entry-{number}", f"/kinds/{number}", module="fillers/mark")


@app.enzyme("/fill/nodes")
def write(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    """Write a node for each number of a range."""
    for number in range(*ctx.payload):
        ctx.write(f"/tree/{number // 1_000:04}/{number}", number)


@app.enzyme("/mark")
def mark(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    """Note who ran."""
    ctx.write(f"/marks{signal}", ctx.name)
