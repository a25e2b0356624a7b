"""A declared reducer or upcaster as a module of the manifest: checked against the app, then described.

Names of classes that are not `namespace/ClassName@1` are stored beside the code, so that the copies in the
bundle get the same ones; only those of files that are in the bundle, since others could not be found there.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cellule.app.declarations import DeclaredReducer, apps_of, bad_option, check_flag, duration_ns
from cellule.app.effects_config import check_grants
from cellule.app.keys import KeyOwner, Paths, check_entry_keys, check_paths, key_paths
from cellule.errors import Rejected
from cellule.kernel.manifest.problems import near
from cellule.modules.python import ModuleOptions, Retention
from cellule.modules.python.bundle import Bundle, module_path
from cellule.modules.python.code import PythonCode
from cellule.modules.python.describe import (
    Description,
    ModuleDescription,
    UpcasterDescription,
    code_of,
    describe,
    describe_upcaster,
)
from cellule.modules.python.effects import EffectForm
from cellule.modules.python.module_names import Naming
from cellule.modules.python.signature import read_signature, read_upcaster, shown_function
from cellule.modules.python.system import SYSTEM_NAMES
from cellule.values.schema.annotations import shown_type
from cellule.values.schema.registry import Schemas

if TYPE_CHECKING:
    from cellule.app.app import App
    from cellule.app.styles import BuildScope

D = TypeVar("D", bound="ModuleDescription | UpcasterDescription")

SCHEMA_VERSION: Final = 1
"""The version of every schema whose class does not say another."""

_CHOICES: Final = {"failure": ("halt", "skip"), "upgrade": ("follow", "pin")}
_OPTIONS: Final = (*_CHOICES, "retention", "open_max", "cell_mode", "erasable")


def naming_of(app: App) -> Naming:
    """How the classes of an app are named; those with the name they would have anyway are left out."""
    declared = [*app.events.values(), *app.states.values()]
    usual = {each.python: f"{app.namespace}/{each.python.__name__}@{SCHEMA_VERSION}" for each in declared}
    names = {each.python: each.name for each in declared if each.name != usual[each.python]}
    return Naming(app.namespace, SCHEMA_VERSION, names)


def describe_reducer(
    app: App, declared: DeclaredReducer, naming: Naming, effects: Iterable[EffectForm], *, live: bool
) -> ModuleDescription:
    """Describe a reducer; raises `Rejected` naming it and what to write instead."""
    signature = read_signature(declared.function)
    paths = event_paths(
        app, naming, declared, signature.events, signature.emits, cell_mode=declared.cell_mode
    )  # fmt: skip
    try:
        found = describe(
            declared.function, namespace=app.namespace, name=declared.local, version=declared.version,
            schema_version=SCHEMA_VERSION, names=naming.names, key=paths, options=declared.options, live=live,
            effects=effects,
        )  # fmt: skip
    except Rejected as error:
        raise for_authors(app, declared.function, error) from error
    return with_names_of_bundle(found)


def event_paths(
    app: App, naming: Naming, declared: KeyOwner, events: Iterable[Any], emits: Iterable[Any] = (), *,
    cell_mode: bool = True,
) -> Paths | None:  # fmt: skip
    """Where the keys of a module's events stand; refuses events that are not the app's, and wrong keys."""
    events = tuple(events)
    check_events(app, declared.where, events, "takes")
    check_events(app, declared.where, emits, "emits", system=())
    paths = key_paths(declared, events, app.events)
    if not cell_mode:
        check_entry_keys(declared.where, paths)
    if paths is not None:
        check_paths(declared, paths, naming)
    return paths


def with_events(schemas: Schemas, events: Iterable[Any], naming: Naming) -> Schemas:
    """Schemas together with those of events."""
    for event in events:
        schemas = schemas.merged(naming.derived(event).schemas)
    return schemas


def describe_app_upcaster(
    app: App, function: Callable[[Any], Any], naming: Naming, *, live: bool
) -> UpcasterDescription:
    """Describe an upcaster, whose two classes must have different names."""
    signature = read_upcaster(function)
    old, new = (naming.derived(each).name for each in (signature.old, signature.new))
    if old is None or new is None or old == new:
        raise Rejected(
            "app.upcaster_names", "{function} leads from {old} to {new}: two names are needed.",
            function=shown_function(function), old=old or shown_type(signature.old),
            new=new or shown_type(signature.new),
            hint='Say the versions: @app.state(name="Order", version=1) on the old class, '
            "@app.state(version=2) on the new one.",
        )  # fmt: skip
    try:
        found = describe_upcaster(
            function, namespace=app.namespace, schema_version=SCHEMA_VERSION, names=naming.names, live=live
        )
    except Rejected as error:
        raise for_authors(app, function, error) from error
    return with_names_of_bundle(found)


def revised(description: D, revision: int) -> D:
    """The same live code under an entry of its own, so that two versions of it can be told apart."""
    code = replace(description.code, entry=f"{description.code.entry}#{revision}")
    return replace(description, code=code, entry={**description.entry, "code": code.document()})


def checked_options(where: str, given: Mapping[str, object]) -> ModuleOptions:
    """The options that modules of all styles have, out of those given; `app.option` names a wrong one."""
    options: dict[str, Any] = {name: value for name, value in given.items() if name in _OPTIONS}
    for name, choices in _CHOICES.items():
        if options.get(name, choices[0]) not in choices:
            raise bad_option(where, name, options[name], " or ".join(map(repr, choices)))
    retention = options.pop("retention", None) or Retention()
    if not isinstance(retention, Retention):
        form = "Retention(ttl=timedelta(...), idle=timedelta(...))"
        raise bad_option(where, "retention", retention, form)
    for name, span in (("ttl", retention.ttl), ("idle", retention.idle)):
        if span is not None:
            duration_ns("Retention", name, span)
    open_max = options.get("open_max")
    if open_max is not None and (type(open_max) is not int or open_max < 1):
        raise bad_option(where, "open_max", open_max, "a number above zero")
    keyed = check_flag(where, "keyed", given.get("keyed", True))
    check_erasable(where, options.get("erasable", False), cell_mode=options.get("cell_mode", True))
    emits = given.get("emits", ())
    if isinstance(emits, type):
        raise bad_option(where, "emits", emits, f"a list: emits=[{emits.__name__}]")
    grants: Any = given.get("grants", ())
    made = ModuleOptions(**options, retention=retention, cap_slots=check_grants(grants))
    _check_cell_mode(made, where, keyed=keyed)
    return made


def check_erasable(where: str, erasable: object, *, cell_mode: object = True) -> None:
    """Refuse what is no choice, or has no cell of its own to erase."""
    if check_flag(where, "erasable", erasable) and cell_mode is False:
        raise bad_option(where, "erasable", True, "only one of `erasable=True` and `cell_mode=False`")


def _check_cell_mode(options: ModuleOptions, where: str, *, keyed: bool) -> None:
    """Refuse a cell mode that is none, or one cell for all keys where it means nothing."""
    if not check_flag(where, "cell_mode", options.cell_mode) and not keyed:
        raise bad_option(where, "cell_mode", False, "only one of `cell_mode=False` and `keyed=False`")
    if not options.cell_mode and options.retention != Retention():
        raise bad_option(where, "cell_mode", False, "no `retention` with it: it removes cells, not entries")


def authored_code(
    scope: BuildScope, function: Callable[..., Any], form: str
) -> tuple[PythonCode, Bundle | None]:
    """A function of the app as code of this form, and its bundle unless it runs live."""
    try:
        code, stored = code_of(function, scope.naming, live=scope.live)
    except Rejected as error:
        raise for_authors(scope.app, function, error) from error
    return replace(code, form=form), stored


def check_events(
    app: App, where: str, events: Iterable[Any], verb: str, system: Container[Any] = SYSTEM_NAMES
) -> None:
    """Refuse events that the app does not have; of Cellule's own, those in `system` are for all apps."""
    for event in events:
        if event in app.events or event in system:
            continue
        raise Rejected(
            "app.event_unknown", "{function} {verb} {event}, which is no event of {app}.",
            function=where, verb=verb, event=shown_type(event), app=app,
            hint=_unknown_hint(app, event),
        )  # fmt: skip


