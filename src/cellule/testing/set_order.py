"""Finding results that depend on the order of a set: the same steps in processes with other hash seeds.

Python orders sets of texts by hashes that differ from process to process, so a step that lets this order out
computes something else on another machine, or after a restart. `check_set_order` runs many calls in one
process per seed and compares the bytes. This module is also what those processes run.

    parent -> child    length-prefixed DAG-CBOR: {manifest, module, blocks}, then one message per call
    child -> parent    one message per call: [state, events, effects, reply, ann] or {code, text}
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final, NamedTuple

from cellule.errors import Rejected, ensure
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.need import Nodes, drive
from cellule.kernel.program import Context as KernelContext
from cellule.kernel.program import Program, StepFault
from cellule.modules.kinds import CodeKinds
from cellule.modules.python.describe import ModuleDescription, manifest_document
from cellule.values.cbor import decode_trusted, encode
from cellule.values.cid import cid_of
from cellule.values.names import Name

SEEDS: Final = (1, 2)
TIMEOUT_S: Final = 120
_LENGTH_BYTES: Final = 4
_PARTS: Final = ("state", "events", "effects", "reply", "ann")


class Call(NamedTuple):
    """One call of a step."""

    state: bytes | None
    schema: str
    value: bytes
    key: bytes = b""
    context: KernelContext | None = None


def check_set_order(
    description: ModuleDescription, calls: Sequence[Call], seeds: Sequence[int] = SEEDS
) -> None:
    """Run the calls here and under other hash seeds; raises `modules.order_dependent` at a difference."""
    if description.bundle is None:
        raise Rejected(
            "modules.not_bundled", "{function} cannot be stored as code: {problem}.",
            function=description.code.entry, problem="it is described as live: no other process could run it",
            hint="Define it at the top level of a file and describe it without live=True.",
        )  # fmt: skip
    manifest = load_manifest(manifest_document([description]))
    base = str(Name.parse(description.name).base)
    header: Any = {"manifest": manifest.data, "module": base, "blocks": [*description.blocks.values()]}
    messages = [encode(header), *(encode(_packed(call)) for call in calls)]
    here = [answer for _, answer in _answers(iter(messages))]
    for seed in seeds:
        there = _run(messages, seed)
        ensure(len(there) == len(here), "modules.seed_process", "a process answered too few calls")
        for at, (one, other) in enumerate(zip(here, there, strict=True)):
            if one != other:
                raise _different(description.name, calls[at], at, one, other)


def _run(messages: Sequence[bytes], seed: int) -> list[Any]:
    """Answer the messages in a process of its own."""
    given = b"".join(_framed(message) for message in messages)
    process = subprocess.run(  # noqa: S603 - our own module, by the running interpreter
        [sys.executable, "-m", __spec__.name], input=given, capture_output=True, check=False,
        timeout=TIMEOUT_S, env={**os.environ, "PYTHONHASHSEED": str(seed)},
    )  # fmt: skip
    if process.returncode != 0:
        raise Rejected(
            "modules.seed_process", "the process with hash seed {seed} failed: {problem}",
            seed=seed, problem=process.stderr.decode(errors="replace")[-2_000:],
            hint="The bundle must load without the author's files and environment.",
        )  # fmt: skip
    start = 0
    found: list[Any] = []
    while start < len(process.stdout):
        end = start + _LENGTH_BYTES
        size = int.from_bytes(process.stdout[start:end], "big")
        found.append(decode_trusted(process.stdout[end : end + size]))
        start = end + size
    return found


def _answers(messages: Iterator[bytes]) -> Iterator[tuple[bytes, Any]]:
    """The answers to all calls, encoded and as values."""
    header: Any = decode_trusted(next(messages))
    programs = CodeKinds(limit_s=None)
    nodes = Nodes(0)
    manifest = load_manifest(header["manifest"])
    blocks = {cid: block for block in header["blocks"] for cid in (cid_of(block), cid_of(block, "raw"))}
    walk = programs.program(manifest, manifest.modules[header["module"]], nodes)
    program = drive(walk, nodes, lambda cids: {cid: blocks[cid] for cid in cids})
    for message in messages:
        answer = encode(_answer(program, decode_trusted(message)))
        yield answer, decode_trusted(answer)


def _answer(program: Program, packed: Any) -> Any:
    state, schema, value, key, context = packed
    try:
        output = program.step(state, schema, value, key, None if context is None else KernelContext(*context))
    except StepFault as fault:
        return {"code": fault.code, "text": fault.text}
    events, effects = [list(event) for event in output.events], [list(effect) for effect in output.effects]
    return [output.state, events, effects, output.reply, output.ann]


def _packed(call: Call) -> Any:
    context = call.context
    if context is None:
        return [*call]
    entropy = context._entropy  # noqa: SLF001 - the frame's, from which the child derives the same
    parts = [
        context.world, context.module, context.key, context.beat, context.journal_height, context.now_ns,
        entropy, context.era, context.version,
    ]  # fmt: skip
    return [*call[:4], parts]


def _different(module: str, call: Call, at: int, one: Any, other: Any) -> Rejected:
    part = "outcome"
    if isinstance(one, list) and isinstance(other, list):
        part, one, other = next(
            (name, before, after)
            for name, before, after in zip(_PARTS, one, other, strict=True)
            if before != after
        )
    return Rejected(
        "modules.order_dependent",
        "{module}: call {at} on {schema} gives another {part} under another hash seed: {one!r} or {other!r}.",
        module=module, at=at, schema=call.schema, part=part, one=_readable(one), other=_readable(other),
        hint="The order of a set reached the result: use sorted(...).",
    )  # fmt: skip


def _readable(value: Any) -> Any:
    if isinstance(value, bytes):
        return decode_trusted(value)
    if isinstance(value, list):
        return [[*event[:1], decode_trusted(event[1])] for event in value]
    return value


def _framed(message: bytes) -> bytes:
    return len(message).to_bytes(_LENGTH_BYTES, "big") + message


def _read(stream: BinaryIO) -> Iterator[bytes]:
    while True:
        head = stream.read(_LENGTH_BYTES)
        if not head:
            return
        yield stream.read(int.from_bytes(head, "big"))


def main() -> None:
    """Answer calls from standard input; what steps print goes to standard error."""
    out = sys.stdout.buffer
    sys.stdout = sys.stderr
    for answer, _ in _answers(_read(sys.stdin.buffer)):
        out.write(_framed(answer))
    out.flush()


if __name__ == "__main__":
    main()
