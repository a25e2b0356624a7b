"""Running a bundle from bytes, beside the author's own modules and beside other versions of the same app.

The modules of a bundle live in a private package named by the code's identity, so `shop.orders` of two eras
are two modules. Each gets builtins of its own whose `__import__` sends the app's names into that package;
relative imports lead there by themselves, everything else is imported as always. Files on disk are never
consulted for the app's names. Tracebacks and `inspect` see the original names and lines. Whoever starts
something for good (a node, a server) calls `check_not_loading`: a script without `if __name__ == "__main__"`
would otherwise start it once more each time its code is loaded.

Rejected: swapping `sys.modules` while code runs. Imports inside functions come later; other threads look.
Rejected: rewriting import statements. Lines, names and `inspect.getsource` would no longer be the author's.
Rejected: modules outside of `sys.modules`. Dataclasses, msgspec and typing look up annotations there.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from importlib import metadata
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from threading import RLock
from types import CodeType, ModuleType
from typing import Any, Final, TypeVar

from cellule.errors import Rejected
from cellule.modules.python.boundary import is_interrupt
from cellule.modules.python.bundle import Plan, module_path, python_version
from cellule.modules.python.failure import Places, exception_text, innermost, is_installed, type_name
from cellule.modules.python.imports import imports_of
from cellule.values.cid import Cid

T = TypeVar("T")
_LOADING: Final[ContextVar[str]] = ContextVar("cellule_loading", default="")


def is_loading() -> bool:
    """Tell whether a bundle's top-level code is running here and now."""
    return bool(_LOADING.get())


def check_not_loading(what: str) -> None:
    """Refuse `what` (such as "open a node") while top-level code of a bundle is running."""
    file = _LOADING.get()
    if file:
        raise Rejected(
            "modules.started_while_loading",
            "{file} tries to {what} at its top level, while its code is being loaded.",
            file=file, what=what,
            hint='Put what starts the program under `if __name__ == "__main__":`.',
        )  # fmt: skip


@contextmanager
def loading(file: str) -> Iterator[None]:
    """Mark the code that runs inside as the top level of `file`."""
    token = _LOADING.set(file)
    try:
        yield
    finally:
        _LOADING.reset(token)


PACKAGE: Final = "cellule_bundle_"
_LOADED: Final = "__cellule_bundle__"
_loading_lock: Final = RLock()


class LoadedBundle:
    """A bundle whose modules can be imported; one per code identity and process."""

    def __init__(self, plan: Plan, blocks: Mapping[Cid, bytes]) -> None:
        self.package = PACKAGE + str(plan.code_id)
        self.python = plan.python
        self.places = Places(f"{self.package}/", self.package)
        self._sources = {path: blocks[cid] for path, cid in plan.files.items()}
        self._tops = {path.partition("/")[0].removesuffix(".py") for path in self._sources}
        self._folders = {folder for path in self._sources for folder in _folders(path)}
        self._finder = _Finder(self)
        self._builtins = {**vars(builtins), "__import__": self._import}

    @cached_property
    def imports(self) -> frozenset[str]:
        """The top-level modules that its files import and that are not the app's own."""
        found: set[str] = set()
        for path, source in self._sources.items():
            name = path.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
            imported = imports_of(ast.parse(source), name, is_package=path.endswith("/__init__.py"))
            found |= {each.module.partition(".")[0] for each in imported}
        return frozenset(found - self._tops)

    def resolve(self, name: str) -> Any:
        """What `module:qualified.name` means here: in the bundle if the module is the app's."""
        module, _, path = name.partition(":")
        own = module.partition(".")[0] in self._tops
        found: Any = importlib.import_module(f"{self.package}.{module}" if own else module)
        for part in path.split("."):
            found = getattr(found, part)
        return found

    def start(self) -> None:
        """Make the private package known to the import system."""
        package = ModuleType(self.package, "The modules of one bundle.")
        package.__path__ = []
        setattr(package, _LOADED, self)
        sys.modules[self.package] = package
        sys.meta_path.insert(0, self._finder)

    def unload(self) -> None:
        """Forget all modules; code that still runs keeps what it has imported already."""
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self._finder]
        for name in [
            name for name in sys.modules if name == self.package or name.startswith(self.package + ".")
        ]:
            del sys.modules[name]
        for path in self._sources:
            linecache.cache.pop(self.file_name(path), None)

    def spec(self, name: str) -> ModuleSpec | None:
        """The import system's question: is there a module of this name (without the package)?"""
        for is_package in (True, False):
            path = module_path(name, is_package=is_package)
            if path in self._sources:
                return self._spec(name, path, is_package=is_package)
        return self._spec(name, None, is_package=True) if name.replace(".", "/") in self._folders else None

    def file_name(self, path: str) -> str:
        """The name under which a file appears in tracebacks; unlike the path alone it is unique."""
        return self.places.prefix + path

    def source(self, path: str) -> str:
        """The text of a file, also put where tracebacks and `inspect` look for it."""
        text = self._sources[path].decode()
        name = self.file_name(path)
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        return text

    def prepare(self, module: ModuleType) -> None:
        """Give a module the builtins that keep its imports inside the bundle."""
        module.__dict__["__builtins__"] = self._builtins

    def _spec(self, name: str, path: str | None, *, is_package: bool) -> ModuleSpec | None:
        loader = _Loader(self, path)
        origin = None if path is None else self.file_name(path)
        return spec_from_loader(f"{self.package}.{name}", loader, origin=origin, is_package=is_package)

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - the names of the language
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> ModuleType:
        top = name.partition(".")[0]
        if level or top not in self._tops:
            return __import__(name, globals, locals, fromlist, level)
        found = __import__(f"{self.package}.{name}", globals, locals, fromlist, 0)
        return found if fromlist else sys.modules[f"{self.package}.{top}"]


