"""A step's requests for effects: each checked against what its module declares, its params encoded.

The manifest names the schema of a kind's params. A record must be of exactly that schema; plain values (a
dict) are checked against it. Whether the request is allowed is decided in the beat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cellule.errors import CelluleError
from cellule.kernel.manifest.problems import near
from cellule.kernel.manifest.system import VALUE
from cellule.kernel.program import CheckedRequest, StepFault
from cellule.modules.python.failure import Places
from cellule.modules.python.interface import Interface
from cellule.modules.python.module_names import Naming
from cellule.values.requests import Request
from cellule.values.schema import types as t
from cellule.values.schema.annotations import shown_type
from cellule.values.schema.codec import codec_for, wire_codec
from cellule.values.schema.fields import is_record_class

Write = Callable[[Any], bytes]
_new = tuple.__new__  # a NamedTuple without its Python-level constructor


class Requests:
    """The requests that one module may make."""

    __slots__ = ("_interface", "_naming", "_places", "_writers")

    def __init__(self, interface: Interface, naming: Naming, places: Places) -> None:
        self._interface = interface
        self._naming = naming
        self._places = places
        self._writers: dict[tuple[str, type], Write] = {}

    def encoded(self, effects: Sequence[Request]) -> list[CheckedRequest]:
        """The same requests with params as canonical bytes; raises `StepFault` naming the first wrong one."""
        if isinstance(effects, Request) or not isinstance(effects, list | tuple):
            raise StepFault("modules.effect_invalid", f"effects is a list of requests, not {_kind(effects)}")
        return [self._plain(effect) or self._encoded(at, effect) for at, effect in enumerate(effects)]

    def _plain(self, effect: object) -> CheckedRequest | None:
        """The same for a request like one before, with neither slot nor key; None where it takes a look."""
        if effect.__class__ is not Request:
            return None
        kind, params, slot, key, limits = effect
        write = self._writers.get((kind, params.__class__))
        if write is None or slot is not None or key is not None or limits is not None:
            return None
        if kind.__class__ is not str:
            return None
        try:
            return _new(CheckedRequest, (kind, write(params), None, None, None))
        except CelluleError:
            return None  # the other way says where

    def _encoded(self, at: int, effect: object) -> CheckedRequest:
        if not isinstance(effect, Request):
            if getattr(effect, "kind", None) in self._interface.effects:
                text = f"effects[{at}] is the effect itself: call it with its params to make a request"
                raise StepFault("modules.effect_invalid", text)
            raise StepFault(
                "modules.effect_invalid", f"effects[{at}] is {_kind(effect)}, which is no request"
            )
        given: object = effect.kind
        kind = str.__str__(given) if isinstance(given, str) else ""
        if kind not in self._interface.effects:
            raise self._undeclared(at, given)
        params = effect.params
        slot = _text(effect.cap_slot, f"effects[{at}].cap_slot")
        key = _text(effect.idempotency_key, f"effects[{at}].idempotency_key")
        limits = _limits(effect.limits, f"effects[{at}].limits")
        write = self._writers.get((kind, params.__class__)) or self._writer(at, kind, params.__class__)
        try:
            return CheckedRequest(kind, write(params), slot, key, limits)
        except CelluleError as error:
            text = self._places.cleaned(f"effects[{at}].params of {kind}: {error}")
            raise StepFault("modules.params_invalid", text) from error

    def _writer(self, at: int, kind: str, python: type) -> Write:
        """How params of a class become bytes; looked up once."""
        wanted = self._interface.effects[kind]
        if not is_record_class(python):
            codec = wire_codec(t.Ref(wanted), self._interface.schemas)
            write: Write = lambda params: codec.encode({} if params is None else params)  # noqa: E731
        else:
            write = self._record_writer(at, kind, python, wanted)
        self._writers[kind, python] = write
        return write

    def _record_writer(self, at: int, kind: str, python: type, wanted: str) -> Write:
        try:
            derived = self._naming.derived(python)
            if wanted == VALUE:
                return codec_for(derived).encode
            if derived.name == wanted:
                return self._naming.codec(python, self._interface.schemas).encode
        except CelluleError as error:
            text = self._places.cleaned(f"effects[{at}].params of {kind}: {error}")
            raise StepFault("modules.params_invalid", text) from error
        text = f"effects[{at}]: {kind} takes {wanted}, not {derived.name or shown_type(python)}"
        raise StepFault("modules.params_type", self._places.cleaned(text))

    def _undeclared(self, at: int, kind: object) -> StepFault:
        known = sorted(self._interface.effects)
        text = f"effects[{at}] asks for {kind!r}, but {self._interface.module} "
        text += f"may ask only for {', '.join(known)}" if known else "may ask for nothing"
        hint = near(kind, known) if isinstance(kind, str) else ""
        return StepFault(
            "modules.effect_undeclared",
            f"{text}. {hint or 'List it at the reducer: @app.reducer(effects=[...]).'}",
        )


def _text(given: object, what: str) -> str | None:
    """Text of our own, or nothing; a subclass of `str` is copied, as the beat must not meet its methods."""
    if given is None:
        return None
    if not isinstance(given, str):
        raise StepFault("modules.effect_invalid", f"{what} is {_kind(given)}, not text")
    text = str.__str__(given)
    if not text:
        raise StepFault("modules.effect_invalid", f"{what} is empty: leave it out, or give a text")
    return text


def own_keys(keys: object) -> list[str]:
    """What a step cancels, as texts of our own; whether they may be keys the kernel checks."""
    if not isinstance(keys, list | tuple) or hasattr(keys, "_fields"):
        raise StepFault("modules.cancel_not_a_list", f"cancel takes a list of keys, not {_kind(keys)}")
    found: list[str] = []
    for at, key in enumerate(keys):
        if not isinstance(key, str):
            raise StepFault("modules.cancel_not_a_list", f"cancel[{at}] is {_kind(key)}, not a key")
        found.append(str.__str__(key))
    return found


def _limits(given: object, what: str) -> dict[str, int] | None:
    """A map of our own, or nothing; what may stand in it is decided in the beat."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise StepFault("modules.effect_invalid", f"{what} is {_kind(given)}, not a map")
    limits = {str.__str__(name): value for name, value in given.items() if isinstance(name, str)}
    if len(limits) != len(given) or not all(type(value) is int for value in limits.values()):
        raise StepFault("modules.effect_invalid", f"{what} is no map of names to whole numbers")
    return limits


def _kind(value: object) -> str:
    return f"a {shown_type(type(value))}"