def _unknown_hint(app: App, event: Any) -> str:
    if event in SYSTEM_NAMES:
        return "It is an event of Cellule itself, which no reducer emits."
    others = [name for name in apps_of(event) if name != app.namespace]
    if others:
        return (
            f"It is registered on the app {others[0]!r}: an event belongs to the app that handles it. "
            "Register it on this one too, with `app.event(TheClass)`."
        )
    if event in app.states:
        return "It is declared by @app.state: use @app.event."
    if apps_of(event):
        return "It is registered on another App of the same name: use one App object."
    similar = near(getattr(event, "__name__", ""), [each.__name__ for each in app.events])
    return f"Put @app.event above the class. {similar}".strip()


def for_authors(app: App, function: Callable[..., Any], error: Rejected) -> Rejected:
    """The same refusal in the words of an app's author."""
    if error.code != "modules.not_bundled":
        return error
    return Rejected(
        "app.not_bundled", "{function} of {app} cannot be stored as code: {problem}.",
        function=shown_function(function), app=app, problem=error.fields["problem"],
        hint="Define the app at the top level of a file. Tests may run it as it is: testing.World(app).",
    )  # fmt: skip


def with_names_of_bundle(description: D) -> D:
    """Keep only the names of classes that the bundle's code can reach."""
    code = description.code
    kept = {
        place: name
        for place, name in code.names.items()
        if name in description.schemas or _is_in(description, place)
    }
    if description.bundle is None or len(kept) == len(code.names):
        return description
    code = replace(code, names=kept)
    entry: Mapping[str, Any] = {**description.entry, "code": code.document()}
    return replace(description, code=code, entry=entry)


def _is_in(description: Description, place: str) -> bool:
    """Whether the file of `module:ClassName` is part of the bundle."""
    if description.bundle is None:
        return False
    module = place.partition(":")[0]
    paths = {module_path(module, is_package=True), module_path(module, is_package=False)}
    return not paths.isdisjoint(description.bundle.plan.files)
