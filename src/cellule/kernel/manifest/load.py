"""From a document to a manifest: aliases resolved, everything checked, one normal form, one identity.

    document (as written) -> drafts + problems -> normal form -> canonical bytes -> CID

The same manifest written with aliases, as lists or maps, or in another order of map keys has the same
normal form. Bytes are only taken in normal form, so that a manifest's CID is the CID of its stored bytes.

Rejected: stopping at the first problem. Authors mend a manifest as a whole.
Rejected: normalising stored bytes silently. An era would name a CID that nobody stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cellule.errors import Rejected
from cellule.kernel.manifest.effects import load_effects, normal_effects, untyped, with_receipts
from cellule.kernel.manifest.fields import KIND_FIELD, Fields
from cellule.kernel.manifest.fit import Fitting
from cellule.kernel.manifest.grants import load_grants, normal_grants
from cellule.kernel.manifest.limits import FORMAT_VERSION
from cellule.kernel.manifest.model import EffectKind, Grant, Manifest, Policy, Route, Schedule
from cellule.kernel.manifest.modules import ModuleDraft, check_slots, load_modules
from cellule.kernel.manifest.opaque import opaque
from cellule.kernel.manifest.policies import load_policy, normal_policy
from cellule.kernel.manifest.problems import Problems
from cellule.kernel.manifest.schedules import check_routes, load_schedules, normal_schedules
from cellule.kernel.manifest.schemas import check_kind, load_schemas
from cellule.kernel.manifest.system import SYSTEM_SCHEMAS
from cellule.kernel.manifest.upcasts import Edges
from cellule.kernel.manifest.wires import RouteDraft, WiringReader
from cellule.values.cbor import decode, encode
from cellule.values.cid import cid_of
from cellule.values.schema.document import to_document
from cellule.values.schema.fault import shown
from cellule.values.schema.identity import identity
from cellule.values.schema.registry import Schemas
from cellule.values.schema.types import Ref

EXTRA_SECTIONS: Final = ("bindings", "plans")
_SECTIONS: Final = (
    KIND_FIELD, "format", "schemas", "modules", "routing", "upcasters", "triggers", "effects", "capabilities",
    "policy", "schedules", *EXTRA_SECTIONS,
)  # fmt: skip
_ALIASES: Final = {"caps": "capabilities", "policies": "policy", "module_bindings": "bindings"}


@dataclass(frozen=True, slots=True)
class _Outside:
    """What a manifest says about the outside: effects, who may ask for them, and events by the calendar."""

    effects: Mapping[str, EffectKind]
    grants: Mapping[str, Grant]
    policy: Policy
    schedules: Mapping[str, Schedule]

    def normal(self) -> dict[str, Any]:
        """The sections of the normal form."""
        return {
            "effects": normal_effects(self.effects), "capabilities": normal_grants(self.grants),
            "policy": normal_policy(self.policy), "schedules": normal_schedules(self.schedules),
        }  # fmt: skip


def load_manifest(document: Mapping[str, object] | bytes) -> Manifest:
    """Validate a manifest; raises `Rejected` listing all problems with their paths.

    A mapping is JSON-like (text, numbers, lists, maps, and `Link`); bytes must be a normal form.
    """
    if not isinstance(document, bytes | bytearray | memoryview):
        return _load(document)
    data = bytes(document)
    manifest = _load(decode(data))
    if manifest.data != data:
        raise Rejected(
            "manifest.not_normal", "the stored manifest {cid} is not in normal form", cid=str(cid_of(data)),
            hint="Store the bytes that load_manifest(document).data gives.",
        )  # fmt: skip
    return manifest


def _load(document: object) -> Manifest:
    problems = Problems()
    root = Fields(problems, "$", document, _SECTIONS, _ALIASES)
    check_kind(root, "manifest")
    _check_format(problems, root)
    earlier = len(problems)
    schemas = load_schemas(problems, root.at("schemas"), root.get("schemas"))
    is_sound = len(problems) == earlier
    outside, schemas, modules = _outside(root, schemas)
    wiring = WiringReader(problems, schemas, modules)
    section = {} if root.get("routing") is None else root.get("routing")
    routing = Fields(
        problems, root.at("routing"), section, ("subscriptions", "inboxes"), {"events": "subscriptions"}
    )
    subscriptions, inboxes = wiring.subscriptions(routing), wiring.inboxes(routing)
    upcasters = wiring.upcasters(root)
    extra = _extra(problems, root, wiring)
    if is_sound:
        fitting = Fitting(problems, schemas, upcasters)
        fitting.fit(modules.values(), subscriptions, list(inboxes.values()))
    problems.check_none()
    manifest = _manifest(schemas, modules, subscriptions, inboxes, upcasters, extra, outside)
    check_routes(problems, root.at("schedules"), manifest)
    problems.check_none()
    return manifest


def _outside(root: Fields, schemas: Schemas) -> tuple[_Outside, Schemas, dict[str, ModuleDraft]]:
    """The sections about the outside, the modules that use it, and all schemas with those of receipts."""
    problems, section = root.problems, root.get("modules")
    place = root.at("schemas")
    if root.get("effects") is None:
        modules = load_modules(problems, root.at("modules"), section, schemas)
        kinds = untyped(kind for draft in modules.values() for kind in draft.effects_emitted)
        schemas = with_receipts(problems, place, schemas, kinds)
    else:
        kinds = load_effects(problems, root.at("effects"), root.get("effects"), schemas)
        schemas = with_receipts(problems, place, schemas, kinds)
        modules = load_modules(problems, root.at("modules"), section, schemas, kinds)
    grants = load_grants(problems, root.at("capabilities"), root.get("capabilities"), kinds, schemas)
    check_slots(problems, modules, grants)
    policy = load_policy(problems, root.at("policy"), root.get("policy"))
    schedules = load_schedules(problems, root.at("schedules"), root.get("schedules"), schemas)
    return _Outside(kinds, grants, policy, schedules), schemas, modules


def _check_format(problems: Problems, root: Fields) -> None:
    version = root.get("format")
    if version is not None and (type(version) is not int or version != FORMAT_VERSION):
        text = f"{shown(version)} is no format of manifests that this version of Cellule reads"
        problems.add(root.at("format"), "format", text, f"It reads {FORMAT_VERSION}.")


def _extra(problems: Problems, root: Fields, wiring: WiringReader) -> dict[str, Any]:
    """The sections that the kernel keeps for others."""
    extra: dict[str, Any] = {"triggers": wiring.triggers(root)}
    for name in EXTRA_SECTIONS:
        value = root.get(name)
        if value is not None and not isinstance(value, Mapping | list | tuple | str):
            problems.add(root.at(name), "type", f"a map, list or text is needed here, not {shown(value)}")
        elif value is not None:
            extra[name] = opaque(problems, root.at(name), value)
    return {name: value for name, value in extra.items() if value}


def _manifest(
    schemas: Schemas, modules: Mapping[str, ModuleDraft], subscriptions: list[RouteDraft],
    inboxes: Mapping[str, RouteDraft], upcasters: Edges, extra: Mapping[str, Any], outside: _Outside,
) -> Manifest:  # fmt: skip
    own = {name: schema for name, schema in schemas.items() if name not in SYSTEM_SCHEMAS}
    routing = {
        "subscriptions": [{"event": route.event, **route.normal()} for route in subscriptions],
        "inboxes": {source: route.normal() for source, route in inboxes.items()},
    }
    steps = [step for group in upcasters.values() for step in group]
    sections: dict[str, Any] = {
        "schemas": {name: to_document(schema) for name, schema in own.items()},
        "modules": {draft.name: draft.normal() for draft in modules.values()},
        "routing": {name: part for name, part in routing.items() if part},
        "upcasters": [_without_empty({"from": s.old, "to": s.new, "code": s.code}) for s in steps],
        **outside.normal(),
        **extra,
    }
    data = _encoded({"format": FORMAT_VERSION, **_without_empty(sections)})
    routes: dict[str, tuple[Route, ...]] = {}
    for route in subscriptions:
        routes[route.event] = (*routes.get(route.event, ()), route.route())
    return Manifest(
        cid=cid_of(data), data=data, schemas=schemas,
        schema_ids={name: identity(Ref(name), schemas) for name in schemas},
        modules={base: draft.module() for base, draft in sorted(modules.items())}, routes=routes,
        inboxes={source: draft.route() for source, draft in sorted(inboxes.items())},
        upcasters=upcasters, extra=extra, effects=outside.effects, grants=outside.grants,
        policy=outside.policy, schedules=outside.schedules,
    )  # fmt: skip


def _encoded(normal: dict[str, Any]) -> bytes:
    try:
        return encode(normal)
    except Rejected as error:  # each part has canonical bytes, but the whole is too long or too deep
        raise Rejected(
            "manifest.value", "manifest at {path}: {text}", path="$", text=str(error),
            problems=[("$", "manifest.value", str(error))],
        ) from error  # fmt: skip


def _without_empty(parts: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in parts.items() if part}
