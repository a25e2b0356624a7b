"""The folder of a local object store: its files, its marker, and what its failures mean.

```
<folder>/cellule-objects            the format's name and version; written once, when the folder is made
<folder>/.drafts/<random>           bodies being written
<folder>/cas/<universe>/<cid>~<x>   the object cas/<universe>/<cid>/<x>: the last slash of a name becomes `~`
```

Rejected: one folder per object, as names read. Each would cost another sync and stay behind empty.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cellule.errors import Rejected, Unavailable

MARKER = "cellule-objects"
MARKER_TEXT = b"cellule objects 1\n"
DRAFTS = ".drafts"


def path_of(root: Path, name: str) -> Path:
    """Return the file of an object."""
    folder, _, last = name.rpartition("/")
    return root / f"{folder}~{last}"


def names_below(root: Path, folder: str, prefix: str, start_after: str) -> Iterator[str]:
    """Yield the names inside `prefix` and after `start_after`, in no order, skipping what cannot hold any."""
    for entry in entries_of(root / folder):
        if "~" in entry.name:
            name = folder + entry.name.replace("~", "/")
            if name.startswith(prefix) and name > start_after:
                yield name
        elif entry.name != DRAFTS and entry.is_dir():
            inner = f"{folder}{entry.name}/"
            inside = inner.startswith(prefix) or prefix.startswith(inner)
            if inside and (inner > start_after or start_after.startswith(inner)):
                yield from names_below(root, inner, prefix, start_after)


def entries_of(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder; nothing if there is none."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def check_marker(root: Path) -> None:
    """Refuse a folder of another format."""
    text = (root / MARKER).read_bytes()
    if text != MARKER_TEXT:
        raise Rejected(
            "objects.format", "the folder {folder} holds objects of another format: {text!r}",
            folder=str(root), text=text[:64], hint="Open it with the version of Cellule that made it.",
        )  # fmt: skip


def failed(verb: str, name: str, root: Path, error: OSError) -> Unavailable:
    """Return what a failed operation means to its caller."""
    if isinstance(error, FileNotFoundError):
        return Unavailable(
            "objects.folder_gone", "the object folder {folder} is not there or was never made",
            folder=str(root), hint="Check that its disk is mounted, and that its parent folder exists.",
        )  # fmt: skip
    return Unavailable(
        "objects.disk", "{verb} of {name!r} in {folder} failed: {reason}",
        verb=verb, name=name, folder=str(root), reason=reason_of(error),
    )  # fmt: skip


def reason_of(error: OSError) -> str:
    """Return the system's words for an error, without paths."""
    return os.strerror(error.errno) if error.errno else type(error).__name__
