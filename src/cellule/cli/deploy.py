"""`cellule deploy`: brings a changed app, a manifest or an earlier era into a world, shown or tried first.

`--dry-run` compares manifests; `--shadow` runs recorded history under the new one, in memory. Neither changes
anything by itself: a shadow run is followed by the deploy, unless `--dry-run` is there or `--gate` refuses.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cellule.cli.controls import Act
from cellule.cli.errors import usage
from cellule.cli.output import compact, counted
from cellule.cli.session import Session, in_session, operator, within
from cellule.errors import Rejected
from cellule.host.limits import SHADOW_RECENT
from cellule.host.own.directory import WorldInfo
from cellule.host.read.reader import Reader
from cellule.host.read.record_view import key_text
from cellule.host.read.shadow import ShadowReport
from cellule.host.service import Cellule
from cellule.kernel.manifest.compare import ManifestChange
from cellule.kernel.manifest.model import Manifest
from cellule.values.json_view import to_json

ManifestFile = Annotated[
    Path | None, typer.Option(help="A manifest: a .json, .yaml or .yml file, instead of --app.")
]
Code = Annotated[Path | None, typer.Option(help="The folder with the code that the manifest names.")]
MaybeName = Annotated[str | None, typer.Argument(help="The world's name; by default that of --world.")]


@in_session
async def deploy(
    session: Session,
    act: Act,
    name: MaybeName = None,
    manifest: ManifestFile = None,
    code: Code = None,
    era: Annotated[
        int | None, typer.Option(help="Roll back to what the world ran in this era.", min=0)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    shadow: Annotated[
        bool, typer.Option("--shadow", help="Run recorded history under it first, in memory.")
    ] = False,
    recent: Annotated[
        int, typer.Option(help="So many of the newest records, for --shadow.", min=1)
    ] = SHADOW_RECENT,
    all_history: Annotated[bool, typer.Option("--all-history", help="All records, for --shadow.")] = False,
    gate: Annotated[
        bool, typer.Option("--gate", help="Refuse the deploy where the shadow run differs.")
    ] = False,
) -> None:
    """Bring a changed app, a manifest or an earlier era into a world; refused where cells cannot follow."""
    if gate and not shadow:
        raise usage("--gate judges a shadow run, and there is none", hint="Add --shadow.")
    what: dict[str, Any] = {"manifest": manifest, "code": code, "era": era}
    async with session.working() as node:
        info = await session.info(node, name)
        found: dict[str, Any] = {}
        if shadow:
            found = {"shadow": await _shadow(session, node, info, what, None if all_history else recent)}
        if gate and not dry_run and not found["shadow"]["same"]:
            raise _gated(info.name, found["shadow"])
        async with within(act.timeout_s, "the deploy"):
            change = await node.deploy_world(
                info.name,
                **what,
                who=operator(),
                why=act.why,
                dry_run=dry_run,
                universe=session.universe_name,
            )
        found = {"world": info.name, **found, **_change_json(change, dry_run=dry_run)}
        lines = _shadow_lines(found["shadow"]) if shadow else []
        session.output.document(found, *lines, *_deploy_lines(info.name, change, dry_run=dry_run))


async def _shadow(
    session: Session, node: Cellule, info: WorldInfo, what: dict[str, Any], recent: int | None
) -> dict[str, Any]:
    with session.output.progress(f"shadow of {info.name}") as step:
        report = await node.shadow_world(
            info.name, **what, recent=recent, universe=session.universe_name, progress=step
        )
    stored = await Reader(node.node, info).manifest()  # a handle would bring the app in
    return _shadow_json(report, stored)


def _gated(name: str, shadow: dict[str, Any]) -> Rejected:
    lines = _shadow_lines(shadow)
    return Rejected(
        "cli.shadow_differs", "world {world} was not changed: {told}",
        world=name, told="; ".join(line.strip() for line in lines),
        hint="Correct the code, or deploy without --gate if this is what you want.",
    )  # fmt: skip


def _change_json(change: ManifestChange, *, dry_run: bool) -> dict[str, Any]:
    return {
        "deployed": not dry_run, "compatible": change.compatible,
        "changes": [
            {"path": each.path, "what": each.what, "compatible": each.compatible, "reason": each.reason}
            for each in change.changes
        ],
    }  # fmt: skip


def _deploy_lines(name: str, change: ManifestChange, *, dry_run: bool) -> list[str]:
    """What a deploy changes, for people."""
    lines = [f"{' ' if each.compatible else '!'} {each}" for each in change.changes]
    if not dry_run:
        return [*lines, f"deployed to world {name}"]
    verdict = "it can be deployed" if change.compatible else "it would be refused: see the lines with !"
    return [*lines, f"nothing was changed; {verdict}"]


def _shadow_json(report: ShadowReport, stored: Manifest) -> dict[str, Any]:
    examples = [
        {
            "module": each.module, "key": _key(stored, each.module, each.key), "height": each.height,
            "aspect": each.aspect, "before": _plain(each.before), "after": _plain(each.after),
        }
        for each in report.examples
    ]  # fmt: skip
    rest = asdict(report)
    return {"same": report.same, **rest, "examples": examples}


def _key(stored: Manifest, module: str, key: bytes) -> str:
    return key_text(stored, module, key) if module in stored.modules else key.decode(errors="replace")


def _plain(value: Any) -> Any:
    try:
        return to_json(value)
    except (TypeError, ValueError):
        return str(value)


def _shadow_lines(shadow: dict[str, Any]) -> list[str]:
    """What a shadow run found, for people."""
    heights = f"heights {shadow['first']} to {shadow['last']}"
    head = f"shadow: {counted(shadow['steps'], 'step')} of {heights} ran again"
    if shadow["same"]:
        return [f"{head}, all with the same outcome"]
    lines = [f"{head}; cells that differ: {shadow['cells']}"]
    lines += [f"  {module}: {counted(count, 'cell')}" for module, count in sorted(shadow["modules"].items())]
    lines += [f"  {what}: {count}" for what, count in sorted(shadow["differences"].items())]
    lines += [f"  refused, {code}: {count}" for code, count in sorted(shadow["refused"].items())]
    if shadow["unanswered"]:
        lines.append(f"  receipts of effects that were not asked for: {shadow['unanswered']}")
    for each in shadow["examples"]:
        cell = f"{each['module']}/{each['key']} at height {each['height']}"
        lines.append(f"  {cell}, {each['aspect']}: {compact(each['before'])} -> {compact(each['after'])}")
    if shadow["limited"]:
        lines.append(f"  ended early: {shadow['limited']}")
    return lines
