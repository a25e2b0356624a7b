"""The ABI of modules: what a step is called with and what it answers, as canonical DAG-CBOR.

    input   {version: 1, state: bytes|null, event: {schema, value: bytes, key?: bytes}, ctx?: bytes}
    output  {state: bytes|null, domain_events?: [{schema, value, key?}],
             effects?: [{kind, params, cap_slot?, idempotency_key?, limits?}], reply?: bytes, ann?: bytes,
             cancel?: [text]}
            | {state: null, changes: [{key: bytes, state: bytes|null}], ...}   where cell_mode is false
            | {state: null, refuse: {reason: text, code?: text}}

Bytes inside an envelope are canonical values of their own; whether they fit their schemas is checked by
`checked_program`. Decoding is strict: other bytes for the same value, an unknown field or a wrong type are
refused with the field's name. What is absent is left out, never null, except the two states.

Rejected: links from an envelope to its parts. A program would need the CAS to read its own event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from cellule.errors import REFUSED_CODE, CelluleError, Rejected
from cellule.kernel.limits import (
    ABI_OUTPUT_BYTES_MAX,
    MAP_ENTRIES_MAX,
    STEP_CANCELS_MAX,
    STEP_EFFECTS_MAX,
    STEP_EVENTS_MAX,
)
from cellule.kernel.manifest.effects import BOUNDS
from cellule.kernel.manifest.model import Manifest, Module
from cellule.kernel.program import Context, Emit, Output, Request, StepFault, fault_of, refusal
from cellule.kernel.whole_map import EntryChange, WholeMap
from cellule.values.cbor import decode, encode

VERSION: Final = 1


class Input(NamedTuple):
    """What a step is called with; `key` is None for a module without keys, `context` for one without it."""

    state: bytes | None
    schema: str
    value: bytes
    key: bytes | None = None
    context: bytes | None = None


class _Field(NamedTuple):
    """One field of an envelope; `count_max` is of a list, `fields` are those of a map or of a list's maps.

    A list without `fields` holds texts.
    """

    type: type
    required: bool = False
    nullable: bool = False
    count_max: int = 0
    fields: Mapping[str, _Field] | None = None


_Table = Mapping[str, _Field]
_EVENT: Final[_Table] = {"schema": _Field(str, True), "value": _Field(bytes, True), "key": _Field(bytes)}
_LIMITS: Final[_Table] = {name: _Field(int) for name in BOUNDS}
_EFFECT: Final[_Table] = {
    "kind": _Field(str, True), "params": _Field(bytes, True), "cap_slot": _Field(str),
    "idempotency_key": _Field(str), "limits": _Field(dict, fields=_LIMITS),
}  # fmt: skip
_CHANGE: Final[_Table] = {"key": _Field(bytes, True), "state": _Field(bytes, True, nullable=True)}
_REFUSE: Final[_Table] = {"reason": _Field(str, True), "code": _Field(str)}
_INPUT: Final[_Table] = {
    "version": _Field(int, True), "state": _Field(bytes, True, nullable=True),
    "event": _Field(dict, True, fields=_EVENT), "ctx": _Field(bytes),
}  # fmt: skip
_OUTPUT: Final[_Table] = {
    "state": _Field(bytes, True, nullable=True),
    "domain_events": _Field(list, count_max=STEP_EVENTS_MAX, fields=_EVENT),
    "effects": _Field(list, count_max=STEP_EFFECTS_MAX, fields=_EFFECT),
    "reply": _Field(bytes), "ann": _Field(bytes), "cancel": _Field(list, count_max=STEP_CANCELS_MAX),
    "cut": _Field(bool), "refuse": _Field(dict, fields=_REFUSE),
    "changes": _Field(list, count_max=MAP_ENTRIES_MAX, fields=_CHANGE),
}  # fmt: skip
_CONTEXT: Final[_Table] = {
    "world": _Field(bytes, True), "module": _Field(str, True), "key": _Field(bytes, True),
    "cell_mode": _Field(bool, True), "beat": _Field(int, True), "journal_height": _Field(int, True),
    "now_ns": _Field(int, True), "entropy": _Field(bytes, True), "era": _Field(int, True),
    "version": _Field(int, True),
}  # fmt: skip
_WORDS: Final = {
    bytes: "bytes",
    str: "text",
    int: "an integer",
    bool: "a boolean",
    list: "a list",
    dict: "a map",
}


def encode_input(call: Input) -> bytes:
    """The bytes that a program is called with."""
    event = _present(schema=call.schema, value=call.value, key=call.key)
    return encode({"version": VERSION, "state": call.state, "event": event, **_present(ctx=call.context)})


def decode_input(data: bytes) -> Input:
    """What a program is called with; raises `abi.invalid` naming the field."""
    found = _decoded(data, "input", _INPUT)
    if found["version"] != VERSION:
        _refuse("input", "version", f"{found['version']} is not {VERSION}")
    event = found["event"]
    return Input(found["state"], event["schema"], event["value"], event.get("key"), found.get("ctx"))


def encode_output(output: Output, changes: Sequence[EntryChange] | None = None) -> bytes:
    """The bytes of an answer; a list that is empty is left out. `changes` are those of a whole map."""
    events = [_present(schema=each.schema, value=each.value, key=each.key) for each in output.events]
    effects = [
        _present(kind=kind, params=params, cap_slot=slot, idempotency_key=key, limits=limits)
        for kind, params, slot, key, limits in (Request(*each) for each in output.effects)
    ]
    parts = _present(
        domain_events=events or None,
        effects=effects or None,
        reply=output.reply,
        ann=output.ann,
        cancel=list(output.cancels) or None,
        changes=None if changes is None else [{"key": key, "state": state} for key, state in changes],
        cut=output.cut or None,
    )
    return encode({"state": output.state, **parts})


def encode_refusal(reason: str, code: str = REFUSED_CODE) -> bytes:
    """The bytes of an answer that refuses the event."""
    return encode({"state": None, "refuse": _present(reason=reason, code=code)})


def decode_output(data: bytes) -> Output:
    """What a program answered; raises `abi.invalid` naming the field, `StepRefusal` for a refusal."""
    output, changes = decode_answer(data)
    if changes is not None:
        _refuse("output", "changes", "it is for a module with cell_mode: false; a cell answers its state")
    return output


def decode_answer(data: bytes) -> tuple[Output, list[EntryChange] | None]:
    """What a program answered, and the changes of entries that stand there in place of a state."""
    if len(data) > ABI_OUTPUT_BYTES_MAX:
        _refuse("output", "", f"it has {len(data)} bytes; at most {ABI_OUTPUT_BYTES_MAX}")
    found = _decoded(data, "output", _OUTPUT)
    if "refuse" in found:
        _check_refuses_only(found)
        raise refusal(found["refuse"]["reason"], found["refuse"].get("code", REFUSED_CODE))
    events = [Emit(each["schema"], each["value"], each.get("key")) for each in found.get("domain_events", ())]
    effects = [
        Request(
            each["kind"],
            each["params"],
            each.get("cap_slot"),
            each.get("idempotency_key"),
            each.get("limits"),
        )
        for each in found.get("effects", ())
    ]
    output = Output(
        found["state"], events, effects, found.get("reply"), found.get("ann"), found.get("cancel", []),
        found.get("cut", False),
    )  # fmt: skip
    if "changes" not in found:
        return output, None
    if output.state is not None:
        _refuse("output", "changes", "an answer has a state or changes of it, not both")
    return output, [EntryChange(each["key"], each["state"]) for each in found["changes"]]


def _check_refuses_only(found: Mapping[str, Any]) -> None:
    beside = sorted(name for name, part in found.items() if part is not None and name != "refuse")
    if beside:
        _refuse("output", "refuse", f"a refusal changes nothing, but the answer has {', '.join(beside)}, too")


def encode_context(context: Context) -> bytes:
    """The value of `sys/Context@1` for a step."""
    return encode({name: getattr(context, name) for name in _CONTEXT})


def decode_context(data: bytes) -> dict[str, Any]:
    """The fields of a `sys/Context@1`; raises `abi.invalid` naming the field."""
    return _decoded(data, "ctx", _CONTEXT)


class AbiProgram:
    """A function from bytes to bytes as a program: what every way to write a cell outside Python becomes.

    `call` may raise `StepFault` with a code of its own; whatever else it raises fails the step too. With a
    `whole` map its state is that map, and it may answer changes by key.
    """

    def __init__(
        self, call: Callable[[bytes], bytes], *, keyed: bool, whole: WholeMap | None = None
    ) -> None:  # fmt: skip
        self._call = call
        self._keyed = keyed
        self._whole = whole

    @classmethod
    def of(cls, manifest: Manifest, module: Module, call: Callable[[bytes], bytes]) -> AbiProgram:
        """The program of a module, as its manifest says that it is called."""
        whole = None if module.cell_mode else WholeMap.of(manifest, module)
        return cls(call, keyed=module.key is not None, whole=whole)

    def step(
        self, state: bytes | None, schema: str, value: bytes, key: bytes, context: Context | None
    ) -> Output:
        """See `Program.step`."""
        ctx = None if context is None else encode_context(context)
        call = encode_input(Input(state, schema, value, (key or None) if self._keyed else None, ctx))
        try:
            answer = self._call(call)
        except BaseException as error:
            raise fault_of(error) from error
        if not isinstance(answer, bytes):
            raise StepFault("abi.invalid", f"the program answered {type(answer).__name__}, not bytes")
        try:
            if self._whole is None:
                return decode_output(answer)
            return _with_map(self._whole, state, *decode_answer(answer))
        except Rejected as error:
            raise StepFault(error.code, str(error)) from error


def _with_map(
    whole: WholeMap, before: bytes | None, output: Output, changes: list[EntryChange] | None
) -> Output:
    """The answer with the map that is the cell's state from now on."""
    if changes is not None:
        for at, each in enumerate(changes):
            if each.state is not None:
                _check_canonical(f"changes[{at}].state", each.state)
        return output._replace(state=whole.changed(before, changes))
    if output.state is None:
        return output
    _check_canonical("state", output.state)
    return output._replace(state=whole.encode(whole.entries(output.state)))


