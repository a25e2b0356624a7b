"""Photos that enzymes make small: signals, bindings and the tree, through a node."""

from __future__ import annotations

from cellule import App, EnzymeContext

app = App("photos")


@app.enzyme("/photos/add", match="prefix")
def shrink(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    """Write half the width beside the photo, and tell of it."""
    width = ctx.read(target)["width"]
    ctx.write(f"{target}/small", {"width": width // 2})
    ctx.signal("/photos/done", target=f"{target}/small", payload=width // 2)


@app.enzyme("/photos/done")
def log(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    """Count what was done."""
    ctx.write("/log/done", (ctx.read("/log/done") or 0) + 1)
