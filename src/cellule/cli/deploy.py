"""`cellule deploy`: brings a changed app, a manifest or an earlier era into a world, shown or tried first.

`--dry-run` compares manifests; `--shadow` runs recorded history under the new one, in memory. Neither changes
anything by itself: a shadow run is followed by the deploy, unless `--dry-run` is there or `--gate` refuses.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cellule.cli.controls import Timeout, Why
from cellule.cli.errors import usage
from cellule.cli.output import compact, counted
from cellule.cli.session import Session, in_session, operator, within
from cellule.errors import Rejected
from cellule.host.limits import SHADOW_RECENT
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
    why: Why = "asked for",
    timeout_s: Timeout = 30.0,
) -> None:
    """Bring a changed app, a manifest or an earlier era into a world; refused where cells cannot follow."""
    if gate and not shadow:
        raise usage("--gate judges a shadow run, and there is none", hint="Add --shadow.")
    async with session.working() as node:
        info = await session.info(node, name)
        what: dict[str, Any] = {"manifest": manifest, "code": code, "era": era}
        data: dict[str, Any] = {"world": info.name}
        lines: list[str] = []
        if shadow:
            report = await _shadow(session, node, info.name, what, None if all_history else recent)
            stored = await Reader(node.node, info).manifest()  # a handle would bring the app in
            data["shadow"] = _shadow_json(report, stored)
            lines += _shadow_lines(data["shadow"])
            if gate and not report.same and not dry_run:
                raise _gated(info.name, data["shadow"], lines)
        async with within(timeout_s, "the deploy"):
            change = await node.deploy_world(
                info.name, **what, who=operator(), why=why, dry_run=dry_run, universe=session.universe_name
            )
        data |= {
            "deployed": not dry_run, "compatible": change.compatible,
            "changes": [
                {"path": each.path, "what": each.what, "compatible": each.compatible, "reason": each.reason}
                for each in change.changes
            ],
        }  # fmt: skip
        session.output.document(data, *lines, *_deploy_lines(info.name, change, dry_run=dry_run))


async def _shadow(
    session: Session, node: Cellule, name: str, what: dict[str, Any], recent: int | None
) -> ShadowReport:
    with session.output.progress(f"shadow of {name}") as step:
        return await node.shadow_world(
            name, **what, recent=recent, universe=session.universe_name, progress=step
        )


def _gated(name: str, shadow: dict[str, Any], lines: list[str]) -> Rejected:
    return Rejected(
        "cli.shadow_differs", "world {world} was not changed: {told}",
        world=name, told="; ".join(line.strip() for line in lines), shadow=shadow,
        hint="Correct the code, or deploy without --gate if this is what you want.",
    )  # fmt: skip


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


def _shadow_lines(told: dict[str, Any]) -> list[str]:
    """What a shadow run found, for people."""
    head = f"shadow: {counted(told['steps'], 'step')} of heights {told['first']} to {told['last']} ran again"
    if told["same"]:
        return [f"{head}, all with the same outcome"]
    lines = [f"{head}; {counted(told['cells'], 'cell')} differ"]
    lines += [f"  {module}: {counted(count, 'cell')}" for module, count in sorted(told["modules"].items())]
    lines += [f"  {what}: {count}" for what, count in sorted(told["differences"].items())]
    lines += [f"  refused, {code}: {count}" for code, count in sorted(told["refused"].items())]
    if told["unanswered"]:
        lines.append(f"  receipts of effects that were not asked for: {told['unanswered']}")
    for each in told["examples"]:
        cell = f"{each['module']}/{each['key']} at height {each['height']}"
        lines.append(f"  {cell}, {each['aspect']}: {compact(each['before'])} -> {compact(each['after'])}")
    if told["limited"]:
        lines.append(f"  ended early: {told['limited']}")
    return lines
