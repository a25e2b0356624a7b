"""`cellule init`: a new project that runs: an app, a test and a README."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from shlex import quote
from string import Template
from typing import Annotated

import typer

from cellule.cli.session import Session, in_session
from cellule.errors import Rejected

_FILES = {
    "app.py.txt": "app.py",
    "test_app.py.txt": "test_app.py",
    "README.md.txt": "README.md",
    "gitignore.txt": ".gitignore",
}


@in_session
async def init(
    session: Session,
    folder: Annotated[Path, typer.Argument(help="The new folder; an empty one will do.")],
) -> None:
    """Make a new project: an app with an exhaustive match, a test, a README."""
    name, made = make_project(folder, "", _FILES)
    text = f"made {', '.join(made)} in {folder}\n\nnext:\n  cd {quote(str(folder))}\n  cellule dev"
    session.output.document({"folder": str(folder), "namespace": name, "files": made}, text)


def make_project(folder: Path, kind: str, wanted: Mapping[str, str], **words: str) -> tuple[str, list[str]]:
    """Write files of a template, `$name` and these words filled in; the namespace, and what was made."""
    name = _namespace(folder.resolve().name)
    try:
        _check_empty(folder)
        _write(folder, files("cellule.cli") / "template" / kind, wanted, {**words, "name": name})
    except OSError as error:
        raise Rejected(
            "cli.folder", "{folder} cannot be written: {why}", folder=str(folder), why=error.strerror,
            hint="Choose another folder.",
        ) from error  # fmt: skip
    return name, sorted(wanted.values())


def _check_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Rejected(
            "cli.not_empty", "{folder} exists and is not an empty folder", folder=str(folder),
            hint="Choose a new folder: nothing is ever overwritten.",
        )  # fmt: skip


def _write(folder: Path, template: Traversable, wanted: Mapping[str, str], words: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for source, target in wanted.items():
        text = Template((template / source).read_text(encoding="utf-8"))
        (folder / target).write_text(text.substitute(words), encoding="utf-8")


def _namespace(folder: str) -> str:
    """A namespace made from a folder's name."""
    name = re.sub(r"[^a-z0-9]+", "_", folder.lower()).strip("_")
    if not name or not name[0].isalpha() or keyword.iskeyword(name) or name == "sys":
        return f"my_{name}".rstrip("_")
    return name
