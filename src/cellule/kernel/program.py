"""The contract between the kernel and code: a step is called with bytes and answers with bytes.

Every way to write a cell (Python, WASM, FSM, plan, workflow, aggregate) is a `CodeKind` of `cellule.modules`,
and `programs.py` picks one by the manifest's `code.kind`. A program gets the stored state, the event and,
where the module declares it, a context; it gives an `Output`, or a `StepFault` that names what went wrong.

A program promises: outputs are canonical bytes that fit the schemas its module declares; the same input gives
the same output, which `verify` checks; nothing outside the arguments is read or changed. The output of kinds
that are not trusted is checked by the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, Protocol, runtime_checkable

from cellule.errors import REFUSED_CODE, CelluleError
from cellule.kernel.limits import ERROR_TEXT_MAX, REFUSAL_CODE_MAX
from cellule.kernel.manifest.model import Manifest, Module, Upcaster
from cellule.kernel.manifest.system import Ended
from cellule.kernel.need import Need, Nodes
from cellule.values.cbor import decode
from cellule.values.cid import Cid
from cellule.values.link import Link

CODE_UNAVAILABLE = "kernel.code_unavailable"
"""The code of a step that could not be taken because its program could not be loaded; `verify` passes it."""

TIMED_OUT = "modules.timed_out"
"""The code of an enzyme whose run took too long, as records have it; `verify` passes it, too."""


class Emit(NamedTuple):
    """An event a step emits; `key` only where the route cannot take it; a call has a token, and an answer."""

    schema: str
    value: bytes
    key: bytes | None = None
    call: tuple[str, str] | None = None


class Request(NamedTuple):
    """A request for an effect as a program wrote it; the kernel checks it."""

    kind: str
    params: bytes
    cap_slot: str | None = None
    idempotency_key: str | None = None
    limits: dict[str, int] | None = None


class CheckedRequest(NamedTuple):
    """A request for an effect whose params were written by a codec of the schema that the kind declares."""

    kind: str
    params: bytes
    cap_slot: str | None = None
    idempotency_key: str | None = None
    limits: dict[str, int] | None = None


class Output(NamedTuple):
    """What a step answers. `state=None` deletes the cell; a log module's state is the entries to append.

    `cancels` are keys of timers and effects that the cell asked for before and wants no more. `cut` begins a
    log anew: all its entries go, and those of this step are its first. `ended`: no call is answered any more.
    """

    state: bytes | None
    events: Sequence[Emit] = ()
    effects: Sequence[Any] = ()
    reply: bytes | None = None
    ann: bytes | None = None
    cancels: Sequence[str] = ()
    cut: bool = False
    ended: Ended | None = None


class LogMark(NamedTuple):
    """Where a log ends: the links of its sealed chunks, and its tail. Two logs with one mark are equal."""

    chunks: Sequence[Link]
    tail: bytes


class StepFault(Exception):
    """A step failed: user code raised, broke a limit or answered something invalid."""

    def __init__(self, code: str, text: str, *, timed_out: bool = False) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text
        self.timed_out = timed_out


class StepRefusal(StepFault):
    """A step refused its event, for a reason of its own: an outcome, which leaves a step as a fault does."""


def refusal(reason: object, code: object) -> StepFault:
    """What a step that refuses is recorded as; a fault, where its reason or code is no text.

    A long reason is cut, and never stops the cell: it may hold what the event holds.
    """
    for name, given in (("reason", reason), ("code", code)):
        if type(given) is not str:
            problem = f"the {name} of a refusal must be a text, not {type(given).__name__}"
            return StepFault("kernel.refusal_invalid", problem)
    if len(str(code)) > REFUSAL_CODE_MAX:
        problem = f"the code of a refusal has {len(str(code))} characters; at most {REFUSAL_CODE_MAX}"
        return StepFault("kernel.refusal_invalid", problem)
    return StepRefusal(recordable(str(code)) or REFUSED_CODE, recordable(str(reason)))


def recordable(text: str) -> str:
    """A text as it may stand in a record: not too long, and without lone surrogates."""
    text = text if len(text) <= ERROR_TEXT_MAX else text[: ERROR_TEXT_MAX - 3] + "..."
    return text.encode("utf-8", "replace").decode()


def fault_of(error: BaseException) -> StepFault:
    """What a call of a program that raised is recorded as: whatever it raised, only that step fails.

    A `KeyboardInterrupt` is a person at the keyboard and no outcome of a step: it is raised again.
    """
    kind = type(error)
    if kind is StepFault or kind is StepRefusal:
        return error  # type: ignore[return-value]
    if issubclass(kind, KeyboardInterrupt):
        raise error
    try:
        text = f"{kind.__name__}: {error}"
    except BaseException as broken:
        if issubclass(type(broken), KeyboardInterrupt):
            raise
        text = f"{kind.__name__}: its text cannot be read ({type(broken).__name__})"
    return StepFault("kernel.program_trap", f"the program stopped: {text}")


class Context:
    """What a step may know beside its state and event; all of it derives from the journal."""

    __slots__ = (
        "_entropy", "beat", "cell_mode", "era", "journal_height", "key", "module", "now_ns", "version",
        "world",
    )  # fmt: skip

    def __init__(
        self, world: bytes, module: str, key: bytes, beat: int, journal_height: int, now_ns: int,
        entropy: bytes, era: int, version: int, *, cell_mode: bool = True,
    ) -> None:  # fmt: skip
        self.world = world
        self.module = module
        self.key = key
        self.cell_mode = cell_mode
        self.beat = beat
        self.journal_height = journal_height
        self.now_ns = now_ns
        self._entropy = entropy
        self.era = era
        self.version = version

    @property
    def entropy(self) -> bytes:
        """32 bytes of this step's own: derived from the frame's entropy and the step's height."""
        return sha256(self._entropy + self.journal_height.to_bytes(8, "big")).digest()


