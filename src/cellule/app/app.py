"""`App`: a namespace, and the events, states, reducers and upcasters that its decorators collect.

    app = App("shop")

    @app.event(key="order_id")
    class Placed(msgspec.Struct, frozen=True): ...

    @app.reducer
    def order(state: Order | None, event: Placed | Paid) -> Step[Order]: ...

Everything is kept on the app object: there is no global registry, and importing a file registers nothing but
on the app its decorators name. `build` turns the collection into a manifest and the code it names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar, overload

from cellule.app import build as building
from cellule.app.built import Built
from cellule.app.declared import (
    DeclaredClass,
    DeclaredEvent,
    DeclaredReducer,
    KeyChoice,
    check_frozen,
    check_record,
    is_path,
    is_redefined,
    mark,
    shown_value,
)
from cellule.errors import Rejected
from cellule.kernel.manifest.model import Failure, Upgrade
from cellule.modules.python import ModuleOptions, Retention
from cellule.modules.python import reducer as declare_reducer
from cellule.modules.python.signature import shown_function
from cellule.values.names import ModuleName, Name, check_not_reserved

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

_FAILURES: Final = ("halt", "skip")
_UPGRADES: Final = ("follow", "pin")


class App:
    """One app: `namespace` begins the names of all it declares; `version` is that of its reducers."""

    def __init__(self, namespace: str, *, version: int = 1) -> None:
        check_not_reserved(ModuleName(namespace, "app").at(version))
        self.namespace = namespace
        self.version = version
        self._events: dict[type, DeclaredEvent] = {}
        self._states: dict[type, DeclaredClass] = {}
        self._reducers: dict[str, DeclaredReducer] = {}
        self._upcasters: dict[str, Callable[[Any], Any]] = {}
        self._built: dict[bool, Built] = {}

    def __repr__(self) -> str:
        return f"App({self.namespace!r}, version={self.version})"

    @property
    def events(self) -> Mapping[type, DeclaredEvent]:
        """The declared events by class."""
        return self._events

    @property
    def states(self) -> Mapping[type, DeclaredClass]:
        """The classes that `state` gave a name."""
        return self._states

    @property
    def reducers(self) -> Mapping[str, DeclaredReducer]:
        """The reducers by local name."""
        return self._reducers

    @property
    def upcasters(self) -> list[Callable[[Any], Any]]:
        """The upcasters in the order they were declared."""
        return list(self._upcasters.values())

    @overload
    def event(self, python: C, /) -> C: ...

    @overload
    def event(
        self, python: None = None, /, *, key: str | None = None, name: str | None = None, version: int = 1
    ) -> Callable[[C], C]: ...

    def event(
        self, python: C | None = None, /, *, key: str | None = None, name: str | None = None, version: int = 1
    ) -> C | Callable[[C], C]:
        """Declare a class as an event; `key` is the dotted path of the field that names the cell.

        The event is called `namespace/ClassName@1`, or as `name` and `version` say.
        """

        def declare(given: C) -> C:
            check_record(given, "@app.event")
            check_frozen(given, "@app.event")
            if key is not None and not is_path(key):
                raise _bad_option("@app.event", "key", key, 'a path such as "order_id"')
            declared = DeclaredEvent(given, self._schema_name(given, name, version), key)
            self._check_class(declared)
            self._events[given] = declared
            mark(given, self.namespace)
            return given

        return declare if python is None else declare(python)

    @overload
    def state(self, python: C, /) -> C: ...

    @overload
    def state(
        self, python: None = None, /, *, name: str | None = None, version: int = 1
    ) -> Callable[[C], C]: ...

    def state(
        self, python: C | None = None, /, *, name: str | None = None, version: int = 1
    ) -> C | Callable[[C], C]:
        """Give a state, or a record inside of states and events, another name or version than its own."""

        def declare(given: C) -> C:
            check_record(given, "@app.state")
            declared = DeclaredClass(given, self._schema_name(given, name, version))
            self._check_class(declared)
            self._states[given] = declared
            return given

        return declare if python is None else declare(python)

    @overload
    def reducer(self, function: F, /) -> F: ...

    @overload
    def reducer(
        self, function: None = None, /, *, key: KeyChoice = None, keyed: bool = True, name: str | None = None,
        version: int | None = None, failure: Failure = "halt", upgrade: Upgrade = "follow",
        retention: Retention | None = None, reply: Any = None, emits: Iterable[Any] = (),
    ) -> Callable[[F], F]: ...  # fmt: skip

    def reducer(
        self, function: F | None = None, /, *, key: KeyChoice = None, keyed: bool = True,
        name: str | None = None, version: int | None = None, failure: Failure = "halt",
        upgrade: Upgrade = "follow", retention: Retention | None = None, reply: Any = None,
        emits: Iterable[Any] = (),
    ) -> F | Callable[[F], F]:  # fmt: skip
        """Declare a function as a reducer; its annotations say which events it takes.

        `key` names another key than the events do: one path for all, or `{Placed: "customer_id"}`; in the
        map, None means that the sender gives the key. `keyed=False` sends everything to one cell. `failure`:
        whether a cell whose step failed halts or skips the event. `upgrade`: whether cells follow new code or
        stay pinned to the code they were born under. `reply` is the type of replies, `emits` the events it
        emits.
        """
        _check_choice("failure", failure, _FAILURES)
        _check_choice("upgrade", upgrade, _UPGRADES)
        _check_retention(retention)
        options = ModuleOptions(failure=failure, upgrade=upgrade, retention=retention or Retention())

        def declare(given: F) -> F:
            _check_function(given, "@app.reducer")
            local = name or given.__name__
            full = Name(self.namespace, local, self.version if version is None else version)
            declared = DeclaredReducer(given, local, full.version, key, keyed, options)
            known = self._reducers.get(local)
            if known is not None and not is_redefined(known.function, given):
                raise _taken(
                    f"the reducer {full.base}", shown_function(known.function), shown_function(given)
                )
            declare_reducer(reply=reply, emits=tuple(emits))(given)
            self._built.clear()
            self._reducers[local] = declared
            return given

        return declare if function is None else declare(function)

    def upcaster(self, function: F, /) -> F:
        """Declare `def up(old: OrderV1) -> Order`: how values of an older schema become newer ones."""
        _check_function(function, "@app.upcaster")
        self._built.clear()
        self._upcasters[f"{function.__module__}:{function.__qualname__}"] = function
        return function

    def build(self, *, live: bool = False) -> Built:
        """The manifest of this app, its code as blocks, and the codecs of its classes; built once.

        Code is bundled from the files it stands in. `live` leaves it where it is: no other process can run
        it.
        """
        found = self._built.get(live)
        if found is None:
            found = self._built[live] = building.build(self, live=live)
        return found

    def is_built(self, *, live: bool = False) -> bool:
        """Whether `build` has its answer already."""
        return live in self._built

    def _schema_name(self, python: type, name: str | None, version: int) -> str:
        return str(Name(self.namespace, name or python.__name__, version))

    def _check_class(self, declared: DeclaredClass) -> None:
        """Refuse a name that another class of this app has; forget a class that is defined anew."""
        self._built.clear()
        kinds: tuple[dict[type, Any], ...] = (self._events, self._states)
        for kind in kinds:
            for known in list(kind.values()):
                if known.name != declared.name or known.python is declared.python:
                    continue
                if not is_redefined(known.python, declared.python):
                    old, new = (shown_function(each.python) for each in (known, declared))
                    raise _taken(declared.name, old, new)
                del kind[known.python]


def _check_function(function: object, decorator: str) -> None:
    if not inspect.isroutine(function):
        raise Rejected(
            "app.function", "{decorator} cannot take {value}: it is no function.",
            decorator=decorator, value=shown_value(function),
            hint=f"Put {decorator} right above a `def`; options go by name.",
        )  # fmt: skip


def _check_choice(option: str, given: object, choices: tuple[str, ...]) -> None:
    if given not in choices:
        raise _bad_option("@app.reducer", option, given, " or ".join(map(repr, choices)))


def _check_retention(given: object) -> None:
    if given is not None and not isinstance(given, Retention):
        form = "Retention(ttl=timedelta(...), idle=timedelta(...))"
        raise _bad_option("@app.reducer", "retention", given, form)


def _bad_option(decorator: str, option: str, given: object, wanted: str) -> Rejected:
    return Rejected(
        "app.option", "{decorator}: {option}={given} is not possible.",
        decorator=decorator, option=option, given=shown_value(given), hint=f"Give {wanted}.",
    )  # fmt: skip


def _taken(name: str, old: str, new: str) -> Rejected:
    return Rejected(
        "app.name_taken", "{name} is {old} already, and cannot be {new} too.", name=name, old=old, new=new,
        hint='Rename one of them, or give it another name or version: name="Other", version=2.',
    )  # fmt: skip
