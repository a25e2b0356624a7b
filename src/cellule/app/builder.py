"""From an app to what a world needs: one manifest, the blocks of its code, and the forms of its classes.

Building reads files and runs the app's top level once more, from the bundle, so that code which cannot be
loaded is refused here and not at the first event. The same sources give the same manifest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cellule.app.built_app import Built, EffectsConfig
from cellule.app.declarations import DeclaredReducer, bad_option
from cellule.app.effects import form_of
from cellule.app.forms import Forms
from cellule.app.modules import describe_app_upcaster, describe_reducer, naming_of, revised
from cellule.app.sections import adapters_of, effects_of, forms_of, sections_of
from cellule.app.styles import BuildScope, ChecksManifest, DeclaredModule, DescribedModule
from cellule.errors import Rejected
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.need import Nodes, drive
from cellule.kernel.programs import load_all
from cellule.modules.kinds import CodeKinds
from cellule.modules.python import (
    EffectForm,
    ModuleDescription,
    UpcasterDescription,
    check_not_loading,
    manifest_document,
)
from cellule.modules.python.effects import effect_schemas
from cellule.modules.python.module_names import Naming
from cellule.values.cid import Cid
from cellule.values.names import Name
from cellule.values.schema.registry import Schemas

if TYPE_CHECKING:
    from cellule.app.app import App


def build(app: App, *, live: bool) -> Built:
    """Build an app; raises `Rejected` with what to write instead."""
    check_not_loading(f"build the app {app.namespace}")
    if not app.modules:
        raise Rejected(
            "app.empty", "{app} has no reducer, and no module of another style.", app=app,
            hint="Put @app.reducer above a function, in a file that is imported before the app is used.",
        )  # fmt: skip
    effects = effects_of(app)
    naming = naming_of(app)
    modules = [
        _described(app, each, naming, forms_of(app, each, effects), live=live)
        for each in app.modules.values()
    ]
    upcasters = [describe_app_upcaster(app, each, naming, live=live) for each in app.upcasters]
    schemas = effect_schemas(map(form_of, effects.values()), naming)
    for python in (*app.events, *app.states):
        schemas = schemas.merged(naming.derived(python).schemas)
    forms = Forms(naming, dict(app.events), schemas, {kind: form_of(each) for kind, each in effects.items()})
    for module in modules:
        _check_reply(forms, module)
    effects_config = EffectsConfig(sections_of(app, effects, naming), adapters_of(app, effects))
    built = _assembled(forms, modules, upcasters, effects_config, live=live)
    for each in app.modules.values():
        if isinstance(each, ChecksManifest):
            each.check_in(built.manifest)
    if not live:
        _check_loads(built)
    return built


def _described(
    app: App,
    declared: DeclaredReducer | DeclaredModule,
    naming: Naming,
    effects: list[EffectForm],
    *,
    live: bool,
) -> DescribedModule:
    if isinstance(declared, DeclaredReducer):
        return describe_reducer(app, declared, naming, effects, live=live)
    return declared.described(BuildScope(app, naming, effects, live))


def _check_reply(forms: Forms, module: DescribedModule) -> None:
    """Refuse a type of replies that is none before the first of them is asked for."""
    if module.reply_type is None:
        return
    try:
        forms.codec(module.reply_type)
    except Rejected as error:
        raise bad_option(
            str(module.name), "reply", module.reply_type, f"a type of values: {error}"
        ) from error


def revise(built: Built, revision: int) -> Built:
    """The same live app under another identity: for a world that gets a second version of it."""
    modules = [
        revised(each, revision) if isinstance(each, ModuleDescription) else each for each in built.modules
    ]
    upcasters = [revised(each, revision) for each in built.upcasters]
    return _assembled(built.forms, modules, upcasters, built.effects_config, live=built.live)


def _assembled(
    forms: Forms,
    modules: Sequence[DescribedModule],
    upcasters: Sequence[UpcasterDescription],
    effects_config: EffectsConfig,
    *,
    live: bool,
) -> Built:
    manifest = _manifest(forms.schemas, modules, upcasters, effects_config)
    blocks: dict[Cid, bytes] = {manifest.cid: manifest.data}
    for blocks_of in [each.blocks for each in modules] + [each.blocks for each in upcasters]:
        blocks.update(blocks_of)
    return Built(manifest, blocks, tuple(modules), tuple(upcasters), forms, effects_config, live=live)


def _manifest(
    schemas: Schemas,
    modules: Sequence[DescribedModule],
    upcasters: Sequence[UpcasterDescription],
    effects_config: EffectsConfig,
) -> Manifest:
    """The manifest; it knows every declared event, also those that no reducer takes or says it emits."""
    document = {**manifest_document(modules, upcasters), **effects_config.sections}
    for brought in [each.schemas for each in modules] + [each.schemas for each in upcasters]:
        schemas = schemas.merged(brought)
    document["schemas"] = {
        name: schema for name, schema in schemas.documents().items() if not Name.parse(name).is_reserved
    }
    return load_manifest(document)


def _check_loads(built: Built) -> None:
    """Load all code from its bundles, as a node will."""
    programs, nodes = CodeKinds(limit_s=None), Nodes(0)
    drive(
        load_all(built.manifest, programs, nodes),
        nodes,
        lambda cids: {cid: built.blocks[cid] for cid in cids},
    )
