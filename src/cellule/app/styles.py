"""Modules of an app that are no reducers: what a style of writing cells gives to the app that declares it.

    order = app.fsm("order.fsm.yaml")        a `ModuleHandle`: how callers name the module
    app.build()                              asks the style's `DeclaredModule` for its `DescribedModule`

A style declares with one object and describes with another, both plain data: the app knows no style. What a
style brings of its own stands in `app/<style>_module.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from cellule.app.declarations import bad_option
from cellule.app.effects_config import Listed
from cellule.kernel.manifest.model import Manifest
from cellule.modules.python import EffectForm, ModuleOptions
from cellule.modules.python.module_names import Naming
from cellule.modules.python.signature import shown_function
from cellule.values.cid import Cid
from cellule.values.names import Name
from cellule.values.schema.registry import Schemas

if TYPE_CHECKING:
    from cellule.app.app import App

S = TypeVar("S")


@dataclass(frozen=True, slots=True, eq=False)
class ModuleHandle(Generic[S]):
    """How callers name a module that is no function; `S` is the type of its cells' states."""

    name: str

    if TYPE_CHECKING:  # wherever a reducer is named, a handle will do: its cells have states of `S`, too

        def __call__(self, state: S | None, /, *arguments: Any) -> object:
            """Only a type checker sees this."""


@dataclass(frozen=True, slots=True)
class BuildScope:
    """What a declared module is described with; `effects` are the forms of those it lists."""

    app: App
    naming: Naming
    effects: list[EffectForm]
    live: bool


class DeclaredModule(Protocol):
    """A module as it was declared; describing it raises `Rejected` with what to write instead."""

    @property
    def local(self) -> str:
        """Its name without namespace and version."""

    @property
    def where(self) -> str:
        """The place of the declaration, for messages."""

    @property
    def effects(self) -> tuple[Listed, ...]:
        """The effects that it may ask for: declarations, adapters, or their kinds."""

    @property
    def cap_slots(self) -> Mapping[str, str]:
        """The grants that it has, by slot."""

    def described(self, scope: BuildScope) -> DescribedModule:
        """The module as the manifest needs it."""


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredStyle:
    """A `DeclaredModule` that is no function: what callers name it by, and its full name."""

    handle: ModuleHandle[Any]
    full: Name

    @property
    def local(self) -> str:
        """See `DeclaredModule`."""
        return self.full.local


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredFunction:
    """A `DeclaredModule` that is a function of the app."""

    function: Callable[..., Any]
    full: Name
    options: ModuleOptions
    effects: tuple[Listed, ...]

    @property
    def local(self) -> str:
        """See `DeclaredModule`."""
        return self.full.local

    @property
    def where(self) -> str:
        """See `DeclaredModule`."""
        return shown_function(self.function)

    @property
    def cap_slots(self) -> Mapping[str, str]:
        """See `DeclaredModule`."""
        return self.options.cap_slots


@runtime_checkable
class ChecksManifest(Protocol):
    """A declared module that has more to check once the whole manifest is there."""

    def check_in(self, manifest: Manifest) -> None:
        """Raise `Rejected` with the place of what is wrong."""


@runtime_checkable
class TellsPlaces(Protocol):
    """A declared module that knows where in a file it names an effect."""

    def place_of(self, kind: str) -> str:
        """The file and line at which it names a kind, for messages."""


class DescribedModule(Protocol):
    """A module of any style: its parts of the manifest, its code, and the types of what it keeps.

    Without a `state_type` states are read as plain values by their schema, and so are replies.
    """

    @property
    def handle(self) -> Any:
        """What callers name it by: a function, or a `ModuleHandle`."""

    @property
    def name(self) -> str:
        """Its full name."""

    @property
    def entry(self) -> Mapping[str, Any]:
        """Its entry in the section `modules`."""

    @property
    def subscriptions(self) -> tuple[Mapping[str, Any], ...]:
        """Its entries in `routing.subscriptions`."""

    @property
    def schemas(self) -> Schemas:
        """The schemas that it brings."""

    @property
    def effects(self) -> Mapping[str, Mapping[str, Any]]:
        """Entries of the section `effects`, by kind."""

    @property
    def blocks(self) -> Mapping[Cid, bytes]:
        """What has to be in the CAS for its code to run."""

    @property
    def state_type(self) -> Any:
        """The Python type of its states, or None."""

    @property
    def reply_type(self) -> Any:
        """The Python type of its replies, or None."""


@runtime_checkable
class ReadsStates(Protocol):
    """A described module whose states are shown as something else than what is stored."""

    def read_state(self, state: Any) -> Any:
        """What readers see of a stored state, given as plain values."""


@dataclass(frozen=True, slots=True)
class StyleDescription:
    """A `DescribedModule` as plain data."""

    handle: ModuleHandle[Any]
    name: str
    entry: Mapping[str, Any]
    subscriptions: tuple[Mapping[str, Any], ...]
    schemas: Schemas
    effects: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    blocks: Mapping[Cid, bytes] = field(default_factory=dict)
    state_type: Any = None
    reply_type: Any = None


def beside_caller(path: str | PathLike[str], depth: int = 2) -> Path:
    """A path that counts from the folder of the file that calls an app; from here, if it is none."""
    if not isinstance(path, str | PathLike):
        raise bad_option("app", "file", path, 'a path, such as "order.fsm.yaml"')
    caller = Path(sys._getframe(depth).f_code.co_filename)  # noqa: SLF001 - the only way to know it
    return caller.parent / path if caller.is_file() else Path(path)
