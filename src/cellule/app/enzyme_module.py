"""`@app.enzyme(...)`: a function `(ctx, signal, target)` as a module, and its entry in the registry.

    @app.enzyme("/signals/image/thumbnail", match="prefix", after=["image_metadata"])
    def resize(ctx: EnzymeContext, signal: str | None, target: str | None) -> None: ...

The entries of an app are registered in the order of its decorators, when a world is made or deployed to. Two
decorators above one function are two entries with the same code. The function stays what it is. An app that
wants the enzymes of Cellule itself says so, and they are bundled like its own.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypedDict

from cellule.app.declarations import check_function, check_named
from cellule.app.effects_config import Grants, Listed, check_listed
from cellule.app.modules import authored_code, checked_options, with_names_of_bundle
from cellule.app.styles import BuildScope, DeclaredFunction
from cellule.heartbeat import exposed_operations
from cellule.heartbeat.mailboxes import enzyme as mailboxes
from cellule.kernel.heartbeat.entries import parse_entry
from cellule.kernel.heartbeat.paths import parse_path
from cellule.kernel.manifest.system import VALUE
from cellule.modules.enzyme.program import ENZYME, check_enzyme
from cellule.modules.python import ModuleDescription
from cellule.modules.python.effects import effect_documents, effect_schemas
from cellule.values.names import Name

_DECLARING: Final = "@app.enzyme"
Names = Iterable[str | Callable[..., Any]]
"""Names of enzymes, or the functions that have them."""


class EnzymeOptions(TypedDict, total=False):
    """The options of `@app.enzyme`.

    `name` is that of the function, if it is not said; `before` and `after` order it against others. `writes`
    are the subtrees it may write, by default all. `retry_limit` and `backoff` (in beats) are for RETRY;
    `depth` is how many beats a cascade may live that it runs in, `signals` how many one run may emit. `flags`
    are kept in the registry and mean nothing.
    """

    name: str
    match: Literal["exact", "prefix"]
    before: Names
    after: Names
    access: Literal["ro", "rw"]
    writes: Iterable[str]
    retry_limit: int
    backoff: int
    depth: int
    signals: int
    flags: Iterable[str]
    effects: Iterable[Listed]
    grants: Grants
    version: int
    open_max: int | None


_OF_ENTRY: Final = ("match", "access", "retry_limit", "backoff", "depth", "signals")


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredEnzyme(DeclaredFunction):
    """See `DeclaredModule`; `entries` are those of the registry."""

    writes: tuple[str, ...] | None
    entries: tuple[Mapping[str, Any], ...]

    def described(self, scope: BuildScope) -> EnzymeDescription:
        """See `DeclaredModule`."""
        naming = scope.naming
        code, stored = authored_code(scope, self.function, ENZYME)
        entry: dict[str, Any] = {
            "kind": "workflow", "style": "enzyme", "state": VALUE, "code": code.document(),
            "cap_slots": dict(self.options.cap_slots), "open_max": self.options.open_max,
            "effects_emitted": sorted(form.kind for form in scope.effects),
        }  # fmt: skip
        if self.writes is not None:
            entry["writes"] = list(self.writes)
        return with_names_of_bundle(EnzymeDescription(
            self.function, naming, code, effect_schemas(scope.effects, naming), stored, str(self.full),
            entry, (), {}, effects=effect_documents(scope.effects, naming),
        ))  # fmt: skip


@dataclass(frozen=True, slots=True)
class EnzymeDescription(ModuleDescription):
    """An enzyme as a module: it has no cells, so no states and no replies."""

    @property
    def state_type(self) -> Any:
        """See `DescribedModule`."""
        return None

    @property
    def reply_type(self) -> Any:
        """See `DescribedModule`."""
        return None


def declare_enzyme(
    namespace: str, version: int, function: Callable[..., Any], query: str, given: EnzymeOptions
) -> DeclaredEnzyme:
    """Check what can be refused at once."""
    check_function(function, _DECLARING)
    check_enzyme(function)
    check_named(_DECLARING, given, EnzymeOptions)
    full = Name(namespace, function.__name__, given.get("version", version))
    entry: dict[str, Any] = {
        "name": given.get("name", function.__name__), "query": query, "module": str(full.base),
        **{name: value for name, value in given.items() if name in _OF_ENTRY},
        "before": _names(given.get("before", ())), "after": _names(given.get("after", ())),
        "flags": list(given.get("flags", ())),
    }  # fmt: skip
    parse_entry(0, entry)
    options = checked_options(_DECLARING, given)
    writes = given.get("writes")
    subtrees = None if writes is None else tuple(parse_path(each, "writes") for each in writes)
    listed = check_listed(_DECLARING, given.get("effects", ()))
    return DeclaredEnzyme(function, full, options, listed, subtrees, (entry,))


def with_entries(known: object, declared: DeclaredEnzyme) -> DeclaredEnzyme | None:
    """The enzyme with the entries of both, where they are one function under two decorators.

    Decorators run from the lowest up; the first written comes first.
    """
    if not isinstance(known, DeclaredEnzyme) or known.function is not declared.function:
        return None
    return replace(known, entries=(*declared.entries, *known.entries))


def enzyme_entries(modules: Iterable[object]) -> list[Mapping[str, Any]]:
    """The entries of all enzymes among the modules of an app, in the order of their decorators."""
    found = [module.entries for module in modules if isinstance(module, DeclaredEnzyme)]
    return [entry for entries in found for entry in entries]


def _names(given: Names) -> list[str]:
    names: list[Any] = [each if isinstance(each, str) else getattr(each, "__name__", each) for each in given]
    return names


Declare = Callable[..., Callable[..., Any]]
"""`app.enzyme`."""


def add_mailboxes(declare: Declare) -> None:
    """The enzyme that runs mailboxes."""
    declare(mailboxes.QUERY, match="prefix", name=mailboxes.NAME)(mailboxes.mailbox)


def add_operations(declare: Declare, known: Container[str]) -> None:
    """The enzyme by which cells show their work as operations, once; `known` are the modules by name."""
    if exposed_operations.NAME in known:
        return
    for query in reversed(exposed_operations.QUERIES):  # decorators run from the lowest up
        declare(query, name=exposed_operations.NAME)(exposed_operations.operation)
