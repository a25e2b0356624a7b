"""Collecting a bundle: from a function to its file, and from there to all files of the app it imports.

The app's own files are those of the function's top-level package, and those beside it in the same folder; the
standard library is everywhere; whatever else is imported must belong to an installed distribution, which is
recorded with its version. An import inside a function counts if the entry may reach that function
(`reach.py`): a command or a report beside a reducer does not make its libraries the reducer's. Nothing is
imported or run to find out: the answer depends on the files alone.

Rejected: walking `sys.modules`. It depends on what the process happened to import before.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from importlib.util import decode_source
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NoReturn

from cellule.errors import Rejected
from cellule.modules.python.bundle import Bundle, make_bundle, module_path
from cellule.modules.python.failure import Places
from cellule.modules.python.imports import Imported, imports_of
from cellule.modules.python.reach import reached_names
from cellule.modules.python.signature import shown_function
from cellule.modules.python.symbols import App, Symbols

RUNTIME: Final = frozenset({"cellule", "msgspec"})
"""Distributions that are always there, in the version of the runtime."""


def bundle(function: Callable[..., Any], *, include: Iterable[str] = ()) -> Bundle:
    """Bundle a function of a file; `include` names modules that are imported by other means than `import`.

    Refuses functions that have no file, or that another process could not find by name.
    """
    home = find_home(function)
    collection = _Collection(home.root, home.module.partition(".")[0], _Installed())
    collection.add(home.module, Imported(home.module, (), 1, optional=False), "the entry")
    for name in include:
        collection.add(name, Imported(name, (), 0, optional=False), "include")
    collection.add_reached(App(home.module, function.__qualname__))
    return make_bundle(f"{home.module}:{function.__qualname__}", collection.sources, collection.requires)


def bundle_file(entry: str, root: Path) -> Bundle:
    """Bundle an entry such as `shop.orders:order` by the files of a folder, without importing it."""
    module, _, name = entry.partition(":")
    collection = _Collection(root, module.partition(".")[0], _Installed())
    collection.add(module, Imported(module, (), 1, optional=False), f"the entry {entry}")
    collection.add_reached(App(module, name))
    return make_bundle(entry, collection.sources, collection.requires)


@dataclass(frozen=True, slots=True)
class Home:
    """Where a function lives: its module's name, and the folder from which that name leads to the file."""

    module: str
    root: Path


def find_home(function: Callable[..., Any]) -> Home:
    """The home of a function; a script that runs as `__main__` has the name of its file."""
    if function.__name__ == "<lambda>":
        _refuse(function, "a lambda has no name to find it by")
    if "<locals>" in function.__qualname__:
        _refuse(function, "it is defined inside another function")
    if "." in function.__qualname__:
        _refuse(function, "it is defined inside a class")
    module = sys.modules.get(function.__module__)
    file = getattr(module, "__file__", None)
    if module is None or file is None or not Path(file).is_file():
        _refuse(function, "it was typed into a prompt or notebook, and has no file")
    return home_of(module, Path(file).resolve())


def live_places(function: Callable[..., Any]) -> Places:
    """Which files are the author's when a function runs as it stands."""
    file = function.__code__.co_filename
    module = sys.modules.get(function.__module__)
    if module is None or not Path(file).is_file():
        return Places(file)
    return Places(f"{home_of(module, Path(file)).root}/")


def home_of(module: ModuleType, file: Path) -> Home:
    """The home of everything in a module's file."""
    name = module.__name__
    if name == "__main__":
        spec = getattr(module, "__spec__", None)
        name = spec.name if spec is not None else file.stem
    place = file.parent if file.stem == "__init__" else file.with_suffix("")
    parts = name.split(".")
    if list(place.parts[-len(parts) :]) != parts:
        return Home(file.stem, file.parent)
    return Home(name, place.parents[len(parts) - 1])


