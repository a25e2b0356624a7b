"""Whether a request for an effect is allowed: limits of the world, then grants, then the policy.

Pure decisions over the request, the manifest and what the book counts; a refusal is data, and becomes a
`denied` receipt. That a kind is declared and its params fit is not asked here: that fails the step
(`opening.py`).

Rejected: a grant that is looked up by kind alone. A slot names what a module was given, so that two slots
of one module can reach two hosts with two budgets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cellule.errors import Rejected
from cellule.kernel.decide.eras import Compiled
from cellule.kernel.decide.intents.params_view import Unclear, hosts_of, seen_params, shown_host
from cellule.kernel.decide.requests import EffectRequest
from cellule.kernel.journal.codes import ALLOW, DENY, PARK
from cellule.kernel.journal.records import DecisionExtras
from cellule.kernel.limits import (
    APPROVALS_OPEN_MAX,
    BUDGET_SPENDERS_MAX,
    CELL_INTENTS_MAX,
    DENIAL_TEXT_MAX,
    TIMERS_OPEN_MAX,
)
from cellule.kernel.manifest.grants import BY_CELL
from cellule.kernel.manifest.model import Grant, GrantBudget, Module, Rule
from cellule.kernel.state.intent_book import Book
from cellule.kernel.state.intent_id import spender_hash
from cellule.values.expressions import ExpressionFault
from cellule.values.hosts import BadHost, host_fits


class Verdict(NamedTuple):
    """What was decided; `extras` are the fields of the Decision record."""

    verdict: int
    extras: DecisionExtras


class _Refused(Exception):
    def __init__(self, code: str, text: str) -> None:
        self.code = code
        self.text = text


class Requester(NamedTuple):
    """Who asks: the module, its cell's key, and how many intents the cell has open.

    `timers_replaced` are timers that end if the request is allowed, not counted in `open_intents`.
    """

    module: Module
    key: bytes
    open_intents: int
    timers_replaced: int = 0


def rule(
    book: Book, era: Compiled, who: Requester, asked: EffectRequest, now_ns: int, *, repeats: bool = False
) -> Verdict:
    """Decide a request; one that `repeats` another asks nothing new of the outside, so nothing is counted."""
    extras: DecisionExtras = {}
    try:
        if not repeats:
            _check_limits(book, who, asked)
        grant = _granted(era, who.module, asked)
        is_looked_at = grant is not None or bool(era.policy())  # most requests are governed by neither
        params = _seen(asked) if is_looked_at else None
        if grant is not None:
            extras["grant"] = grant.name
            _check_grant(grant, asked, params, now_ns)
            if grant.budget is not None and not repeats:
                _check_budget(book, grant, _spender(grant.budget, who, params), now_ns, extras)
        verdict = _judge(era, who, asked, params, grant, now_ns, extras)
        if verdict == PARK and not repeats and book.parked >= APPROVALS_OPEN_MAX:
            raise _Refused("kernel.approvals_full", f"{book.parked} intents wait for approvals already")
    except _Refused as refusal:
        extras.pop("period", None)
        extras.pop("spender", None)
        extras.pop("due_ns", None)
        return Verdict(DENY, {**extras, "code": refusal.code, "text": refusal.text[:DENIAL_TEXT_MAX]})
    return Verdict(verdict, extras)


def check_again(grants: Mapping[str, Grant], name: str | None, asked: EffectRequest, now_ns: int) -> None:
    """What was decided before leaves only now: `Rejected` if its grant does not give it any more.

    `name` is that of the grant it was allowed by, if any. Budgets are not asked again.
    """
    try:
        if name is None:
            if asked.effect.needs_grant:
                raise _Refused("kernel.grant_missing", f"{asked.effect.kind} needs a grant now")
            return
        _check_still(grants.get(name), asked, now_ns)
    except _Refused as refusal:
        raise _rejected(refusal) from refusal


def _check_still(grant: Grant | None, asked: EffectRequest, now_ns: int) -> None:
    if grant is None or asked.effect.kind not in grant.effects:
        raise _Refused("kernel.grant_gone", f"the grant of this {asked.effect.kind} is there no more")
    _check_grant(grant, asked, _seen(asked), now_ns)


def grant_again(era: Compiled, module: Module, asked: EffectRequest, now_ns: int) -> Grant | None:
    """The grant for a request that is made again by a person; `Rejected` if there is none that gives it."""
    try:
        grant = _granted(era, module, asked)
        if grant is not None:
            _check_still(grant, asked, now_ns)
    except _Refused as refusal:
        raise _rejected(refusal) from refusal
    return grant


def _rejected(refusal: _Refused) -> Rejected:
    return Rejected(refusal.code, "{why}", why=refusal.text, hint="Deploy a manifest that grants it.")


def _seen(asked: EffectRequest) -> Any:
    try:
        return seen_params(asked.params)
    except Unclear as unclear:
        raise _Refused("kernel.params_unclear", str(unclear)) from unclear


def shown_key(key: bytes) -> str:
    """A cell's key as a policy sees it: its text, else in hex."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key.hex()


