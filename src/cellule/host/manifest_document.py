"""Manifests as documents: a map, a JSON file or a YAML file, with the code that they name.

    document -> links and files of code resolved -> a validated manifest and the blocks it needs

A map `{"/": "bafy..."}` is a link, as in the JSON view of values. Each kind of code turns what an author
wrote (`{"kind": "python", "entry": "shop.orders:order"}`, with a folder) into what a manifest stores. All
code is loaded once, so that what cannot run is refused before a world is made or changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from cellule.errors import Corrupted, Rejected
from cellule.host.cas_fetch import drive
from cellule.host.limits import DOCUMENT_BYTES_MAX
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.need import Nodes
from cellule.kernel.program import Programs
from cellule.kernel.programs import load_all
from cellule.modules.plan.source import PlanFile, bounded, line_of
from cellule.store.cas import Cas
from cellule.values.cid import Cid
from cellule.values.json_view import from_json

Document: TypeAlias = Mapping[str, Any] | str | PathLike[str]
"""A manifest as people give it: the document itself, or the path of a .json, .yaml or .yml file."""

Folder: TypeAlias = str | PathLike[str]
"""Where the files of code lie that a document names."""

_LINK = "/"
_STEPS = re.compile(r"""\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|\.([^.\[\]]+)""")


async def load_document(
    document: Document, code: Folder | None, programs: Programs, cas: Cas
) -> tuple[Manifest, dict[Cid, bytes]]:
    """The manifest of a document, and all blocks it needs in the CAS; `Rejected` says what is wrong."""
    folder = None if code is None else _folder(code)
    whole, blocks = _packed(_linked(read_document(document)), programs, folder)
    try:
        manifest = load_manifest(whole)
    except Rejected as error:
        if isinstance(document, Mapping) or "problems" not in error.fields:
            raise
        raise _located(error, Path(document)) from None
    nodes = Nodes(0)
    nodes.pin(blocks)
    try:
        await drive(load_all(manifest, programs, nodes), nodes, cas)
    except Corrupted as error:
        raise Rejected(
            "host.code_missing", "the code that the manifest links is not in the store: {why}", why=error,
            hint="Give the folder with its files: code=..., or --code DIR.",
        ) from error  # fmt: skip
    except Rejected as error:
        if error.code != "plan.invalid" or isinstance(document, Mapping):
            raise
        raise PlanFile(Path(document), ("plans", str(error.fields["plan"]))).located(error) from None
    return manifest, {**blocks, manifest.cid: manifest.data}


def _located(error: Rejected, path: Path) -> Rejected:
    """The same problems of a manifest, each with the line of the file on which it stands."""
    tree = yaml.compose(path.read_text(encoding="utf-8"), _Loader)
    problems: Any = error.fields["problems"]
    lines = [line_of(tree, _steps(place)) for place, _, _ in problems]
    told = [f"line {line}, {place}: {text}" for line, (place, _, text) in zip(lines, problems, strict=True)]
    return Rejected(
        error.code, "manifest {file}: {told}", told="; ".join(told), path=error.fields["path"],
        line=lines[0], problems=problems, file=str(path),
    )  # fmt: skip


def _steps(place: str) -> list[str | int]:
    """The steps of a place such as `$.modules["com.acme/Order@1"].event[0]`."""
    return [int(at) if at else name or str(json.loads(quoted)) for at, quoted, name in _STEPS.findall(place)]


def read_document(document: Document) -> Mapping[str, Any]:
    """The document itself, or what stands in its file."""
    if isinstance(document, Mapping):
        return document
    path = Path(document)
    try:
        size = path.stat().st_size
        text = path.read_text(encoding="utf-8") if size <= DOCUMENT_BYTES_MAX else ""
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    if size > DOCUMENT_BYTES_MAX:
        raise _unreadable(path, f"it has {size} bytes; at most {DOCUMENT_BYTES_MAX}")
    try:
        found = bounded(_parser(path)(text))
    except (ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        raise _unreadable(path, " ".join(str(error).split())) from error
    if not isinstance(found, dict):
        raise _unreadable(path, f"a map is needed, not {type(found).__name__}")
    return found


def _parser(path: Path) -> Callable[[str], Any]:
    match path.suffix.lower():
        case ".json":
            return lambda text: json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
        case ".yaml" | ".yml":
            return lambda text: yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
        case _:
            raise _unreadable(path, "its name does not end in .json, .yaml or .yml")


class _Loader(yaml.SafeLoader):
    """Safe YAML that says what JSON could say: no times, no keys twice."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the library's own form
        first: [(tag, pattern) for tag, pattern in rules if tag != "tag:yaml.org,2002:timestamp"]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: ARG002
        """A map whose keys differ."""
        self.flatten_mapping(node)
        return _unique([
            (self.construct_object(key, deep=True), self.construct_object(value, deep=True))
            for key, value in node.value
        ])  # fmt: skip


def _unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} stands twice in one map")
        found[key] = value
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")


def _linked(value: Any) -> Any:
    """The same value with links and bytes where their JSON view stands."""
    if isinstance(value, Mapping):
        if list(value) == [_LINK]:
            return from_json(dict(value))
        return {key: _linked(each) for key, each in value.items()}
    return [_linked(each) for each in value] if isinstance(value, list | tuple) else value


def _packed(
    document: dict[str, Any], programs: Programs, folder: str | None
) -> tuple[dict[str, Any], dict[Cid, bytes]]:
    """The document with all code as it is stored; parts of another shape are left to `load_manifest`."""
    blocks: dict[Cid, bytes] = {}

    def packed(name: str, body: Any) -> Any:
        if not isinstance(body, Mapping) or not isinstance(body.get("code"), Mapping):
            return body
        code, more = programs.pack(body["code"], folder, str(body.get("name", name)))
        blocks.update(more)
        return {**body, "code": code}

    for section in ("modules", "upcasters"):
        entries = document.get(section)
        if isinstance(entries, Mapping):
            document[section] = {name: packed(str(name), body) for name, body in entries.items()}
        elif isinstance(entries, list):
            document[section] = [packed(f"{section}[{at}]", body) for at, body in enumerate(entries)]
    return document, blocks


def _folder(code: Folder) -> str:
    path = Path(code)
    if not path.is_dir():
        raise Rejected(
            "host.code_folder", "{folder} is no folder with code", folder=str(path),
            hint="Name the folder that holds the files which the manifest names.",
        )  # fmt: skip
    return str(path)


def _unreadable(path: Path, why: object) -> Rejected:
    return Rejected(
        "host.manifest_file", "the manifest {file} cannot be read: {why}", file=str(path), why=why,
        hint="Give a JSON or YAML file with one map, as docs/formats/manifest.md shows.",
    )  # fmt: skip