class _Finder(MetaPathFinder):
    """Answers for the names of one bundle's package."""

    def __init__(self, bundle: LoadedBundle) -> None:
        self._bundle = bundle
        self._prefix = bundle.package + "."

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """The spec of a module of the bundle."""
        if not fullname.startswith(self._prefix):
            return None
        return self._bundle.spec(fullname[len(self._prefix) :])


class _Loader(InspectLoader):
    """Loads one file of a bundle; without a path, a folder that is only a namespace."""

    def __init__(self, bundle: LoadedBundle, path: str | None) -> None:
        self._bundle = bundle
        self._path = path

    def get_source(self, fullname: str) -> str:  # noqa: ARG002 - the import system's signature
        """The text of the file."""
        return "" if self._path is None else self._bundle.source(self._path)

    def is_package(self, fullname: str) -> bool:  # noqa: ARG002 - the import system's signature
        """Whether it holds modules."""
        return self._path is None or self._path.endswith("/__init__.py")

    def get_code(self, fullname: str) -> CodeType:
        """The compiled file."""
        name = "" if self._path is None else self._bundle.file_name(self._path)
        return compile(self.get_source(fullname), name or "<namespace>", "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        """Run the top level of the file."""
        if self._path is not None:
            module.__file__ = self._bundle.file_name(self._path)
        self._bundle.prepare(module)
        with loading(self._path or ""):
            exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102 - this is what a loader does


def load_bundle(plan: Plan, blocks: Mapping[Cid, bytes], *, any_version: bool = False) -> LoadedBundle:
    """Make a bundle's code importable; the same code is loaded once per process."""
    check_requirements(plan, any_version=any_version)
    fresh = LoadedBundle(plan, blocks)
    with _loading_lock:
        known = getattr(sys.modules.get(fresh.package), _LOADED, None)
        if isinstance(known, LoadedBundle):
            return known
        fresh.start()
        return fresh


def load_function(loaded: LoadedBundle, entry: str) -> Callable[..., Any]:
    """Run the entry's module and return its function; raises `modules.load_failed` with the place."""

    def resolve() -> Callable[..., Any]:
        with _loading_lock:
            found: Callable[..., Any] = loaded.resolve(entry)
            return found

    return read_loaded(entry, loaded.places, loaded.python, resolve)


def read_loaded(entry: str, places: Places, python: str, read: Callable[[], T]) -> T:
    """What `read` finds in the author's code; whatever that raises, the entry cannot be loaded, and no more.

    An error of Cellule's own tree would end the world, as if the kernel had raised it; only a plain refusal
    goes through as it is.
    """
    try:
        return read()
    except SyntaxError as error:
        raise Rejected(
            "modules.python_version",
            "{entry}, made with Python {wanted}, cannot be read by {found}: {problem}",
            entry=entry, wanted=python, found=python_version(),
            problem=_problem(error, places),
            hint="Run it with the Python version it was made with, or a newer one.",
        ) from error  # fmt: skip
    except BaseException as error:
        if is_interrupt(error) or type(error) is Rejected:
            raise
        raise Rejected(
            "modules.load_failed", "{entry} cannot be loaded: {problem}",
            entry=entry, problem=_problem(error, places),
            hint="Its top level must run anywhere: without the author's files, network or environment.",
        ) from error  # fmt: skip


def _problem(error: BaseException, places: Places) -> str:
    """The text of an error of the author's, whose class may raise where it is asked for it."""
    try:
        return places.cleaned(str(error)) if type(error) is SyntaxError else exception_text(error, places)
    except BaseException as broken:
        if is_interrupt(broken):
            raise
        return f"{places.cleaned(type_name(error))}: its text cannot be read"


def is_missing(error: ImportError, places: Places) -> bool:
    """Whether a step could not import what its code needs and this machine does not have.

    That is a module of a package that the code imports, of the standard library, or one that an installed
    package needs. A module of the app that is not there is a mistake of the app.
    """
    bundle = getattr(sys.modules.get(places.package), _LOADED, None)
    name = getattr(error, "name", None)
    if not isinstance(bundle, LoadedBundle) or type(name) is not str:
        return False
    importlib.invalidate_caches()  # so that it is found once it is installed
    top = name.partition(".")[0]
    if top == bundle.package:
        return False
    trace = innermost(error)
    inside = trace is not None and is_installed(trace.tb_frame.f_code.co_filename)
    return inside or top in bundle.imports or top in sys.stdlib_module_names


def check_requirements(plan: Plan, *, any_version: bool = False) -> None:
    """Refuse a bundle whose distributions are missing here, or, unless told otherwise, of another version."""
    for name, wanted in sorted(plan.requires.items()):
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            importlib.invalidate_caches()  # so that it is found once it is installed
            found = "none"
        if found == "none" or (found != wanted and not any_version):
            raise Rejected(
                "modules.requirement", "{entry} needs {name} {wanted}; here is {found}.",
                entry=plan.entry, name=name, wanted=wanted, found=found,
                hint="Install that version: another one could compute other results from the same events.",
            )  # fmt: skip


def _folders(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]