def _check_limits(book: Book, who: Requester, asked: EffectRequest) -> None:
    if who.open_intents >= CELL_INTENTS_MAX:
        raise _Refused("kernel.cell_intents", f"the cell has {who.open_intents} open intents already")
    if not asked.effect.external and book.timers - who.timers_replaced >= TIMERS_OPEN_MAX:
        raise _Refused("kernel.timers_full", f"the world has {book.timers} timers set already")


def _granted(era: Compiled, module: Module, asked: EffectRequest) -> Grant | None:
    """The grant that covers the request: the slot's, or the only one of the module that lists the kind."""
    grants, kind = era.manifest.grants, asked.effect.kind  # the module may be of an older era
    if asked.slot is not None:
        if asked.slot not in module.cap_slots:
            known = ", ".join(sorted(module.cap_slots)) or "none"
            raise _Refused("kernel.slot_unknown", f"{module.name} has no slot {asked.slot}; it has: {known}")
        name = module.cap_slots[asked.slot]
        grant = grants.get(name)
        if grant is None:
            text = f"slot {asked.slot} holds grant {name!r}, which the manifest no longer has"
            raise _Refused("kernel.grant_gone", text)
        if kind not in grant.effects:
            text = f"slot {asked.slot} holds grant {grant.name}, which does not give {kind}"
            raise _Refused("kernel.grant_kind", text)
        return grant
    held = {name for name in module.cap_slots.values() if name in grants} if module.cap_slots else ()
    fitting = sorted(name for name in held if kind in grants[name].effects) if held else ()
    if len(fitting) == 1:
        return grants[fitting[0]]
    if len(fitting) > 1:
        text = f"{' and '.join(fitting)} both give {kind}: name the slot"
        raise _Refused("kernel.grant_unclear", text)
    if asked.effect.needs_grant:
        raise _Refused("kernel.grant_missing", f"{kind} needs a grant, and {module.name} has none for it")
    return None


def _check_grant(grant: Grant, asked: EffectRequest, params: Any, now_ns: int) -> None:
    if grant.expires_ns is not None and now_ns >= grant.expires_ns:
        raise _Refused("kernel.grant_expired", f"grant {grant.name} ended at {grant.expires_ns}")
    size = len(asked.params)
    if grant.bytes_max is not None and size > grant.bytes_max:
        text = f"the params have {size} bytes; grant {grant.name} gives {grant.bytes_max}"
        raise _Refused("kernel.grant_size", text)
    if grant.hosts is not None:
        _check_hosts(grant, params, grant.hosts)
    if grant.methods is not None:
        method = str(_at(params, "method") or _METHODS.get(asked.effect.kind, "GET")).upper()
        if method not in grant.methods:
            raise _Refused("kernel.grant_method", f"grant {grant.name} does not give method {method}")
    for path, patterns in sorted(grant.allow.items()):
        found = _at(params, path)
        if not isinstance(found, str) or not any(text_fits(found, pattern) for pattern in patterns):
            text = f"{path} is {found!r}, which grant {grant.name} does not give"
            raise _Refused("kernel.grant_param", text)


def _check_hosts(grant: Grant, params: Any, patterns: Sequence[str]) -> None:
    """Every URL of the params leads where the grant allows, and there is one."""
    try:
        hosts = hosts_of(params)
    except BadHost as problem:
        text = f"the URL leads to no host that grant {grant.name} could name: {problem}"
        raise _Refused("kernel.grant_host", text) from problem
    if not hosts:
        raise _Refused("kernel.grant_host", f"grant {grant.name} names hosts, and the params have no URL")
    for host in hosts:
        if not host_fits(host, patterns):
            raise _Refused("kernel.grant_host", f"host {host} is not among those of grant {grant.name}")