def _check_canonical(path: str, data: bytes) -> None:
    try:
        decode(data)
    except CelluleError as error:
        _refuse("output", path, f"it is not canonical DAG-CBOR: {error}")


def _present(**parts: Any) -> dict[str, Any]:
    return {name: part for name, part in parts.items() if part is not None}


def _decoded(data: bytes, envelope: str, table: _Table) -> dict[str, Any]:
    try:
        value: Any = decode(data)
    except CelluleError as error:
        _refuse(envelope, "", f"it is not canonical DAG-CBOR: {error}")
    _check_map(envelope, "", value, table)
    found: dict[str, Any] = value
    return found


def _check_map(envelope: str, path: str, value: object, table: _Table) -> None:
    if not isinstance(value, dict):
        _refuse(envelope, path, f"a map is needed, not {type(value).__name__}")
    for name in value:
        if name not in table:
            _refuse(envelope, _below(path, name), f"there is no such field; there are {', '.join(table)}")
    for name, field in table.items():
        where = _below(path, name)
        if name not in value:
            if field.required:
                _refuse(envelope, where, "it is missing")
            continue
        _check_field(envelope, where, value[name], field)


def _check_field(envelope: str, path: str, value: object, field: _Field) -> None:
    if value is None and field.nullable:
        return
    if type(value) is not field.type:
        _refuse(envelope, path, f"{_WORDS[field.type]} is needed, not {type(value).__name__}")
    if not isinstance(value, list):
        if field.fields is not None:
            _check_map(envelope, path, value, field.fields)
        return
    if len(value) > field.count_max:
        _refuse(envelope, path, f"it has {len(value)} entries; at most {field.count_max}")
    for at, item in enumerate(value):
        if field.fields is not None:
            _check_map(envelope, f"{path}[{at}]", item, field.fields)
        elif type(item) is not str:
            _refuse(envelope, f"{path}[{at}]", f"text is needed, not {type(item).__name__}")


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _refuse(envelope: str, path: str, problem: str) -> NoReturn:
    where = f"{envelope}.{path}" if path else envelope
    raise Rejected("abi.invalid", "the ABI's {where}: {problem}", where=where, problem=problem)
