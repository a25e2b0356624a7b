"""`WorkflowCode`: a workflow's function with the codecs of all that goes in and comes out.

Values stand in the history as plain data, so links in them are seen; each is turned into an object anew where
a run gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from cellule.errors import CelluleError, Refused, Rejected
from cellule.kernel.manifest.model import TIMER_SET
from cellule.kernel.manifest.system import CALL_FAILED, TIMER_FIRED, receipt_event
from cellule.kernel.program import StepFault, recordable
from cellule.modules.python.context import key_reader
from cellule.modules.python.emissions import Emissions
from cellule.modules.python.failure import Places
from cellule.modules.python.interface import Interface, key_decoder
from cellule.modules.python.module_names import Naming
from cellule.modules.python.requests import Requests
from cellule.modules.python.signature import Signature, shown_function
from cellule.modules.python.step import Refuse
from cellule.modules.python.system import receipt_of
from cellule.modules.workflow.failure import CallFailed, EffectFailed
from cellule.modules.workflow.limits import VALUE_BYTES_MAX
from cellule.modules.workflow.signature import WorkflowSignature, order_event
from cellule.values.cbor import decode_trusted
from cellule.values.requests import Receipt
from cellule.values.schema.codec import codec_for

Read = Callable[[Any], Any]


class WorkflowCode:
    """One workflow as its runs need it."""

    def __init__(
        self, signature: WorkflowSignature, interface: Interface, naming: Naming, places: Places
    ) -> None:
        self.signature = signature
        self.function = signature.function
        self.places = places
        self._naming = naming
        self._interface = interface
        self.events: dict[str, Read] = {}
        self.event_writers: dict[str, Read] = {}
        self.names: dict[Any, str] = {}
        for event in signature.events:
            codec = naming.codec(event, interface.schemas)
            self.names[event] = codec.name
            self.events[codec.name] = codec.from_wire
            self.event_writers[codec.name] = codec.to_wire
        self.hears_of_calls = CALL_FAILED in interface.events
        self.starts = frozenset(self.names[event] for event in signature.starts)
        self.awaited = frozenset(self.names[event] for event in signature.mark.events)
        self.receipts = self._receipts()
        self.requests = Requests(interface, naming, places)
        self.emissions = Emissions((), interface, naming, places)
        arguments = [codec_for(naming.derived(kind)) for _, kind in signature.arguments]
        self.argument_readers = [each.from_wire for each in arguments]
        self._argument_writers = [each.encode for each in arguments]
        self._result = None if signature.result is None else codec_for(naming.derived(signature.result))
        self.read_key = self._key_reader()
        self.module = interface.module
        self.order = order_event(interface.module)
        self._check_events()

    def written(self, arguments: Sequence[Any]) -> list[Any]:
        """Arguments of a new run as they stand in its first entry."""
        return [self._written(at, each) for at, each in enumerate(arguments)]

    def written_last(self, state: Any) -> Any:
        """The last argument of a new run as it stands in its first entry."""
        return self._written(len(self._argument_writers) - 1, state)

    def written_result(self, result: Any) -> Any:
        """The result of a run as it stands in its last entry."""
        if self._result is None:
            if result is not None:
                kind = type(result).__qualname__
                raise StepFault(
                    "workflow.result", f"the workflow says that it returns nothing, and returns a {kind}"
                )
            return None
        return self._value(self._result.encode, result, "the result")

    def check_size(self, data: bytes, what: str) -> None:
        """Refuse a value that is too large."""
        if len(data) > VALUE_BYTES_MAX:
            text = f"{what} has {len(data)} bytes; at most {VALUE_BYTES_MAX}: keep it in a blob"
            raise StepFault("workflow.value_size", text)

    def failure(self, error: BaseException) -> tuple[str, str] | None:
        """Code and text of an error that is an outcome of a run; None for what is a mistake in its code."""
        match error:
            case EffectFailed() | CallFailed():
                return error.code, self._cleaned(str(error))
            case Refused() | Refuse():
                return recordable(str(error.code)), self._cleaned(str(error.reason))
            case TimeoutError():
                return "workflow.timeout", self._cleaned(str(error))
        return None

    def _check_events(self) -> None:
        """Refuse code that does not know an event which the manifest brings to it."""
        known = {*self.events, *self.receipts, self.order, TIMER_FIRED, CALL_FAILED}
        for schema in self._interface.events:
            if schema not in known:
                raise Rejected(
                    "workflow.event_unknown", "{module} takes {schema}, but {function} does not await it.",
                    module=self._interface.module, schema=schema, function=shown_function(self.function),
                    hint="Put @app.workflow(events=[...]) right above the function, so that its copy has it.",
                )  # fmt: skip

    def _written(self, at: int, value: Any) -> Any:
        name, _ = self.signature.arguments[at]
        return self._value(self._argument_writers[at], value, f"the argument {name}")

    def _value(self, write: Callable[[Any], bytes], value: Any, what: str) -> Any:
        try:
            data = write(value)
        except CelluleError as error:
            raise StepFault("workflow.value", self._cleaned(f"{what}: {error}")) from error
        self.check_size(data, what)
        return decode_trusted(data)

    def _receipts(self) -> dict[str, Read]:
        """By schema: how what comes of effects is read; a kind without classes brings plain values."""
        schemas, naming = self._interface.schemas, self._naming
        listed = [each for each in self.signature.mark.effects if not isinstance(each, str)]
        classes = {each.kind: each.receipt for each in listed}
        found: dict[str, Read] = {}
        for kind in self._interface.effects:
            schema = receipt_event(kind)
            if kind in classes and kind != TIMER_SET:
                found[schema] = naming.codec(receipt_of(classes[kind]), schemas, schema).from_wire
            else:
                found[schema] = _plain_receipt
        return found

    def _key_reader(self) -> Callable[[bytes], Any]:
        if self._interface.key is None:
            return key_reader(None, self._interface.schemas)
        keyed = Signature(self.function, None, self.signature.events, True, None, ())
        return key_decoder(keyed, self._interface, self._naming)

    def _cleaned(self, text: str) -> str:
        return self.places.cleaned(text)


def _plain_receipt(wire: Any) -> Receipt[Any]:
    return Receipt(**cast("dict[str, Any]", wire))