@dataclass(slots=True)
class _Collection:
    """The files and distributions found so far."""

    root: Path
    top: str
    installed: _Installed
    sources: dict[str, bytes] = field(default_factory=dict)
    requires: dict[str, str] = field(default_factory=dict)
    later: list[tuple[App, Imported, str]] = field(default_factory=list)  # imports inside definitions

    def add_reached(self, entry: App) -> None:
        """Take what is imported inside functions that may run with the entry."""
        while self.later:
            reached = reached_names(Symbols(self.sources), entry)
            taken = [each for each in self.later if each[0] in reached]
            if not taken:
                return
            self.later = [each for each in self.later if each[0] not in reached]
            for _, imported, where in taken:
                self.add(imported.module, imported, where)

    def add(self, module: str, imported: Imported, where: str) -> None:
        """Take a module and, transitively, what it imports."""
        waiting = [(module, imported, where)]
        while waiting:
            name, imported, where = waiting.pop()
            if not name or not self._is_own(name, where):
                self._require(name, imported, where)
                continue
            found = [self._package(part) for part in _parents(name)]
            found.append(self._source(name))
            found.extend(self._source(f"{name}.{submodule}") for submodule in imported.names)
            if not any(found[len(_parents(name)) :]) and not imported.optional and not self._is_folder(name):
                _missing(name, imported, where)
            for each in found:
                if each is not None:
                    waiting += self._now(*each)

    def _now(self, imports: list[Imported], path: str) -> list[tuple[str, Imported, str]]:
        """The imports of a file that run when it is loaded; the others are looked at later."""
        name = path.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
        self.later += [(App(name, each.inside), each, path) for each in imports if each.inside is not None]
        return [(each.module, each, path) for each in imports if each.inside is None]

    def _is_own(self, name: str, where: str) -> bool:
        top = name.partition(".")[0]
        if top == self.top:
            return True
        if top in RUNTIME or _is_library(self.root):
            return False
        file, folder = self.root / f"{top}.py", self.root / top
        if top in sys.stdlib_module_names:
            if file.is_file():
                raise Rejected(
                    "modules.shadows_library",
                    "{where} imports {name}: {name}.py of the app, or of the library?",
                    where=where, name=top, hint="Rename the file: it hides a module of the standard library.",
                )  # fmt: skip
            return False
        if file.is_file() or (folder / "__init__.py").is_file():
            return True
        return folder.is_dir() and not self.installed.has(top)

    def _package(self, name: str) -> tuple[list[Imported], str] | None:
        return self._read(name, self.root / module_path(name, is_package=True), is_package=True)

    def _source(self, name: str) -> tuple[list[Imported], str] | None:
        """Read a module's file, as a package or as a plain file; None where there is none or it is known."""
        package = self.root / module_path(name, is_package=True)
        if package.is_file():
            return self._read(name, package, is_package=True)
        return self._read(name, self.root / module_path(name, is_package=False), is_package=False)

    def _read(self, name: str, file: Path, *, is_package: bool) -> tuple[list[Imported], str] | None:
        path = module_path(name, is_package=is_package)
        if path in self.sources:
            return [], path
        if not file.is_file():
            return None
        try:
            text = decode_source(file.read_bytes())
            tree = ast.parse(text, path)
        except (SyntaxError, UnicodeDecodeError) as error:
            raise Rejected(
                "modules.source_invalid", "{path} is not Python: {problem}", path=path, problem=str(error)
            ) from error
        self.sources[path] = text.encode()
        return imports_of(tree, name, is_package=is_package), path

    def _is_folder(self, name: str) -> bool:
        return (self.root / name.replace(".", "/")).is_dir()

    def _require(self, name: str, imported: Imported, where: str) -> None:
        top = name.partition(".")[0]
        if not top or top in sys.stdlib_module_names or top in RUNTIME:
            return
        found = self.installed.distributions(name, imported.names)
        if not found and not imported.optional:
            _missing(name, imported, where)
        self.requires.update(found)


class _Installed:
    """The installed distributions, by the modules they bring."""

    @cached_property
    def _by_top(self) -> Mapping[str, list[str]]:
        return metadata.packages_distributions()

    def has(self, top: str) -> bool:
        """Whether a distribution brings a top-level module of this name."""
        return top in self._by_top

    def distributions(self, module: str, names: tuple[str, ...]) -> dict[str, str]:
        """The distributions that bring `module`, with versions; several where they share a namespace."""
        found = {name: metadata.distribution(name) for name in self._by_top.get(module.partition(".")[0], ())}
        if len(found) > 1:
            paths = {each.replace(".", "/") for each in (module, *(f"{module}.{name}" for name in names))}
            narrowed = {name: each for name, each in found.items() if _brings(each, paths)}
            found = narrowed or found
        return {_normal(name): each.version for name, each in found.items() if _normal(name) not in RUNTIME}


def _brings(distribution: metadata.Distribution, paths: set[str]) -> bool:
    files = {str(file.with_suffix("")) for file in distribution.files or ()}
    return any(path in files or f"{path}/__init__" in files for path in paths)


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _parents(name: str) -> list[str]:
    """The packages above a module, outermost first."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _is_library(folder: Path) -> bool:
    """Whether installed code lies here, so that neighbours are not the app's."""
    libraries = {Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "purelib", "platlib")}
    return folder.resolve() in libraries


def _missing(name: str, imported: Imported, where: str) -> NoReturn:
    raise Rejected(
        "modules.import_missing", "{where}:{line} imports {name}, which is neither of the app nor installed.",
        where=where, line=imported.line, name=name,
        hint="Install it, or move the file into the app's package or folder. If no step runs this line, put "
        "it into `try:` with `except ImportError:`.",
    )  # fmt: skip


def _refuse(function: Callable[..., Any], problem: str) -> NoReturn:
    raise Rejected(
        "modules.not_bundled", "{function} cannot be stored as code: {problem}.",
        function=shown_function(function), problem=problem,
        hint="Define it at the top level of a file. Tests may run it as it stands, with live_program.",
    )  # fmt: skip
