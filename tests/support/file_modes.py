"""Who may read what was written: the modes of all folders and files below one."""

from __future__ import annotations

from pathlib import Path


def modes_of(folder: Path) -> dict[str, set[int]]:
    """The modes of everything in a folder: those of folders, and those of files."""
    found: dict[str, set[int]] = {"folder": set(), "file": set()}
    for path in folder.rglob("*"):
        found["folder" if path.is_dir() else "file"].add(path.stat().st_mode & 0o777)
    return found