_METHODS = {"llm.generate": "POST"}  # of kinds whose params do not say


def text_fits(text: str, pattern: str) -> bool:
    """Tell whether a text is what a pattern says; `*` stands for any characters, nothing else is special."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    if not text.startswith(first):
        return False
    at = len(first)
    for part in rest[:-1]:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(text) - len(rest[-1]) >= at and text.endswith(rest[-1])


def _at(params: Any, path: str) -> Any:
    found = params
    for name in path.split("."):
        if isinstance(found, list) and name.isascii() and name.isdigit():
            found = found[int(name)] if int(name) < len(found) else None
        else:
            found = found.get(name) if isinstance(found, dict) else None
    return found


def _spender(budget: GrantBudget, who: Requester, params: Any) -> Any:
    """For what a budget counts: None for the world, else a cell or a value of the params."""
    if budget.by is None:
        return None
    if budget.by == BY_CELL:
        return [who.module.base, who.key]
    found = _at(params, budget.by)
    if found is None or isinstance(found, dict | list):
        text = f"the budget counts by {budget.by}, and the params have no such value"
        raise _Refused("kernel.grant_budget", text)
    return [budget.by, found]


def _check_budget(book: Book, grant: Grant, spender: Any, now_ns: int, extras: DecisionExtras) -> None:
    """Say in which period, and for which spender, the request is counted."""
    assert grant.budget is not None
    count, period_ns, by = grant.budget
    period = now_ns // period_ns
    if spender is None:
        spent = book.spent_in(grant.name, period)
    else:
        counts, place = book.spenders(grant.name, period), spender_hash(spender)
        spent = counts.get(place, 0)
        if not spent and len(counts) >= BUDGET_SPENDERS_MAX:
            text = f"grant {grant.name} counts by {by}, and {len(counts)} of them spent something already"
            raise _Refused("kernel.grant_budget", text)
        extras["spender"] = place
    if spent >= count:
        each = "" if by is None else f" for each {by}"
        text = f"grant {grant.name} gives {count}{each} in {period_ns / 1e9:g} s, and they are spent"
        raise _Refused("kernel.grant_budget", text)
    extras["period"] = period


def _judge(
    era: Compiled, who: Requester, asked: EffectRequest, params: Any, grant: Grant | None,
    now_ns: int, extras: DecisionExtras,
) -> int:  # fmt: skip
    """What the policy says; fills in the rule, and when an approval ends."""
    matched = _matched(era, _arguments(who, asked, params, grant, now_ns), extras) if era.policy() else None
    then = era.manifest.policy.default if matched is None else matched.then
    if then == "allow":
        return ALLOW
    reason = matched.reason if matched is not None else ""
    if then == "deny":
        raise _Refused("kernel.policy_denied", reason or f"the policy does not allow {asked.effect.kind}")
    if reason:
        extras["text"] = reason
    if matched is not None and matched.expires_ns is not None:
        extras["due_ns"] = now_ns + matched.expires_ns
    return PARK


def _matched(era: Compiled, seen: Mapping[str, Any], extras: DecisionExtras) -> Rule | None:
    """The first rule that holds; one that cannot be asked denies."""
    for each, expression in era.policy():
        extras["rule"] = each.name
        try:
            if expression.evaluate(seen):
                return each
        except ExpressionFault as fault:
            raise _Refused("kernel.policy_error", f"rule {each.name}: {fault}") from fault
    extras.pop("rule", None)
    return None


def _arguments(
    who: Requester, asked: EffectRequest, params: Any, grant: Grant | None, now_ns: int
) -> Mapping[str, Any]:
    effect, module = asked.effect, who.module
    return {
        "effect": {
            "kind": effect.kind, "params": params, "priority": effect.priority, "cap_slot": asked.slot,
            "idempotency_key": asked.key, "host": shown_host(params),
        },
        "module": {"name": module.name, "kind": module.kind, "style": module.style},
        "cell": {"key": shown_key(who.key)},
        "grant": None if grant is None else grant.name,
        "now_ns": now_ns,
    }  # fmt: skip
