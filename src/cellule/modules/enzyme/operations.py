"""`ctx.op`: operations for enzymes, by the same rules as for everybody.

What a run does to an operation shows to others when the beat is over, and to the run itself at once: so the
answers are those of the rules for the operation as the beat found it, with this run's own changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cellule.errors import Rejected
from cellule.kernel.heartbeat import operations as rules
from cellule.kernel.heartbeat.operations import Envelope, Operation
from cellule.kernel.heartbeat.paths import parse_path
from cellule.kernel.index.keys import pair_key
from cellule.kernel.program import EnzymeCall, TreeView
from cellule.values.cbor import decode_trusted

OPS_PATH: Final = "/rt/ops"


class EnzymeOperations:
    """The operations of the world, for one run. An operation is named by its id or its path."""

    __slots__ = ("_call", "_do", "_encode", "_next", "_seen", "_tree")

    def __init__(
        self, call: EnzymeCall, tree: TreeView, do: Callable[..., None],
        encode: Callable[[object, str], bytes],
    ) -> None:  # fmt: skip
        self._call = call
        self._tree = tree
        self._do = do
        self._encode = encode
        self._next = call.operation
        self._seen: dict[bytes, Operation | None] = {}

    def start(
        self, verb: str, target: str, *, mode: str = "opm:states", ttl: int = 0, payload: object = None
    ) -> str:
        """Start an operation, and return its id; an invalid verb, target or mode fails the run."""
        action = {"do": "start", "verb": verb, "target": target, "mode": mode, "ttl": ttl}
        operation = rules.start(Envelope(verb, parse_path(target, "target"), mode, ttl, self._call.beat))
        if operation is None:
            raise Rejected(
                "operation.argument", "{do}: {field} is {value}: {why}", do="start", field="mode", value=mode,
                why=f"it is one of {', '.join(rules.MODES)}, beside a verb and a ttl from 0",
            )  # fmt: skip
        key = pair_key(self._call.beat, self._next)
        self._next += 1
        self._seen[key] = operation
        self._act(action, payload)
        return rules.id_of(key)

    def state(self, op: str, state: str, *, code: int = 0, note: str | None = None) -> bool:
        """Tell the state of an operation; False for an unknown or a closed one, or an empty state."""
        action = {"do": "state", "operation": op, "state": state, "code": code, "note": note}
        return self._change(
            op, action, None, lambda known, beat: rules.state_set(known, state, code, note, beat)
        )

    def await_(self, op: str, want: str, cont: str, *, ttl: int = 0, payload: object = None) -> bool:
        """Have the signal `cont` sent once, when the operation is as wanted, or `op/tmo` after `ttl` beats.

        False for an unknown operation, or an empty `want` or `cont`. A `ttl` of 0 waits for ever.
        """
        if not cont:
            return False
        action = {"do": "await", "operation": op, "want": want, "cont": parse_path(cont, "cont"), "ttl": ttl}
        return self._change(
            op, action, payload, lambda known, beat: rules.wait(known, want, ttl, cont, None, beat)
        )

    def close(self, op: str, status: str = "sts:ok", *, summary: str | None = None) -> bool:
        """Close an operation; the same again is True and changes nothing, another status is False."""
        action = {"do": "close", "operation": op, "status": status, "summary": summary}
        return self._change(op, action, None, lambda known, beat: rules.close(known, status, summary, beat))

    def get(self, op: str) -> dict[str, Any] | None:
        """An operation as plain values: envelope, state, code, note, history, watchers, close."""
        _, operation = self._find(op)
        found: Any = None if operation is None else decode_trusted(rules.encode(operation))
        return None if found is None else dict(found)

    def _change(
        self, op: str, action: dict[str, Any], payload: object,
        rule: Callable[[Operation, int], Operation | None],
    ) -> bool:  # fmt: skip
        key, operation = self._find(op)
        changed = None if operation is None else rule(operation, self._call.beat)
        if key is None or changed is None:
            return False
        if changed is not operation:
            self._seen[key] = changed
            self._act({**action, "operation": rules.id_of(key)}, payload)
        return True

    def _find(self, op: str) -> tuple[bytes | None, Operation | None]:
        key = rules.key_of(op.removeprefix(f"{OPS_PATH}/"))
        if key is None:
            return None, None
        if key not in self._seen:
            data = self._tree.operation(key)
            self._seen[key] = None if data is None else rules.decode(data)
        return key, self._seen[key]

    def _act(self, action: dict[str, Any], payload: object) -> None:
        wanted = {name: value for name, value in action.items() if value is not None}
        if payload is not None:
            wanted["payload"] = self._encode(payload, "payload")
        self._do("op", op=wanted)
