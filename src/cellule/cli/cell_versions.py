"""A cell's versions as JSON data and as lines, each with what changed since the one before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from cellule.cli.output import compact
from cellule.host.ingress.cell_handle import CellHandle
from cellule.host.journal import Progress
from cellule.host.limits import HISTORY_MAX
from cellule.host.read.history import Version
from cellule.modules.workflow.view import Timeline
from cellule.values.json_view import to_json
from cellule.values.schema.text_forms import time_text


async def read_versions(
    cell: CellHandle[Any], limit: int | None, progress: Progress
) -> tuple[list[Version[Any]], bool]:
    """A cell's newest versions, all if there is no limit, and whether there are, or may be, older ones."""
    found: list[Version[Any]] = []
    before: int | None = None
    while True:
        left = HISTORY_MAX if limit is None else min(HISTORY_MAX, limit - len(found))
        page = await cell.history(limit=left, before=before)
        found += page
        newest = found[0].height if found else page.next or 0
        if page.next is None or len(found) == limit:
            return found, page.next is not None
        before = page.next
        progress(newest - before, newest)


def history_json(versions: Sequence[Version[Any]]) -> list[dict[str, Any]]:
    """Versions, newest first; a step that failed changed nothing and has no state."""
    found: list[dict[str, Any]] = []
    state: Any = None
    for version in reversed(versions):
        row: dict[str, Any] = {
            "height": version.height, "version": version.version, "status": version.status,
            "event": version.schema, "cause": version.cause, "time": time_text(version.now_ns),
        }  # fmt: skip
        if isinstance(version.state, Timeline):
            row["lines"] = list(version.state)
        elif version.status == "ok":
            row["changes"] = changes(state, version.state) if state is not None else _born(version.state)
            row["state"] = state = version.state
        if version.ann is not None:
            row["ann"] = to_json(version.ann)
        if version.error:
            row["error"] = version.error
        if version.code:
            row["code"] = version.code
        found.append(row)
    return found[::-1]


def version_line(row: dict[str, Any]) -> Text:
    """One version for people."""
    style = "green" if row["status"] == "ok" else "red"
    line = Text(f"v{row['version']:<5}")
    line.append(f"{row['status']:<9}", style=style)
    line.append(f"height {row['height']:<8} {row['time'][:23]:<24} {row['event']}")
    for added in row.get("lines", ()):
        line.append(f"\n      {added}", style="dim")
    for change in row.get("changes", ()):
        line.append(f"\n      {change_text(change)}", style="dim")
    if "error" in row:
        line.append(f"\n      {row['error']} [{row['code']}]", style="red")
    return line


def _born(state: Any) -> list[dict[str, Any]]:
    """The first state known: every field is new."""
    return changes({}, state) if isinstance(state, dict) else changes(None, state)


_NOTHING = object()


def changes(before: Any, after: Any, path: str = "") -> list[dict[str, Any]]:
    """The innermost fields in which two JSON values differ, with their old and new values.

    A field that one side lacks has no `before` or no `after`.

    >>> changes({"total": 3, "paid": 0}, {"total": 3, "paid": 3})
    [{'field': 'paid', 'before': 0, 'after': 3}]
    """
    if before is not _NOTHING and after is not _NOTHING and compact(before) == compact(after):
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        names = [*before, *(name for name in after if name not in before)]
        found = (
            changes(before.get(name, _NOTHING), after.get(name, _NOTHING), _below(path, name))
            for name in names
        )
        return [each for some in found for each in some]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [each for at, (old, new) in pairs for each in changes(old, new, f"{path}[{at}]")]
    change: dict[str, Any] = {"field": path or "state"}
    if before is not _NOTHING:
        change["before"] = before
    if after is not _NOTHING:
        change["after"] = after
    return [change]


def change_text(change: dict[str, Any]) -> str:
    """One difference for people."""
    if "before" not in change:
        return f"{change['field']} = {compact(change['after'])}"
    if "after" not in change:
        return f"{change['field']} gone (was {compact(change['before'])})"
    return f"{change['field']}: {compact(change['before'])} -> {compact(change['after'])}"


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