StepFunction = Callable[
    [bytes | None, bytes, Mapping[str, Any] | None, bytes, Context | None], Output | bytes
]
"""A step on an event of one schema: of state, value, the value decoded (None where nobody did), key and
context. It may answer the bytes of a new state bare, where nothing stands beside them."""


class Program(Protocol):
    """The code of one module in one era.

    It may also have `way(schema) -> StepFunction`, which the hot path calls; and `forget()`, if it keeps
    anything from a step to the next in place of bytes, which drops it, as `forget_world(world)` drops what is
    of one world, which leaves memory. That of a log module may have
    `resume(mark, schema, value, key, context) -> Output | None`: a step without the log, None where it keeps
    nothing that stands where the log ends. Then the log is read, and `step` called.
    """

    def step(
        self, state: bytes | None, schema: str, value: bytes, key: bytes, context: Context | None
    ) -> Output:
        """Take one step, or raise `StepFault`. Nothing else may leave it."""


class EnzymeCall(NamedTuple):
    """What an enzyme is run with. `place` is the number of the run, `operation` that of the next to start."""

    world: bytes
    name: str
    number: int
    signal: str | None
    target: str | None
    payload: bytes | None
    beat: int
    now_ns: int
    entropy: bytes
    place: int = 0
    operation: int = 1
    intervals: Sequence[int] = ()


class EnzymeOutput(NamedTuple):
    """What a run answers: its return code, and what it did, in order, as plain maps that `do` something."""

    code: int
    actions: Sequence[Mapping[str, Any]] = ()


class TreeView(Protocol):
    """The tree as it was when the beat began. A read that has to wait raises `Unwound`."""

    def read(self, path: str) -> bytes | None:
        """The state of a node; None where there is none."""

    def names(self, path: str, after: str | None, limit: int) -> list[str]:
        """Names right below a node."""

    def operation(self, key: bytes) -> bytes | None:
        """The state of an operation, if it is there."""


class Unwound(BaseException):
    """A run read what is not in memory: it is run again once it is. Nobody but the kernel handles this."""


class EnzymeProgram(Protocol):
    """The code of a module of style `enzyme`."""

    def run(self, call: EnzymeCall, tree: TreeView) -> EnzymeOutput:
        """Run once, or raise `StepFault`; `Unwound` passes through. Nothing else may leave it."""


def forget_kept(program: Program, world: bytes | None = None) -> None:
    """Let a program keep nothing of its earlier steps, or of those of one world that leaves memory."""
    forget = getattr(program, "forget" if world is None else "forget_world", None)
    if forget is not None:
        forget(*(() if world is None else (world,)))


def check_output(program: Program, output: Output) -> None:
    """Prove that all bytes of an answer are values, unless the program vouches for that (`is_canonical`)."""
    if getattr(program, "is_canonical", False):
        return
    parts = [("state", output.state), ("reply", output.reply), ("ann", output.ann)]
    parts += [(f"domain_events[{at}].value", event[1]) for at, event in enumerate(output.events)]
    for path, data in [(path, data) for path, data in parts if data is not None]:
        try:
            decode(data)
        except CelluleError as error:
            raise StepFault("kernel.output_invalid", f"{path}: {error}") from error
        except TypeError as error:
            problem = f"{path}: bytes are needed, not {type(data).__name__}"
            raise StepFault("kernel.output_invalid", problem) from error


def step_function(program: Program, schema: str) -> StepFunction:
    """The quickest way to take a program's steps on events of a schema."""
    way = getattr(program, "way", None)
    if way is not None:
        found: StepFunction = way(schema)
        return found

    def step(
        state: bytes | None, value: bytes, _fields: object, key: bytes, context: Context | None
    ) -> Output | bytes:
        output = program.step(state, schema, value, key, context)
        check_output(program, output)
        new, events, effects, reply, ann, cancels, _, ended = output
        if new is None or events or effects or reply is not None or ann is not None or cancels or ended:
            return output
        return new

    return step


class ModuleCode(Protocol):
    """Finds the code of modules. Loading may ask for nodes of the CAS."""

    def check(self, code: Mapping[str, Any], what: str) -> None:
        """Refuse code that can never run here, by its description alone; `what` names whose code it is."""

    def pack(
        self, code: Mapping[str, Any], folder: str | None, what: str
    ) -> tuple[Mapping[str, Any], Mapping[Cid, bytes]]:
        """From code as an author writes it, its files in `folder`, to what a manifest stores and its blocks.

        Called once, before a world is made or deployed to; nothing else of a kind may read files.
        """

    def program(self, manifest: Manifest, module: Module, nodes: Nodes) -> Generator[Need, None, Program]:
        """Return the program of `module`, or raise `Rejected` where it cannot be loaded.

        Asked once per module and era, then kept by the world.
        """


@runtime_checkable
class UpcasterCode(Protocol):
    """Finds the code of upcasters."""

    def upcaster(
        self, manifest: Manifest, upcaster: Upcaster, nodes: Nodes
    ) -> Generator[Need, None, Callable[[bytes], bytes]]:
        """Return the pure function that turns values of one schema into values of the next."""


class Programs(ModuleCode, UpcasterCode, Protocol):
    """Finds code; given to the world by the host."""
