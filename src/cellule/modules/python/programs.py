"""`PythonPrograms`: finds and loads the Python code a manifest names, for the kernel.

Code comes from the CAS: first the bundle's root, then all its files at once. Programs are kept by manifest
and module, so worlds that share both share them. `live` gives functions that run as they stand, without a
bundle: for tests, where functions are often defined inside other functions.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from cellule.errors import CelluleError, Rejected
from cellule.kernel.manifest.model import Manifest, Module, Upcaster
from cellule.kernel.need import Need, Nodes, fetch
from cellule.kernel.program import CODE_UNAVAILABLE, Program, StepFault, forget_kept
from cellule.kernel.whole_map import EntryProgram, WholeMap
from cellule.modules.python.boundary import Boundary
from cellule.modules.python.bundle import python_version, read_root
from cellule.modules.python.code import LIVE, PYTHON, REDUCER, PythonCode, read_code, read_entry
from cellule.modules.python.collect import bundle_file, live_places
from cellule.modules.python.describe import Description
from cellule.modules.python.failure import Places, exception_text
from cellule.modules.python.guard import check_deterministic
from cellule.modules.python.interface import Interface
from cellule.modules.python.loader import (
    LoadedBundle,
    is_missing,
    load_bundle,
    load_function,
    read_loaded,
)
from cellule.modules.python.module_names import Naming
from cellule.modules.python.program import PythonProgram
from cellule.modules.python.runtime_guard import GuardedProgram
from cellule.modules.python.signature import UpcasterSignature, read_signature, read_upcaster, shown_function
from cellule.modules.python.watchdog import LIMIT_S, Watchdog
from cellule.values.cid import Cid
from cellule.values.link import Link

MakeProgram = Callable[[Callable[..., Any], Interface, Naming, Watchdog, Places], Program]
"""What makes a program of a function of one form."""


def _reducer(
    function: Callable[..., Any], interface: Interface, naming: Naming, watchdog: Watchdog, places: Places
) -> Program:
    return PythonProgram(read_signature(function), interface, naming, watchdog, places)


class PythonPrograms:
    """The `Programs` of Python modules; close it to end its watchdog.

    `limit_s` is the time a step may take. `live` are descriptions that run without a bundle. `any_version`
    lets code run with other versions of the distributions it was bundled with. `guarded` runs every step
    inside the runtime guard: for tests. `forms` are what functions may be beside reducers.
    """

    def __init__(
        self,
        *,
        limit_s: float | None = LIMIT_S,
        live: Iterable[Description] = (),
        any_version: bool = False,
        guarded: bool = False,
        forms: Mapping[str, MakeProgram] | None = None,
    ) -> None:
        self._forms = {REDUCER: _reducer, **(forms or {})}
        self.watchdog = Watchdog(limit_s)
        self._any_version = any_version
        self._live = {description.code.entry: description for description in live}
        self._guarded = guarded
        self._programs: dict[tuple[Cid, str], Program] = {}

    @property
    def kinds(self) -> tuple[str, ...]:
        """See `CodeKind.kinds`."""
        return (PYTHON, LIVE)

    @property
    def trusted(self) -> bool:
        """See `CodeKind.trusted`: codecs of the reducer's types make every output."""
        return True

    def check(self, code: Mapping[str, Any], what: str) -> None:
        """See `Programs.check`."""
        self._form(read_code(code, what), what)

    def pack(
        self, code: Mapping[str, Any], folder: str | None, what: str
    ) -> tuple[Mapping[str, Any], Mapping[Cid, bytes]]:
        """See `Programs.pack`: the entry's file and all it imports become the bundle."""
        if "bundle" in code or code.get("kind") == LIVE:
            return code, {}
        entry = read_entry(code, what)
        if folder is None:
            raise Rejected(
                "modules.code_folder", "the code of {what} is {entry}: in which folder?",
                what=what, entry=entry, hint='Name the folder: code="src", or --code src.',
            )  # fmt: skip
        made = bundle_file(entry, Path(folder))
        check_deterministic(made)
        return {**code, "bundle": Link(made.root)}, made.blocks

    def close(self) -> None:
        """End the watchdog's thread; programs keep nothing of their steps any more."""
        for program in self._programs.values():
            forget_kept(program)
        self.watchdog.close()

    def program(self, manifest: Manifest, module: Module, nodes: Nodes) -> Generator[Need, None, Program]:
        """The program of a module, loaded from its bundle."""
        known = self._programs.get((manifest.cid, module.name))
        if known is not None:
            return known
        code = read_code(module.code, module.name)
        make = self._form(code, module.name)
        function, naming, places = yield from self._load(code, nodes)
        made = read_loaded(
            code.entry, places, python_version(),
            lambda: make(function, Interface.of(manifest, module), naming, self.watchdog, places),
        )  # fmt: skip
        if self._guarded:
            made = GuardedProgram(made)
        if not module.cell_mode:
            made = EntryProgram(made, WholeMap.of(manifest, module))
        self._programs[manifest.cid, module.name] = made
        return made

    def upcaster(
        self, manifest: Manifest, upcaster: Upcaster, nodes: Nodes
    ) -> Generator[Need, None, Callable[[bytes], bytes]]:
        """The function of an upcaster, loaded from its bundle."""
        code = read_code(upcaster.code, f"the upcaster {upcaster.old} -> {upcaster.new}")
        function, naming, places = yield from self._load(code, nodes)
        return read_loaded(
            code.entry, places, python_version(),
            lambda: upcast_function(
                read_upcaster(function), manifest, upcaster, naming, self.watchdog, places
            ),
        )  # fmt: skip

    def _form(self, code: PythonCode, what: str) -> MakeProgram:
        found = self._forms.get(code.form)
        if found is None:
            known = ", ".join(self._forms)
            raise Rejected(
                "modules.code_invalid", "the code of {what}: {problem}.",
                what=what, problem=f"its form is {code.form!r}; this node runs: {known}",
            )  # fmt: skip
        return found

    def _load(
        self, code: PythonCode, nodes: Nodes
    ) -> Generator[Need, None, tuple[Callable[..., Any], Naming, Places]]:
        if code.bundle is None:
            return self._load_live(code)
        found = yield from fetch(nodes, (code.bundle,))
        plan = read_root(code.bundle, found[code.bundle])
        blocks = yield from fetch(nodes, tuple(plan.files.values()))
        loaded = load_bundle(plan, blocks, any_version=self._any_version)
        function = load_function(loaded, code.entry)
        return function, naming_in(code, loaded), loaded.places

    def _load_live(self, code: PythonCode) -> tuple[Callable[..., Any], Naming, Places]:
        known = self._live.get(code.entry)
        if known is None:
            raise Rejected(
                "modules.not_live", "{entry} runs live, without stored code, and is not known here.",
                entry=code.entry,
                hint="Give the function to PythonPrograms(live=[description]), or bundle it.",
            )  # fmt: skip
        return known.function, known.naming, live_places(known.function)


