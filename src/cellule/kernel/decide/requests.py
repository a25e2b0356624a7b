"""What a step asks for besides its new state: requests for effects, checked against what its module declares.

What is wrong with a request itself (a kind that is not declared, params that do not fit, a key that is too
long) fails the step. Whether a request is allowed is decided later, by `intents/gate.py`, and is data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cellule.errors import CelluleError
from cellule.kernel.decide.eras import Compiled
from cellule.kernel.limits import OUTPUT_BYTES_MAX, STEP_CANCELS_MAX, STEP_EFFECTS_MAX
from cellule.kernel.manifest.effects import KIND_ALIASES, limited, limits_problem
from cellule.kernel.manifest.model import EffectKind, Module
from cellule.kernel.program import CheckedRequest, StepFault
from cellule.kernel.state.cells import Slot

KEY_CHARS_MAX = 500  # of an idempotency key


class EffectRequest(NamedTuple):
    """A request that is declared and whose params fit."""

    effect: EffectKind
    params: bytes
    slot: str | None
    key: str | None
    limits: Mapping[str, int] | None = None  # of its own; `effect` has them already


class Origin(NamedTuple):
    """The step (or the retry) that asks: its height, the cell's incarnation, depth and era.

    `entry` is the key of the entry whose step it is, where the cell holds a whole map.
    """

    height: int
    born: int
    depth: int
    era: int
    entry: bytes = b""


class StepSignal(NamedTuple):
    """What a step tells enzymes, by the Emitted record at `height`: a signal, or that it failed."""

    height: int
    depth: int
    value: bytes
    is_failure: bool


class Asking(NamedTuple):
    """What a step leaves to do: intents to open, the heights of those to abandon, names of those to cancel.

    Those of entries that are `removed` from a whole map are abandoned, too. `signals` are for enzymes.
    """

    slot: Slot
    origin: Origin
    asked: Sequence[EffectRequest]
    gone: Sequence[int]
    opened: int = 0  # of those asked, so many of the first are open already
    cancels: Sequence[str] = ()
    removed: frozenset[bytes] = frozenset()
    signals: Sequence[StepSignal] = ()


def check(era: Compiled, module: Module, effects: Sequence[Any]) -> list[EffectRequest]:
    """The requests of a step; `StepFault` where one is not declared or does not fit."""
    if module.kind == "pure":
        raise StepFault("kernel.effect_pure", f"{module.name} is pure and may ask for no effect")
    if len(effects) > STEP_EFFECTS_MAX:
        text = f"the step asks for {len(effects)} effects; at most {STEP_EFFECTS_MAX}"
        raise StepFault("kernel.effects_count", text)
    for at, effect in enumerate(effects):
        if not _is_request(effect):
            raise StepFault(
                "kernel.effect_shape", f"effects[{at}] is not (kind, params, slot, key, limits?): {effect!r}"
            )
    return [_checked(era, module, at, effect) for at, effect in enumerate(effects)]


def check_cancels(cancels: Any) -> list[str]:
    """The names of what a step takes back; `StepFault` where one is none."""
    if not isinstance(cancels, list | tuple) or len(cancels) > STEP_CANCELS_MAX:
        text = f"cancel is a list of at most {STEP_CANCELS_MAX} keys, not {cancels!r}"
        raise StepFault("kernel.cancel_invalid", text)
    for at, name in enumerate(cancels):
        if not isinstance(name, str) or not 1 <= len(name) <= KEY_CHARS_MAX or not _is_text(name):
            text = f"cancel[{at}] is no key (1 to {KEY_CHARS_MAX} characters): {name!r}"
            raise StepFault("kernel.cancel_invalid", text)
    return list(dict.fromkeys(cancels))


def _is_request(effect: Any) -> bool:
    if not isinstance(effect, tuple | list) or len(effect) not in (4, 5):
        return False
    kind, params, slot, key, *_ = effect
    return (
        isinstance(kind, str) and isinstance(params, bytes)
        and (slot is None or isinstance(slot, str)) and (key is None or isinstance(key, str))
    )  # fmt: skip


def _checked(era: Compiled, module: Module, at: int, request: Any) -> EffectRequest:
    kind, params, slot, key, *own_limits = request
    limits = own_limits[0] if own_limits else None
    kind = KIND_ALIASES.get(kind, kind)
    effect = era.manifest.effects.get(kind)
    if effect is None or kind not in module.effects_emitted:
        known = ", ".join(module.effects_emitted) or "none"
        text = f"the step asks for {kind}, which {module.name} does not declare in effects_emitted ({known})"
        raise StepFault("kernel.effect_undeclared", text)
    if len(params) > OUTPUT_BYTES_MAX:
        text = f"the params of effects[{at}] ({kind}) have {len(params)} bytes; at most {OUTPUT_BYTES_MAX}"
        raise StepFault("kernel.effect_size", text)
    if key is not None and not 1 <= len(key) <= KEY_CHARS_MAX:
        text = (
            f"the idempotency key of effects[{at}] ({kind}) has {len(key)} characters; 1 to {KEY_CHARS_MAX}"
        )
        raise StepFault("kernel.effect_key", text)
    if key is not None and not _is_text(key):
        text = f"the idempotency key of effects[{at}] ({kind}) cannot be written as UTF-8: {key!r}"
        raise StepFault("kernel.effect_key", text)
    problem = None if limits is None else limits_problem(limits)
    if problem is None and limits is not None and not effect.external:
        problem = f"{kind} is performed by the kernel and has none"
    if problem is not None:
        raise StepFault("kernel.effect_limits", f"the limits of effects[{at}] ({kind}): {problem}")
    own = None if limits is None else dict(sorted(limits.items()))
    effect = limited(effect, own)
    # The module's own codec has proven these params; a timer is decoded all the same, for its time.
    if type(request) is CheckedRequest and effect.external:
        return EffectRequest(effect, params, slot, key, own)
    try:
        value: Any = era.fits(effect.params).decode(params)
    except CelluleError as error:
        raise StepFault("kernel.effect_params", f"effects[{at}] ({kind}): {error}") from error
    if not effect.external and (value.get("after_ns") is None) == (value.get("at_ns") is None):
        raise StepFault("kernel.effect_params", f"effects[{at}] ({kind}): give after_ns or at_ns")
    return EffectRequest(effect, params, slot, key, own)


def _is_text(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True
