"""The sections `plans` and `triggers`: a plan becomes a module of style `plan`, a trigger a subscription.

    plans: {shop/charge@1: {steps, edges?, locals?, ...}}     -> modules["shop/charge@1"], its code the plan
                                                                 (`operation`: a run shows its life as one)
    triggers: [{event, plan, correlate_by}]                   -> a subscription by the field `correlate_by`
    a step {op: await_event, event, by?}                      -> a subscription by `by`, else as the trigger's

So a run is a cell whose key is the run's correlation, and an event reaches exactly the run of its own. The
rest of the kernel knows modules and subscriptions only. What the steps say is checked by their compiler.

Rejected: a table of triggers beside the routes. Admission and emission would each have to look in two places.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cellule.kernel.manifest import fields as f
from cellule.kernel.manifest.effects import KIND_ALIASES
from cellule.kernel.manifest.limits import ENTRIES_MAX
from cellule.kernel.manifest.model import TIMER_SET
from cellule.kernel.manifest.problems import Problems, below, near
from cellule.kernel.manifest.system import TIMER_FIRED, VALUE, receipt_event

PLAN_KIND: Final = "plan"
PLAN_STYLE: Final = "plan"
_BODY: Final = ("steps", "edges", "locals")
_OPTIONS: Final = ("cap_slots", "failure", "upgrade", "retention", "open_max", "erasable")
_OPERATION: Final = "operation"
_TRIGGER: Final = ("event", "plan", "correlate_by")


class _Trigger:
    """A trigger as read."""

    def __init__(self, path: str, event: str, by: str) -> None:
        self.path = path
        self.event = event
        self.by = by


def with_plans(problems: Problems, document: object) -> object:
    """The document with modules and subscriptions in place of plans and triggers."""
    if not isinstance(document, Mapping) or not (document.get("plans") or document.get("triggers")):
        return document
    plans = {
        name: (path, body) for name, path, body in f.named_of(problems, "$.plans", document.get("plans"))
    }
    started = _triggers(problems, document.get("triggers"), plans)
    modules: dict[str, Any] = {}
    routes: list[dict[str, str]] = []
    for name, (path, body) in plans.items():
        plan = f.map_of(problems, path, body)
        if not started[name]:
            problems.add(path, "plan_trigger", f"nothing starts {name}", "Add a trigger for it.")
            continue
        modules[name] = _module(problems, path, plan, started[name])
        routes += _routes(problems, path, name, plan, started[name])
    return _merged(document, modules, routes)


def _triggers(problems: Problems, section: object, plans: Mapping[str, Any]) -> dict[str, list[_Trigger]]:
    """The triggers by plan; one for a plan that is not there is a problem."""
    found: dict[str, list[_Trigger]] = {name: [] for name in plans}
    for path, item in f.items_of(problems, "$.triggers", section or []):
        entry = f.map_of(problems, path, item)
        for name in sorted(set(map(str, entry)) - set(_TRIGGER)):
            problems.add(below(path, name), "unknown_field", f"a trigger has no field {name}")
        texts = [
            f.text_of(problems, below(path, name), entry[name]) if entry.get(name) is not None else None
            for name in _TRIGGER
        ]
        event, plan, by = texts
        if event is None or plan is None:
            problems.add(path, "missing_field", "a trigger needs `event` and `plan`")
        elif f.name_of(problems, below(path, "plan"), plan) is None:
            continue
        elif plan not in plans:
            hint = near(plan, plans) or "Add it to the section `plans`."
            problems.add(below(path, "plan"), "plan_unknown", f"there is no plan {plan}", hint)
        elif by is None:
            problems.add(
                path, "correlate_by", "a trigger needs `correlate_by`: the field that tells runs apart",
                "Name a field of the event.",
            )  # fmt: skip
        elif any(each.event == event for each in found[plan]):
            problems.add(path, "duplicate", f"{event} starts {plan} already")
        else:
            found[plan].append(_Trigger(path, event, by))
    return found


def _steps(plan: Mapping[Any, Any], op: str, field: str) -> list[tuple[int, Mapping[Any, Any], str]]:
    """The steps of an operation with their places and the text in a field; the compiler checks the rest."""
    steps = plan.get("steps")
    return [
        (at, step, step[field])
        for at, step in enumerate(steps if isinstance(steps, list) else ())
        if isinstance(step, Mapping) and step.get("op") == op and isinstance(step.get(field), str)
    ]


def _module(
    problems: Problems, path: str, plan: Mapping[Any, Any], triggers: list[_Trigger]
) -> dict[str, Any]:
    """The entry of the section `modules` for a plan."""
    for name in sorted(set(map(str, plan)) - {f.KIND_FIELD, *_BODY, *_OPTIONS, _OPERATION}):
        problems.add(below(path, name), "unknown_field", f"a plan has no field {name}", near(name, _BODY))
    shown = plan.get(_OPERATION, False)
    if not isinstance(shown, bool):
        problems.add(below(path, _OPERATION), "type", f"{_OPERATION} is true or false, not {shown!r:.50}")
    listed = [kind for _, _, kind in _steps(plan, "emit_effect", "kind")]
    kinds = list(dict.fromkeys(KIND_ALIASES.get(kind, kind) for kind in listed))
    receipts = [receipt_event(kind) for kind in kinds if "." in kind]
    receipts += [TIMER_FIRED] if TIMER_SET in kinds else []
    awaited = [event for _, _, event in _steps(plan, "await_event", "event")]
    events = [each.event for each in triggers] + awaited + receipts
    return {
        "kind": "workflow", "style": PLAN_STYLE, "state": VALUE, "context": True,
        "event": list(dict.fromkeys(events)), "effects_emitted": kinds,
        "code": {
            "kind": PLAN_KIND, "plan": {name: plan[name] for name in _BODY if plan.get(name) is not None},
            "triggers": {each.event: each.by for each in triggers},
            **({_OPERATION: True} if shown else {}),
        },
        **{name: plan[name] for name in _OPTIONS if plan.get(name) is not None},
    }  # fmt: skip


def _routes(
    problems: Problems, path: str, name: str, plan: Mapping[Any, Any], triggers: list[_Trigger]
) -> list[dict[str, str]]:
    """The subscriptions of a plan: an event has one field by which it finds its run."""
    paths = {each.event: each.by for each in triggers}
    for at, step, event in _steps(plan, "await_event", "event"):
        by = step.get("by", paths.get(event, triggers[0].by))
        place = below(below(below(path, "steps"), at), "by")
        if not isinstance(by, str) or paths.setdefault(event, by) != by:
            text = f"{event} finds its run by {paths.get(event)!r} already, not by {by!r}"
            problems.add(place, "correlate_by", text)
    return [{"event": event, "module": name, "key_field": by} for event, by in paths.items()]


def _merged(
    document: Mapping[Any, Any], modules: dict[str, Any], routes: list[dict[str, str]]
) -> dict[Any, Any]:
    merged = {name: part for name, part in document.items() if name not in ("plans", "triggers")}
    known = merged.get("modules")
    if isinstance(known, list):
        merged["modules"] = [*known, *({"name": name, **body} for name, body in modules.items())]
    elif known is None or isinstance(known, Mapping):
        merged["modules"] = {**(known or {}), **modules}
    routing = merged.get("routing")
    if routing is None or isinstance(routing, Mapping):
        routing = dict(routing or {})
        # Both names mean the same, and the document keeps the one it has.
        name = "events" if "events" in routing else "subscriptions"
        listed = routing.get(name)
        if listed is None or (isinstance(listed, list) and len(listed) <= ENTRIES_MAX):
            routing[name] = [*(listed or []), *routes]
        merged["routing"] = routing
    return merged
