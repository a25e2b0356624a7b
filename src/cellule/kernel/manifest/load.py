"""From a document to a manifest: aliases resolved, everything checked, one normal form, one identity.

    document (as written) -> drafts + problems -> normal form -> canonical bytes -> CID

The same manifest written with aliases, as lists or maps, or in another order of map keys has the same
normal form. Bytes are only taken in normal form, so that a manifest's CID is the CID of its stored bytes.

Rejected: stopping at the first problem. Authors mend a manifest as a whole.
Rejected: normalising stored bytes silently. An era would name a CID that nobody stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from cellule.errors import Rejected
from cellule.kernel.manifest.effects import load_effects, untyped, with_receipts
from cellule.kernel.manifest.enzymes import load_enzymes
from cellule.kernel.manifest.fields import KIND_FIELD, Fields, Scope, opaque
from cellule.kernel.manifest.fit import Fitting
from cellule.kernel.manifest.grants import load_grants
from cellule.kernel.manifest.limits import FORMAT_VERSION
from cellule.kernel.manifest.model import Grant, Manifest, Policy, Route, Schedule, plain
from cellule.kernel.manifest.modules import ModuleDraft, check_slots, load_modules
from cellule.kernel.manifest.plans import with_plans
from cellule.kernel.manifest.policies import load_policy, normal_policy
from cellule.kernel.manifest.problems import Problems
from cellule.kernel.manifest.schedules import check_routes, load_schedules, normal_schedule
from cellule.kernel.manifest.schemas import check_kind, load_schemas
from cellule.kernel.manifest.system import SYSTEM_SCHEMAS
from cellule.kernel.manifest.upcasts import Edges
from cellule.kernel.manifest.wires import RouteDraft, WiringReader
from cellule.values.cbor import decode, encode
from cellule.values.cid import cid_of
from cellule.values.schema.document import to_document
from cellule.values.schema.fault import shown
from cellule.values.schema.registry import NO_SCHEMAS, Schemas, identity
from cellule.values.schema.types import Ref

EXTRA_SECTIONS: Final = ("bindings",)
_SECTIONS: Final = (
    KIND_FIELD, "format", "schemas", "modules", "routing", "upcasters", "plans", "triggers", "effects",
    "capabilities", "policy", "schedules", "enzymes", *EXTRA_SECTIONS,
)  # fmt: skip
STORED_MANIFESTS_KEPT: Final = 64
"""Manifests read from the CAS that a process keeps: ten thousand worlds of one app read it once."""
_ROUTING: Final = ("subscriptions", "inboxes")
_ALIASES: Final = {"caps": "capabilities", "policies": "policy", "module_bindings": "bindings"}


def load_manifest(document: Mapping[str, object] | bytes) -> Manifest:
    """Validate a manifest; raises `Rejected` listing all problems with their paths.

    A mapping is JSON-like (text, numbers, lists, maps, and `Link`); bytes must be a normal form.
    """
    if not isinstance(document, bytes | bytearray | memoryview):
        return _load(document)
    return _load_stored(bytes(document))


@lru_cache(maxsize=STORED_MANIFESTS_KEPT)
def _load_stored(data: bytes) -> Manifest:
    """A manifest by its stored bytes: worlds that share one share what was made of it; nobody changes it."""
    manifest = _load(decode(data))
    if manifest.data != data:
        raise Rejected(
            "manifest.not_normal", "the stored manifest {cid} is not in normal form", cid=str(cid_of(data)),
            hint="Store the bytes that load_manifest(document).data gives.",
        )  # fmt: skip
    return manifest


def _load(document: object) -> Manifest:
    problems = Problems()
    document = with_plans(problems, document)
    root = Fields(Scope(problems, NO_SCHEMAS), "$", document, _SECTIONS, _ALIASES)
    check_kind(root, "manifest")
    _check_format(root)
    earlier = len(problems)
    schemas = load_schemas(problems, root.at("schemas"), root.get("schemas"))
    is_sound = len(problems) == earlier
    scope, modules = _modules(root, schemas)
    grants = load_grants(scope, root.at("capabilities"), root.get("capabilities"))
    check_slots(problems, modules, grants)
    policy = load_policy(scope, root.at("policy"), root.get("policy"))
    schedules = load_schedules(scope, root.at("schedules"), root.get("schedules"))
    enzymes = load_enzymes(scope, root.at("enzymes"), root.get("enzymes"), modules)
    wiring = WiringReader(scope, modules)
    routing = Fields(
        scope,
        root.at("routing"),
        {} if root.get("routing") is None else root.get("routing"),
        _ROUTING,
        {"events": _ROUTING[0]},
    )
    subscriptions, inboxes = wiring.subscriptions(routing), wiring.inboxes(routing)
    upcasters = wiring.upcasters(root)
    extra = {name: _extra(root, name) for name in EXTRA_SECTIONS}
    if is_sound:
        Fitting(problems, scope.schemas, upcasters).fit(
            modules.values(), subscriptions, list(inboxes.values())
        )
    problems.check_none()
    drafts = _Drafts(scope, modules, subscriptions, inboxes, upcasters, _without_empty(extra), enzymes)
    manifest = _manifest(drafts, grants, policy, schedules)
    check_routes(problems, root.at("schedules"), manifest)
    problems.check_none()
    return manifest


def _modules(root: Fields, schemas: Schemas) -> tuple[Scope, dict[str, ModuleDraft]]:
    """The modules, and a scope with the kinds of effects and the schemas of their receipts.

    A document without the section `effects` has the kinds that its modules list.
    """
    problems, section, place = root.problems, root.get("modules"), root.at("schemas")
    scope = Scope(problems, schemas)
    if root.get("effects") is None:
        modules = load_modules(scope, root.at("modules"), section)
        kinds = untyped(kind for draft in modules.values() for kind in draft.effects_emitted)
        return Scope(problems, with_receipts(problems, place, schemas, kinds), kinds), modules
    kinds = load_effects(scope, root.at("effects"), root.get("effects"))
    scope = Scope(problems, with_receipts(problems, place, schemas, kinds), kinds)
    return scope, load_modules(scope, root.at("modules"), section)


def _check_format(root: Fields) -> None:
    version = root.get("format")
    if version is not None and (type(version) is not int or version != FORMAT_VERSION):
        problem = f"{shown(version)} is no format of manifests that this version of Cellule reads"
        root.note("format", "format", problem, f"It reads {FORMAT_VERSION}.")


def _extra(root: Fields, name: str) -> Any:
    """A section for what is to come: checked, and refused as long as nothing reads it."""
    value = root.get(name)
    if value is not None and not isinstance(value, Mapping | list | tuple | str):
        root.note(name, "type", f"a map, list or text is needed here, not {shown(value)}")
        return None
    found = opaque(root, name)
    if found:
        root.note(
            name, "unused", f"nothing reads `{name}`, so it would do nothing",
            "Take the section out.",
        )  # fmt: skip
    return found


class _Drafts(NamedTuple):
    """What was read of the sections that belong together."""

    scope: Scope
    modules: Mapping[str, ModuleDraft]
    subscriptions: list[RouteDraft]
    inboxes: Mapping[str, RouteDraft]
    upcasters: Edges
    extra: Mapping[str, Any]
    enzymes: tuple[Mapping[str, Any], ...] = ()


def _manifest(
    drafts: _Drafts, grants: Mapping[str, Grant], policy: Policy, schedules: Mapping[str, Schedule]
) -> Manifest:
    schemas, kinds = drafts.scope.schemas, drafts.scope.kinds or {}
    own = {name: schema for name, schema in schemas.items() if name not in SYSTEM_SCHEMAS}
    routing = {
        "subscriptions": [{"event": route.event, **route.normal()} for route in drafts.subscriptions],
        "inboxes": {source: route.normal() for source, route in drafts.inboxes.items()},
    }
    steps = [step for group in drafts.upcasters.values() for step in group]
    sections: dict[str, Any] = {
        "schemas": {name: to_document(schema) for name, schema in own.items()},
        "modules": {draft.name: draft.normal() for draft in drafts.modules.values()},
        "routing": _without_empty(routing),
        "upcasters": [_without_empty({"from": s.old, "to": s.new, "code": s.code}) for s in steps],
        "effects": {kind: plain(each, "kind", "event") for kind, each in kinds.items() if each.external},
        "capabilities": {name: plain(each, "name") for name, each in grants.items()},
        "policy": normal_policy(policy),
        "schedules": {name: normal_schedule(each) for name, each in schedules.items()},
        "enzymes": list(drafts.enzymes),
        **drafts.extra,
    }
    # Only what was said, in its normal form: the same app has the same CID everywhere.
    data = _encoded({"format": FORMAT_VERSION, **_without_empty(sections)})
    routes: dict[str, tuple[Route, ...]] = {}
    for route in drafts.subscriptions:
        routes[route.event] = (*routes.get(route.event, ()), route.route())
    return Manifest(
        cid=cid_of(data), data=data, schemas=schemas,
        schema_ids={name: identity(Ref(name), schemas) for name in schemas},
        modules={base: draft.module() for base, draft in sorted(drafts.modules.items())}, routes=routes,
        inboxes={source: draft.route() for source, draft in sorted(drafts.inboxes.items())},
        upcasters=drafts.upcasters, extra=drafts.extra, effects=kinds, grants=grants, policy=policy,
        schedules=schedules, enzymes=drafts.enzymes,
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
