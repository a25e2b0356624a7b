"""What changed between two states: the innermost fields that differ, with their old and new values.

>>> changes({"total": 3, "paid": 0}, {"total": 3, "paid": 3})
[{'field': 'paid', 'before': 0, 'after': 3}]
"""

from __future__ import annotations

from typing import Any

from cellule.cli.output import compact

_NOTHING = object()


def changes(before: Any, after: Any, path: str = "") -> list[dict[str, Any]]:
    """The differences of two JSON values; a field that one side lacks has no `before` or no `after`."""
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
