"""Programs that are not trusted: everything they answer is checked before the kernel uses it.

Checked are: types, counts and sizes; canonical bytes (so no NaN, no -0.0, no second spelling); that states,
events and upcast values fit their schemas; that events are declared and not Cellule's own; that no link is
there which the step was not given. Effects are checked by the beat, as they are for every request that is not
a `CheckedRequest`. What is wrong fails that one step.

Rejected: links to anything in the CAS. A program could pin or read what belongs to another world.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from cellule.errors import CelluleError
from cellule.kernel.limits import OUTPUT_BYTES_MAX, STEP_EFFECTS_MAX, STEP_EVENTS_MAX
from cellule.kernel.manifest.limits import KEY_BYTES_MAX
from cellule.kernel.manifest.model import Manifest, Module, Upcaster
from cellule.kernel.manifest.schemas import is_receipt
from cellule.kernel.manifest.system import SIGNAL
from cellule.kernel.program import Context, Emit, Output, Program, Request, StepFault, fault_of, forget_kept
from cellule.values.cbor import decode, links_of
from cellule.values.cid import Cid
from cellule.values.names import Name
from cellule.values.schema.codec import WireCodec, wire_codec
from cellule.values.schema.types import Ref

INVALID = "kernel.output_invalid"


class CheckedProgram:
    """A program whose every answer is checked."""

    is_canonical = True

    def __init__(self, program: Program, manifest: Manifest, module: Module) -> None:
        self._program = program
        self._manifest = manifest
        self._state = wire_codec(Ref(module.state), manifest.schemas)
        self._events: dict[str, WireCodec] = {}

    def forget(self) -> None:
        """See `forget_kept`."""
        forget_kept(self._program)

    def step(
        self, state: bytes | None, schema: str, value: bytes, key: bytes, context: Context | None
    ) -> Output:
        """See `Program.step`."""
        try:
            output = self._program.step(state, schema, value, key, context)
        except BaseException as error:
            raise fault_of(error) from error
        _check_shape(output)
        known = {*links_of(value), *(() if state is None else links_of(state))}
        if output.state is not None:
            _check_value("state", output.state, self._state, known)
        for at, event in enumerate(output.events):
            self._check_event(f"domain_events[{at}]", event, known)
        for at, request in enumerate(output.effects):
            self._check_params(f"effects[{at}].params", request, known)
        for name, part in (("reply", output.reply), ("ann", output.ann)):
            if part is not None:
                _check_value(name, part, None, known)
        return output._replace(effects=[Request(*request) for request in output.effects])

    def _check_event(self, path: str, event: Emit, known: set[Cid]) -> None:
        codec = self._events.get(event.schema)
        if codec is None:
            codec = self._events[event.schema] = self._codec(path, event.schema)
        if event.key is not None and len(event.key) > KEY_BYTES_MAX:
            _refuse(f"{path}.key", f"it has {len(event.key)} bytes; at most {KEY_BYTES_MAX}")
        _check_value(f"{path}.value", event.value, codec, known)

    def _check_params(self, path: str, request: Request, known: set[Cid]) -> None:
        """The form of the params; whether the kind is declared and the slot is there, the beat checks."""
        kind = self._manifest.effects.get(request[0])
        codec = None if kind is None else wire_codec(Ref(kind.params), self._manifest.schemas)
        _check_value(path, request[1], codec, known)

    def _codec(self, path: str, schema: str) -> WireCodec:
        if schema not in self._manifest.schemas:
            _refuse(f"{path}.schema", f"the manifest has no schema {schema[:300]!r}")
        if (Name.parse(schema).is_reserved and schema != SIGNAL) or is_receipt(schema):
            _refuse(f"{path}.schema", f"{schema} is an event of Cellule's own; no module emits it")
        return wire_codec(Ref(schema), self._manifest.schemas)


def checked_upcaster(
    function: Callable[[bytes], bytes], manifest: Manifest, upcaster: Upcaster
) -> Callable[[bytes], bytes]:
    """An upcaster whose every answer is checked."""
    codec = wire_codec(Ref(upcaster.new), manifest.schemas)

    def upcast(data: bytes) -> bytes:
        try:
            value = function(data)
        except BaseException as error:
            raise fault_of(error) from error
        if len(value) > OUTPUT_BYTES_MAX:
            _refuse("upcast", f"the value has {len(value)} bytes; at most {OUTPUT_BYTES_MAX}")
        _check_value("upcast", value, codec, set(links_of(data)))
        return value

    return upcast


def _check_shape(output: Any) -> None:
    """Types, counts and sizes, before anything is decoded."""
    if not isinstance(output, Output):
        _refuse("output", f"an Output is needed, not {type(output).__name__}")
    if len(output.events) > STEP_EVENTS_MAX:
        _refuse("domain_events", f"it has {len(output.events)} entries; at most {STEP_EVENTS_MAX}")
    if len(output.effects) > STEP_EFFECTS_MAX:
        _refuse("effects", f"it has {len(output.effects)} entries; at most {STEP_EFFECTS_MAX}")
    parts = [part for part in (output.state, output.reply, output.ann) if part is not None]
    for at, event in enumerate(output.events):
        if type(event.schema) is not str:
            _refuse(f"domain_events[{at}].schema", "a schema's name is needed")
        parts += [event.value, b"" if event.key is None else event.key]
    for at, request in enumerate(output.effects):
        if len(request) not in (4, 5):
            _refuse(f"effects[{at}]", "a request is (kind, params, slot, key, limits?)")
        parts.append(request[1])
    if not all(type(part) is bytes for part in parts):
        _refuse("output", "its values, params and keys are bytes")
    size = sum(map(len, parts))
    if size > OUTPUT_BYTES_MAX:
        raise StepFault(
            "kernel.output_size", f"the step's output has {size} bytes; at most {OUTPUT_BYTES_MAX}"
        )


def _check_value(path: str, data: bytes, codec: WireCodec | None, known: set[Cid]) -> None:
    try:
        value = decode(data)
        is_canonical = codec is None or codec.encode(value) == data
    except CelluleError as error:
        _refuse(path, str(error), error)
    if not is_canonical:
        _refuse(
            path,
            "it is not in the canonical form of its schema: a null field, an unsorted set or a whole float",
        )
    foreign = [cid for cid in links_of(data) if cid not in known]
    if foreign:
        _refuse(path, f"it links {foreign[0]}, which the step was not given")


def _refuse(path: str, problem: str, cause: BaseException | None = None) -> NoReturn:
    raise StepFault(INVALID, f"{path}: {problem}") from cause
