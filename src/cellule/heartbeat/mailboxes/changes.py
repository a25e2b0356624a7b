"""What a turn of a mailbox changes, kept until its end, and whether it may change more."""

from __future__ import annotations

from typing import Any, Final

from cellule.heartbeat.mailboxes.tree import Tree
from cellule.values.cbor import encode

TURN_BYTES_MAX: Final = 500_000
"""About how many bytes one turn changes, but for its last message; what a run may do is twice that."""
CHANGE_BYTES: Final = 400
"""About what a change of the tree takes beside its path and value."""


class Changes:
    """The tree with what a turn changes; written at the end, in the order of the changes."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._changed: dict[str, Any] = {}
        self.size = 0

    @property
    def has_room(self) -> bool:
        """Tell whether the turn takes more."""
        return self.size < TURN_BYTES_MAX

    def has_room_for(self, value: Any) -> bool:
        """Tell whether the turn takes a change to such a value; one that has changed nothing takes any."""
        return not self.size or self.size + len(encode(value)) <= TURN_BYTES_MAX

    def read(self, path: str) -> Any:
        """The value of a node as it will be."""
        return self._changed[path] if path in self._changed else self._tree.read(path)

    def set(self, path: str, value: Any) -> None:
        """Change a node; None takes it away."""
        self._changed.pop(path, None)
        self._changed[path] = value
        self.size += 2 * len(path) + CHANGE_BYTES + (0 if value is None else len(encode(value)))

    def write(self) -> None:
        """Hand the changes to the tree."""
        for path, value in self._changed.items():
            if value is not None:
                self._tree.write(path, value)
            else:
                self._tree.delete(path)
