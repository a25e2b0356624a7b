"""`cellule doctor`: looks at the machine, the store and every world, and says what is wrong with them."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

import cellule
from cellule.cli.errors import Exit
from cellule.cli.output import table
from cellule.cli.probe import Finding, Status, probe
from cellule.cli.session import Session, in_session
from cellule.errors import CelluleError, Corrupted
from cellule.host.inbox.aside import list_aside
from cellule.host.own.directory import WorldInfo, read_head
from cellule.host.own.folder import FolderLock
from cellule.host.read.journal_reader import JournalReader
from cellule.host.run.beat_clock import drift_text
from cellule.host.run.loader import Loader
from cellule.host.service import Cellule
from cellule.host.trouble import read_trouble
from cellule.store.cas import Cas
from cellule.store.engine import Engine
from cellule.store.format import FORMAT_VERSION
from cellule.store.store import DATABASE
from cellule.values.schema.text_forms import time_text

DISK_FREE_LEAST = 1_000_000_000  # bytes; below this the disk is called nearly full
ITEMS_SHOWN = 1_000  # items set aside that are counted
QUICK_BYTES_MAX = 256_000_000  # larger files are left to `cellule check`

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@in_session
async def doctor(
    session: Session,
    address: Annotated[
        str | None, typer.Argument(help="The store to look at; that of --data if it is not given.")
    ] = None,
) -> None:
    """Check Python, the store (reach, rights, speed, owner, clock, format), and the end of every journal."""
    await _doctor(session if address is None else replace(session, data=address))


async def _doctor(session: Session) -> None:
    folder = session.address.folder
    findings = [*_machine(), *([] if folder is None else _folder(folder))]
    if not any(each.exit for each in findings) and (folder is None or (folder / DATABASE).is_file()):
        findings += await _store(session)
    worst = max((each.exit for each in findings), default=Exit.OK)
    data = {"ok": worst == Exit.OK, "findings": [each.json() for each in findings]}
    rows = [(Text(each.status, style=_STYLES[each.status]), each.what, each.text) for each in findings]
    session.output.document(data, table(("", "WHAT", "FOUND"), rows))
    if worst:
        raise typer.Exit(worst)


def _machine() -> Iterator[Finding]:
    yield Finding("python", "ok", f"{platform.python_version()} ({sys.executable})")
    libraries = ("msgspec", "libipld", "cbor2", "typer", "rich", "watchfiles")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in libraries)
    yield Finding(
        "versions", "ok", f"cellule {cellule.__version__}, sqlite {sqlite3.sqlite_version}, {versions}"
    )


def _folder(folder: Path) -> Iterator[Finding]:
    file = folder / DATABASE
    try:
        is_there = folder.exists()
    except OSError as error:
        yield Finding("folder", "fail", f"{folder} cannot be used: {error.strerror}", Exit.REJECTED)
        return
    if not is_there:
        yield Finding("folder", "warn", f"{folder} does not exist yet; the first world makes it")
        folder = next(each for each in folder.absolute().parents if each.exists())
    elif not folder.is_dir():
        yield Finding("folder", "fail", f"{folder} is no folder", Exit.REJECTED)
        return
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield Finding("permissions", "fail", f"{folder} cannot be written to by this user", Exit.REJECTED)
        return
    yield Finding("permissions", "ok", f"{folder} can be written to")
    disk = shutil.disk_usage(folder)
    status: Status = "ok" if disk.free >= DISK_FREE_LEAST else "warn"
    yield Finding("disk", status, f"{disk.free / 1e9:.1f} GB free of {disk.total / 1e9:.1f} GB")
    if file.is_file():
        size = sum(each.stat().st_size for each in folder.glob(f"{DATABASE}*"))
        yield Finding("file", "ok", f"{file}, {size / 1e6:.1f} MB")
        owner = FolderLock(folder).owner()
        yield Finding("lock", "ok", f"owned by {owner}" if owner else "free: nobody owns the folder")


async def _store(session: Session) -> list[Finding]:
    """What opening the store shows; whatever fails is a finding, not the end."""
    found: list[Finding] = []
    try:
        if session.address.folder is not None:
            found.append(_quick(session.address.folder / DATABASE))
        async with session.reading() as node:
            found.append(Finding("format", "ok", f"version {FORMAT_VERSION}, which this Cellule reads"))
            found += await probe(node.node, is_shared=session.address.folder is None)
            for universe in await node.universes():
                for info in await node.node.directory.worlds(universe.id):
                    found.append(await _world(node, info, universe.name))
    except CelluleError as error:
        found.append(Finding.of_error("store", error))
    return found


def _quick(file: Path) -> Finding:
    """SQLite's own quick look at its pages."""
    if file.stat().st_size > QUICK_BYTES_MAX:
        return Finding("integrity", "ok", "the file is large: `cellule check` proves it whole")
    try:
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
        try:
            [(answer,)] = connection.execute("PRAGMA quick_check(1)").fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        return Finding("integrity", "fail", f"SQLite cannot read it: {error}", Exit.DAMAGED)
    if answer == "ok":
        return Finding("integrity", "ok", "SQLite finds its pages sound; `cellule check` proves every row")
    return Finding("integrity", "fail", str(answer), Exit.DAMAGED)


async def _world(node: Cellule, info: WorldInfo, universe: str) -> Finding:
    name = f"{universe}/{info.name}"
    try:
        text, world_ns = await _journal_end(node.node.loader, node.node.cas(info.universe), info)
        problems = await _problems(node.node.engine, info)
    except CelluleError as error:
        return Finding.of_error(name, error)
    drift = None if world_ns is None else drift_text(world_ns, node.node.clock.now_ns())
    problems += [] if drift is None else [drift]
    return Finding(name, "warn" if problems else "ok", "; ".join([text, *problems]))


async def _problems(engine: Engine, info: WorldInfo) -> list[str]:
    """What a person should look at although the world goes on."""
    found = []
    items = await list_aside(engine, info.universe, info.id, ITEMS_SHOWN)
    if items:
        count = f"{len(items)} or more" if len(items) == ITEMS_SHOWN else str(len(items))
        found.append(f"items set aside: {count} (cellule item list)")
    trouble = await read_trouble(engine, info.universe, info.id)
    if trouble is not None:
        found.append(f"no snapshot could be taken since {time_text(trouble.since_ns)}: {trouble.why}")
    return found


async def _journal_end(loader: Loader, cas: Cas, info: WorldInfo) -> tuple[str, int | None]:
    """How the journal ends, and when; its newest frame must be the one the head names."""
    head = await read_head(loader.engine, info)
    if head.height == 0:
        return "an empty journal", None
    frame = await JournalReader(loader.engine, cas, info).frame(head.height, head)
    if (frame.header.last, frame.cid.digest) != (head.height, head.frame):
        raise Corrupted(
            "host.head_mismatch", "world {world}: the journal ends at {height}, its head says {head}",
            world=info.name, height=frame.header.last, head=head.height,
        )  # fmt: skip
    return f"height {head.height}, beat {head.beat}; the newest frame is sound", frame.header.now_ns
