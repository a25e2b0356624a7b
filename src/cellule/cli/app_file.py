"""Finding an app by what people type: `shop.py`, `shop.py:app`, `package.module:app`.

The app's folder comes first on `sys.path`, as when Python runs the file, so its own imports work. Whatever
goes wrong while the file runs is told with its place in the file.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from cellule.app import App
from cellule.errors import CelluleError, Rejected
from cellule.host.own.suggestions import suggestion

ATTRIBUTE = "app"


def load_app(place: str) -> App:
    """Import and return an app; `Rejected` says what is wrong with the place or the file."""
    where, attribute = split_place(place)
    module = _from_file(Path(where)) if is_file(where) else _from_module(where)
    found = getattr(module, attribute, None)
    if isinstance(found, App):
        return found
    apps = [name for name, value in vars(module).items() if isinstance(value, App)]
    raise Rejected(
        "cli.app_attribute", "{where} has no app named {attribute}", where=where, attribute=attribute,
        hint=suggestion(attribute, apps) if apps else 'Make one there: app = App("name").',
    )  # fmt: skip


def split_place(place: str) -> tuple[str, str]:
    """The file or module, and the name in it; `app` where none is given."""
    where, _, attribute = place.rpartition(":")
    return (where, attribute or ATTRIBUTE) if where else (place, ATTRIBUTE)


def is_file(where: str) -> bool:
    """Tell whether a place names a file, not a module."""
    return where.endswith(".py") or "/" in where


def folder_of(place: str) -> Path:
    """The folder with an app's code, found without running it."""
    where, _ = split_place(place)
    if is_file(where):
        return Path(where).resolve().parent
    top = where.partition(".")[0]
    spec = _find_spec(top)
    if spec is None or spec.origin is None:
        raise _not_found(where, f"there is no module {top}")
    origin = Path(spec.origin).resolve()
    return origin.parent


def _from_file(path: Path) -> ModuleType:
    try:
        is_file = path.is_file()
    except OSError as error:
        raise _not_found(str(path), f"it cannot be read: {error.strerror}") from error
    if not is_file:
        raise _not_found(str(path), "there is no such file")
    path = path.resolve()
    _put_first(path.parent)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise _not_found(str(path), "it is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except CelluleError:
        raise
    except Exception as error:
        raise _failed(str(path), error) from error
    return module


def _from_module(name: str) -> ModuleType:
    if _find_spec(name.partition(".")[0]) is None:
        raise _not_found(name, "there is no such module")
    try:
        return importlib.import_module(name)
    except CelluleError:
        raise
    except Exception as error:
        raise _failed(name, error) from error


def _find_spec(top: str) -> importlib.machinery.ModuleSpec | None:
    _put_first(Path.cwd())
    try:
        return importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None


def _put_first(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _not_found(where: str, why: str) -> Rejected:
    return Rejected(
        "cli.app_not_found", "the app {where} was not found: {why}", where=where, why=why,
        hint="Give --app FILE.py:app or --app package.module:app.",
    )  # fmt: skip


def _failed(where: str, error: Exception) -> Rejected:
    """Where in the author's files the error is, and what it says."""
    if isinstance(error, SyntaxError):
        place = f"{error.filename}:{error.lineno}"
        what = f"SyntaxError: {error.msg}"
    else:
        frames = [
            each for each in traceback.extract_tb(error.__traceback__) if "importlib" not in each.filename
        ]
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else where
        what = traceback.format_exception_only(error)[-1].strip()
    return Rejected(
        "cli.app_failed", "{place}: {what}", place=place, what=what, hint="Fix the file and run this again."
    )
