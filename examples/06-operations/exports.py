"""Exports of large tables: each is an operation that anybody can watch, wait for, and be told the end of.

An enzyme begins the operation, another copies a page a beat and tells how far it is. Two watchers are set at
the beginning: one for the end, and the time limit that comes with it.
"""

from __future__ import annotations

from cellule import App, EnzymeContext

app = App("exports")

PAGE_ROWS = 2
BEATS_MAX = 10  # that an export may take


@app.enzyme("/exports/begin", writes=["/exports"])
def begin(ctx: EnzymeContext, _signal: str | None, target: str | None) -> None:
    """Starts the operation, and asks for its first page."""
    assert target is not None
    op = ctx.op.start("op/export", target, payload=ctx.payload)
    ctx.op.await_(op, "sts:ok", "/exports/told", ttl=BEATS_MAX)
    ctx.write(f"/exports/{op}", {"table": target, "rows": []})
    ctx.signal("/exports/page", target=target, payload={"op": op, "page": 0})


@app.enzyme("/exports/page", writes=["/exports"])
def copy_page(ctx: EnzymeContext, _signal: str | None, target: str | None) -> None:
    """Copies one page, and goes on in the next beat until there is none left."""
    assert target is not None
    op, page = ctx.payload["op"], ctx.payload["page"]
    table = ctx.read(target)
    if table.get("locked"):  # somebody works on it: look again, in the next beat
        ctx.op.state(op, "ist:wait", note="the table is locked")
        ctx.signal("/exports/page", target=target, payload=ctx.payload)
        return
    rows = table["rows"][page * PAGE_ROWS : (page + 1) * PAGE_ROWS]
    copied = [*ctx.read(f"/exports/{op}")["rows"], *rows]
    ctx.write(f"/exports/{op}", {"table": target, "rows": copied})
    if len(copied) < len(table["rows"]):
        ctx.op.state(op, "ist:copy", code=page, note=f"{len(copied)} of {len(table['rows'])} rows")
        ctx.signal("/exports/page", target=target, payload={"op": op, "page": page + 1})
    else:
        ctx.op.close(op, "sts:ok", summary=f"{len(copied)} rows")


@app.enzyme("/exports/told", writes=["/mail"])
def tell(ctx: EnzymeContext, _signal: str | None, target: str | None) -> None:
    """The end of an export, in the beat after it; the operation is the target."""
    found = ctx.op.get(str(target))
    assert found is not None
    ctx.write(f"/mail/{ctx.beat}", f"{found['envelope']['target']}: {found['close']['summary']}")


@app.enzyme("/op/tmo", writes=["/mail"])
def give_up(ctx: EnzymeContext, _signal: str | None, target: str | None) -> None:
    """An export that did not end in time is closed."""
    ctx.op.close(str(target), "sts:fail", summary=f"not done after {BEATS_MAX} beats")
    ctx.write(f"/mail/{ctx.beat}", f"{target} was given up")
