"""`PythonProgram`: one reducer as the kernel calls it, bytes in, bytes out.

Every step decodes its arguments anew, so whatever a reducer does to them stays with it; only a state in which
nothing can change, and all of which is exactly what its bytes read as, is kept from the step that made it to
the next. What a reducer answers is checked and
encoded by the codecs of its types. Nothing but `StepFault` leaves a step (`boundary.py`), and no object of
the author's: what an `Output` holds is exactly bytes and text.

A step is taken once per event. It is written out in one piece because each further call would cost a tenth
of it; where it ended is kept in `phase` for the sake of the error alone. A state with nothing beside it
is answered bare: an `Output` around it would cost another tenth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from threading import get_ident
from typing import Any, Final, cast

from msgspec import convert

from cellule.errors import CelluleError, Refused, Rejected
from cellule.kernel.program import CODE_UNAVAILABLE, Output, StepFault, StepFunction, refusal
from cellule.kernel.program import Context as KernelContext
from cellule.modules.python.boundary import Boundary, own_fault
from cellule.modules.python.context import Context
from cellule.modules.python.emissions import Emissions
from cellule.modules.python.failure import Places, exception_text
from cellule.modules.python.interface import Interface, event_decoders, key_decoder, plain_events, state_codec
from cellule.modules.python.loader import is_missing
from cellule.modules.python.module_names import Naming
from cellule.modules.python.requests import Requests, own_keys
from cellule.modules.python.signature import Signature
from cellule.modules.python.step import Refuse, Step
from cellule.modules.python.watchdog import StepTimeout, Watchdog
from cellule.values.cbor import read_unchecked, write_unchecked
from cellule.values.schema.codec import codec_for, exact_writer
from cellule.values.schema.direct import is_constant, plain_class

DECODING: Final = 0
CALLING: Final = 1
ENCODING: Final = 2

_make = cast(
    "Callable[[tuple[Any, ...]], Output]", partial(tuple.__new__, Output)
)  # skips a Python-level call
KEPT_MAX: Final = 10_000  # states of hot cells, kept as objects


class PythonProgram:
    """A reducer with the codecs of its types."""

    is_canonical = True  # our own encoder makes all its bytes
    __slots__ = (
        "_boundary", "_emissions", "_events", "_function", "_keeps", "_kept", "_naming", "_places",
        "_plain_events", "_plain_state", "_read", "_read_key", "_requests", "_slots",
        "_takes_context", "_to_plain", "_watchdog", "_ways", "_write", "_write_reply", "interface",
    )  # fmt: skip

    def __init__(
        self, signature: Signature, interface: Interface, naming: Naming, watchdog: Watchdog, places: Places
    ) -> None:
        self.interface = interface
        self._naming = naming
        self._places = places
        self._watchdog = watchdog
        self._boundary = Boundary("step", watchdog, places)
        self._slots = watchdog.slots
        self._function = signature.function
        self._takes_context = signature.takes_context
        self._events = event_decoders(signature, interface, naming)
        state = state_codec(signature, interface, naming)
        self._read, self._write, self._to_plain = state.decode_trusted, state.encode, state.to_plain
        self._plain_state = plain_class(state.derived.shape)
        self._keeps = self._to_plain is not None and is_constant(state.derived.shape)
        if self._keeps:
            self._to_plain = exact_writer(state.derived)
        self._kept: dict[bytes, Any] = {}
        self._plain_events = plain_events(signature, interface, naming)
        self._read_key = key_decoder(signature, interface, naming)
        self._emissions = Emissions(signature.emits, interface, naming, places)
        self._write_reply = self._reply_writer(signature.reply)
        self._requests = Requests(interface, naming, places)
        self._ways: dict[str, StepFunction] = {}

    def step(
        self, state: bytes | None, schema: str, value: bytes, key: bytes, context: KernelContext | None
    ) -> Output:
        """Take one step, or raise `StepFault`."""
        answer = self.way(schema)(state, value, None, key, context)
        return Output(answer) if isinstance(answer, bytes) else answer

    def forget(self) -> None:
        """See `Program`: the next steps read their states from bytes."""
        self._kept.clear()

    def way(self, schema: str) -> StepFunction:
        """A function that takes steps on events of one schema; a state with nothing beside it comes bare."""
        way = self._ways.get(schema)
        if way is None:
            way = self._ways[schema] = self._new_way(schema)
        return way

    def _new_way(self, schema: str) -> StepFunction:  # noqa: C901 - in one piece, see above
        slots, join, function, takes_context = (
            self._slots, self._watchdog.join, self._function, self._takes_context,
        )  # fmt: skip
        plain, read_event = self._plain_events.get(schema), self._events.get(schema) or _not_taken
        plain_state, read, write, whole = self._plain_state, self._read, self._write, self._whole
        to_plain, keeps, kept = self._to_plain, self._keeps, self._kept

        def step(  # noqa: C901 - as above
            state: bytes | None, value: bytes, fields: Mapping[str, Any] | None, _key: bytes,
            context: KernelContext | None,
        ) -> Output | bytes:  # fmt: skip
            watched = slots.get(get_ident()) or join()
            phase = DECODING
            try:
                watched.token = watched.count = watched.count + 1
                if plain is None:
                    event = read_event(value)
                else:
                    try:
                        event = convert(read_unchecked(value) if fields is None else fields, plain)
                    except Exception:  # noqa: BLE001 - whatever is wrong, the exact reader says what and where
                        event = read_event(value)
                if state is None:
                    before = None
                elif keeps and state in kept:
                    before = kept.pop(state)
                elif plain_state is None:
                    before = read(state)
                else:
                    try:
                        before = convert(read_unchecked(state), plain_state)
                    except Exception:  # noqa: BLE001 - as above
                        before = read(state)
                phase = CALLING
                if takes_context:
                    answer = function(before, event, Context(context, self._read_key))  # type: ignore[arg-type]
                else:
                    answer = function(before, event)
                phase = ENCODING
                output: Output | bytes
                is_step = answer.__class__ is Step
                after = answer.state if is_step else answer
                if is_step and (
                    answer.emit or answer.effects or answer.deletes or answer.reply is not None
                    or answer.ann is not None or answer.cancel
                ):  # fmt: skip
                    output = whole(answer)
                elif answer.__class__ is Refuse:
                    raise Refused(answer.reason, code=answer.code)
                elif after is None:
                    raise _nothing()
                elif to_plain is None:
                    output = write(after)
                else:
                    try:
                        output = write_unchecked(to_plain(after))
                        if keeps:
                            if len(kept) >= KEPT_MAX:
                                kept.clear()
                            kept[output] = after
                    except Exception:  # noqa: BLE001 - as above
                        output = write(after)
                watched.token = 0
                if watched.firing and watched.leave():
                    raise StepTimeout
                return output  # noqa: TRY300 - inside, so that nothing can strike between the check and the end
            except BaseException as error:
                watched.token = 0
                try:
                    struck = watched.leave()
                except StepTimeout:
                    struck = watched.leave() or True
                described = partial(self._described, phase, schema)
                fault = self._boundary.fault(watched, error, described, struck=struck)
                if fault is None:
                    raise
                raise fault from error

        return step

    def _whole(self, step: Step[Any]) -> Output:
        """Check and encode every part of a step."""
        if step.deletes:
            state = None
        elif step.state is None:
            raise _nothing()
        else:
            state = self._write(step.state)
        emit, effects, reply, ann, cancel = step.emit, step.effects, step.reply, step.ann, step.cancel
        return _make((
            state,
            self._emissions.encoded(emit) if emit else (),
            self._requests.encoded(effects) if effects else (),
            None if reply is None else self._write_reply(reply),
            None if ann is None else self._emissions.plain(ann, "ann"),
            own_keys(cancel) if cancel else (),
            False, None,
        ))  # fmt: skip

    def _reply_writer(self, python: Any) -> Callable[[Any], bytes]:
        if python is None:
            return partial(self._emissions.plain, what="reply")
        write = codec_for(self._naming.derived(python)).encode

        def written(reply: Any) -> bytes:
            try:
                return write(reply)
            except Rejected as error:
                raise StepFault("modules.value_invalid", self._cleaned(f"reply: {error}")) from error

        return written

    def _described(self, phase: int, schema: str, error: BaseException) -> StepFault:
        """What an error is recorded as; runs the author's code, so the boundary watches it."""
        kind = type(error)
        if kind is StepFault:
            return own_fault(cast("StepFault", error), self._places)
        if phase != DECODING and issubclass(kind, (Refused, Refuse)):
            refused = cast("Refused | Refuse", error)
            return refusal(refused.reason, refused.code)
        if kind is _NotTaken:
            return StepFault("modules.event_not_taken", f"{self.interface.module} does not take {schema}")
        if phase == DECODING and issubclass(kind, CelluleError):
            return StepFault("modules.input_invalid", self._cleaned(str(error)))
        if phase == ENCODING and issubclass(kind, Rejected):
            return StepFault("modules.state_invalid", self._cleaned(f"the new state: {error}"))
        code = "modules.recursion" if issubclass(kind, RecursionError) else "modules.exception"
        if issubclass(kind, ImportError) and is_missing(cast("ImportError", error), self._places):
            code = CODE_UNAVAILABLE
        return StepFault(code, exception_text(error, self._places))

    def _cleaned(self, text: str) -> str:
        return self._places.cleaned(text)


def _not_taken(_value: bytes) -> Any:
    """What stands for the reader of an event that the module does not take."""
    raise _NotTaken


class _NotTaken(Exception):
    """The module does not take the event."""


def _nothing() -> StepFault:
    return StepFault(
        "modules.returned_nothing",
        "the step returned nothing: return the state, `Step(state, ...)`, or `Step.delete()` to end the cell",
    )