def naming_in(code: PythonCode, loaded: LoadedBundle) -> Naming:
    """How the classes of a loaded bundle are named."""

    def found() -> dict[Any, str]:
        try:
            return {loaded.resolve(place): name for place, name in code.names.items()}
        except (ImportError, AttributeError) as error:
            problem = loaded.places.cleaned(f"a class of its names is not there ({error})")
            raise Rejected(
                "modules.code_invalid", "the code of {what}: {problem}.", what=code.entry, problem=problem
            ) from error

    names = read_loaded(code.entry, loaded.places, loaded.python, found)
    return Naming(code.namespace, code.schema_version, names)


def live_program(
    description: Description, manifest: Manifest, module: Module, watchdog: Watchdog | None = None
) -> PythonProgram:
    """A program that runs the function as it stands, without a bundle."""
    return PythonProgram(
        read_signature(description.function), Interface.of(manifest, module), description.naming,
        watchdog or Watchdog(), live_places(description.function),
    )  # fmt: skip


def upcast_function(
    signature: UpcasterSignature, manifest: Manifest, upcaster: Upcaster, naming: Naming, watchdog: Watchdog,
    places: Places,
) -> Callable[[bytes], bytes]:  # fmt: skip
    """The upcaster as the kernel calls it; what it returns raises nothing but `StepFault`."""
    read = naming.codec(signature.old, manifest.schemas, upcaster.old).decode_trusted
    write = naming.codec(signature.new, manifest.schemas, upcaster.new).encode
    function = signature.function

    boundary = Boundary("upcaster", watchdog, places)

    def described(error: BaseException) -> StepFault:
        what = f"upcaster {upcaster.old} -> {upcaster.new}: "
        if issubclass(type(error), CelluleError):
            return StepFault("modules.upcast_invalid", places.cleaned(f"{what}{error}"))
        is_gone = issubclass(type(error), ImportError) and is_missing(cast("ImportError", error), places)
        code = CODE_UNAVAILABLE if is_gone else "modules.upcast_failed"
        return StepFault(code, what + exception_text(error, places))

    def upcast(data: bytes) -> bytes:
        return boundary.call(lambda _: write(function(read(data))), described)

    upcast.__qualname__ = shown_function(function)
    return upcast
