"""From a plan as it is written to one that runs: every name, edge, type and key checked, values compiled.

    {"steps": [{"id", "op", ...}, ...], "edges": [{"from", "to", "when"?}, ...]?, "locals": {name: schema}?}

Everything wrong is collected with its place and raised together, before a world is made or changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cellule.errors import Rejected
from cellule.kernel.manifest.effects import KIND_ALIASES
from cellule.kernel.manifest.keys import KeyForm
from cellule.kernel.manifest.model import TIMER_SET, Manifest, Module
from cellule.kernel.manifest.problems import near
from cellule.kernel.manifest.schemas import is_receipt
from cellule.kernel.manifest.system import receipt_event
from cellule.modules.plan.expr import SCHEMA_FIELD, ExprCompiler, Names, Value
from cellule.modules.plan.graph import check_graph, read_edges
from cellule.modules.plan.limits import STEPS_MAX
from cellule.modules.plan.problems import PlanProblems
from cellule.modules.plan.shapes import part_of
from cellule.values.names import Name
from cellule.values.schema import types as t
from cellule.values.schema.codec import WireCodec, wire_codec
from cellule.values.schema.document import load
from cellule.values.schema.types import Schema

_FIELDS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "emit_effect": (("kind", "params"), ("cap_slot", "cap", "bind")),
    "await_receipt": (("for",), ("bind",)),
    "raise_event": (("event",), ("reducer", "module", "key")),
    "await_event": (("event",), ("where", "by", "bind")),
    "assign": (("expr", "bind"), ()),
    "end": ((), ("result",)),
}
WAITS: Final = ("await_receipt", "await_event")


@dataclass(slots=True)
class Step:
    """A step that runs; which fields it has depends on `op`."""

    id: str
    op: str
    edges: tuple[tuple[Value | None, str], ...] = ()
    value: Value | None = None  # params, event, expr or result; the filter of an await_event
    codec: WireCodec | None = None
    name: str = ""  # the kind, the schema of the event, or the step whose receipt is awaited
    slot: str | None = None
    bind: str | None = None
    key: Value | None = None
    key_form: KeyForm | None = None
    key_path: tuple[str, ...] = ()
    key_only: bool = False
    path: str = ""


@dataclass(slots=True)
class CompiledPlan:
    """A plan that runs: its steps by id, where it begins, and which schemas begin or go on with a run."""

    steps: Mapping[str, Step]
    first: str
    triggers: Mapping[str, tuple[str, ...]]  # where the correlation stands, by schema of the event
    awaited: frozenset[str]
    module: str = ""  # its base name
    operation: bool = False  # a run shows its life as an operation


def compile_plan(manifest: Manifest, module: Module) -> CompiledPlan:
    """Compile the plan of a module; raises `Rejected` with all problems and their places."""
    return _PlanCompiler(manifest, module).compile()


class _PlanCompiler:
    def __init__(self, manifest: Manifest, module: Module) -> None:
        self._manifest = manifest
        self._schemas = manifest.schemas
        self._module = module
        self._problems = PlanProblems(module.name)
        self._exprs = ExprCompiler(self._problems, manifest.schemas)
        self._triggers: dict[str, tuple[str, ...]] = {
            event: tuple(path.split(".")) for event, path in dict(module.code.get("triggers", {})).items()
        }

    def compile(self) -> CompiledPlan:
        plan = self._module.code.get("plan")
        plan = plan if isinstance(plan, Mapping) else {}
        drafts = self._drafts(plan.get("steps"))
        self._problems.check_none()
        edges = read_edges(self._problems, plan.get("edges"), list(drafts))
        names = self._names(plan, drafts)
        steps = {id: self._step(id, drafts, names) for id in drafts}
        for id, step in steps.items():
            step.edges = tuple(
                (self._guard(edge.when, edge.path, names), edge.to) for edge in edges.get(id, ())
            )
        waits = [id for id, step in steps.items() if step.op in WAITS]
        ends = [id for id, step in steps.items() if step.op == "end"]
        check_graph(self._problems, list(drafts), edges, waits, ends)
        self._problems.check_none()
        awaited = frozenset(step.name for step in steps.values() if step.op == "await_event")
        shown = bool(self._module.code.get("operation"))
        return CompiledPlan(
            steps, next(iter(steps)), self._triggers, awaited, self._module.base, shown
        )  # fmt: skip

    def _drafts(self, section: Any) -> dict[str, tuple[str, Mapping[str, Any]]]:
        """The steps by id, with their places: ids, operations and fields are as they have to be."""
        found: dict[str, tuple[str, Mapping[str, Any]]] = {}
        if not isinstance(section, list) or not 1 <= len(section) <= STEPS_MAX:
            self._problems.add("steps", f"a list of 1 to {STEPS_MAX} steps is needed")
            return found
        for at, item in enumerate(section):
            path = f"steps[{at}]"
            if not isinstance(item, Mapping):
                self._problems.add(path, "a step is a map with `id` and `op`")
                continue
            id, op = item.get("id"), item.get("op")
            if not isinstance(id, str) or not id or "." in id:
                self._problems.add(f"{path}.id", "an id is a text without dots")
                continue
            if id in found:
                self._problems.add(f"{path}.id", f"there are two steps {id!r}")
            if op not in _FIELDS:
                hint = near(str(op), _FIELDS)
                self._problems.add(f"{path}.op", f"{op!r} is none of {', '.join(_FIELDS)}", hint)
                continue
            needed, more = _FIELDS[str(op)]
            for name in needed:
                if name not in item:
                    self._problems.add(path, f"{op} needs `{name}`")
            for name in sorted(set(map(str, item)) - {"id", "op", *needed, *more}):
                self._problems.add(f"{path}.{name}", f"{op} has no field {name!r}", near(name, needed + more))
            found[id] = path, item
        return found

    def _names(self, plan: Mapping[str, Any], drafts: Mapping[str, tuple[str, Mapping[str, Any]]]) -> Names:
        """What expressions may name: the triggers' events, locals and the results of steps that wait."""
        local: dict[str, Schema | None] = {}
        step: dict[str, Schema | None] = {}
        declared = plan.get("locals") or {}
        for name, schema in declared.items() if isinstance(declared, Mapping) else ():
            local[str(name)] = self._local_schema(f"locals.{name}", schema)
        for id, (path, item) in drafts.items():
            found: Schema | None = None
            if item["op"] == "await_event" and item["event"] in self._schemas:
                found = t.Ref(item["event"])
            elif item["op"] == "await_receipt":
                origin = drafts.get(str(item["for"]), ("", {}))[1]
                if origin.get("kind") in self._manifest.effects and origin.get("kind") != TIMER_SET:
                    found = t.Ref(receipt_event(str(origin["kind"])))
            if item["op"] in WAITS:
                step[id] = found
            bind = self._bind(path, item)
            if bind is not None:
                local.setdefault(bind, found)
        inputs = tuple(t.Ref(event) for event in self._triggers)
        correlation: Schema | None = None
        for event, steps in self._triggers.items():
            correlation = part_of(t.Ref(event), steps, self._schemas)[0]
        return Names(inputs, correlation, local, step)

    def _local_schema(self, path: str, schema: Any) -> Schema | None:
        try:
            found: Schema = t.Ref(str(Name.parse(schema))) if isinstance(schema, str) else load(schema, path)
            self._schemas.check(found, path)
        except Rejected as error:
            self._problems.add(path, str(error.fields.get("problem", error)))
            return None
        return found

    def _bind(self, path: str, item: Mapping[str, Any]) -> str | None:
        bind = item.get("bind")
        if isinstance(bind, Mapping):
            bind = bind.get("as", bind.get("effect_id_as"))
        if bind is not None and (not isinstance(bind, str) or not bind or "." in bind):
            self._problems.add(f"{path}.bind", "the name of a local is a text without dots")
            return None
        return bind

    def _guard(self, when: Any, path: str, names: Names) -> Value | None:
        return None if when is None else self._exprs.compile(when, f"{path}.when", names, t.Bool())

    def _step(
        self, id: str, drafts: Mapping[str, tuple[str, Mapping[str, Any]]], names: Names
    ) -> Step:  # fmt: skip
        path, item = drafts[id]
        step = Step(id, str(item["op"]), bind=self._bind(path, item), path=path)
        if step.op == "emit_effect":
            self._effect(step, item, names)
        elif step.op == "await_receipt":
            step.name = str(item["for"])
            if drafts.get(step.name, ("", {}))[1].get("op") != "emit_effect":
                self._problems.add(f"{path}.for", f"there is no emit_effect step {step.name!r}")
        elif step.op == "raise_event":
            self._event(step, item, names)
        elif step.op == "await_event":
            self._awaited(step, item, names)
        elif step.op == "assign":
            wanted = names.local.get(step.bind or "")
            step.value = self._exprs.compile(item["expr"], f"{path}.expr", names, wanted)
        else:
            step.value = self._exprs.compile(item.get("result"), f"{path}.result", names)
        return step

    def _effect(self, step: Step, item: Mapping[str, Any], names: Names) -> None:
        kind = self._manifest.effects.get(KIND_ALIASES.get(str(item["kind"]), str(item["kind"])))
        if kind is None or kind.kind not in self._module.effects_emitted:
            hint = near(str(item["kind"]), self._manifest.effects)
            self._problems.add(f"{step.path}.kind", f"there is no effect {item['kind']!r}", hint)
            return
        step.name, step.codec = kind.kind, wire_codec(t.Ref(kind.params), self._schemas)
        step.slot = item.get("cap_slot", item.get("cap"))
        if step.slot is not None and step.slot not in self._module.cap_slots:
            self._problems.add(f"{step.path}.cap_slot", f"the plan has no slot {step.slot!r}")
        step.value = self._exprs.compile(item["params"], f"{step.path}.params", names, t.Ref(kind.params))

    def _awaited(self, step: Step, item: Mapping[str, Any], names: Names) -> None:
        step.name = str(item["event"])
        if "where" in item:
            seen = names._replace(event=t.Ref(step.name), has_event=True)
            step.value = self._exprs.compile(item["where"], f"{step.path}.where", seen, t.Bool())

    def _event(self, step: Step, item: Mapping[str, Any], names: Names) -> None:
        """The event that a step raises, and the key of the cell that it is for."""
        expr, path = item["event"], f"{step.path}.event"
        fields = expr.get("record") if isinstance(expr, Mapping) else None
        schema = fields.get(SCHEMA_FIELD) if isinstance(fields, Mapping) else None
        if not isinstance(schema, str) or schema not in self._schemas:
            hint = near(str(schema), self._schemas)
            self._problems.add(path, f"the record of an event names its schema as `{SCHEMA_FIELD}`", hint)
            return
        if Name.parse(schema).is_reserved or is_receipt(schema):
            self._problems.add(path, f"{schema} is an event of Cellule's own; no plan raises it")
        step.name, step.codec = schema, wire_codec(t.Ref(schema), self._schemas)
        step.value = self._exprs.compile(expr, path, names, t.Ref(schema))
        target = item.get("reducer", item.get("module"))
        if target is not None:
            self._target(step, item, str(target), names)

    def _target(self, step: Step, item: Mapping[str, Any], target: str, names: Names) -> None:
        base = target.rpartition("@")[0] or target
        module = self._manifest.modules.get(base)
        if module is None or target not in (module.name, base):
            hint = near(target, [each.name for each in self._manifest.modules.values()])
            self._problems.add(f"{step.path}.reducer", f"there is no module {target}", hint)
            return
        route = next((each for each in self._manifest.routes.get(step.name, ()) if each.base == base), None)
        if route is None:
            text = f"{step.name} is not routed to {target}"
            self._problems.add(f"{step.path}.event", text, "Add it to routing.subscriptions.")
            return
        if module.key is None:
            if "key" in item:
                self._problems.add(f"{step.path}.key", f"{target} has no key")
            return
        if "key" not in item:
            self._problems.add(step.path, f"{target} is keyed, so the step needs `key`")
            return
        step.key = self._exprs.compile(item["key"], f"{step.path}.key", names, module.key)
        step.key_form = KeyForm(module.key, self._schemas)
        step.key_path, step.key_only = route.key_path, route.key_only
