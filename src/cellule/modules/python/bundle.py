"""A bundle: the source of one entry function with all files of its app that it imports, as CAS blocks.

    root (dag-cbor)   {entry, files, format, python, requires}
        entry     "shop.orders:order"                   module and name of the function
        files     {"shop/orders.py": link, ...}         each a raw block: source as UTF-8, lines end in \\n
        format    0
        python    "3.11"                                the version it was made with
        requires  {"pydantic": "2.11.1", ...}           installed distributions it imports, exact versions

The bytes depend on the sources alone: not on where they lay, when they were read or in which order they
import each other. How files are found is in `collect`, how they are run in `loader`. Cellule itself and
msgspec are part of the runtime and not recorded: upgrading them must not give code another identity.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final, NoReturn

from cellule.errors import CelluleError, Corrupted, Rejected
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid, cid_of
from cellule.values.link import Link

FORMAT_VERSION: Final = 0
FILES_MAX: Final = 2_000
FILE_BYTES_MAX: Final = 1_000_000
_KEYS: Final = {"entry", "files", "format", "python", "requires"}


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle in memory: what to put into the CAS, and the root that names it all."""

    root: Cid
    blocks: Mapping[Cid, bytes] = field(repr=False)

    @property
    def plan(self) -> Plan:
        """What the root says."""
        return read_root(self.root, self.blocks[self.root])

    @property
    def sources(self) -> dict[str, bytes]:
        """The source of each file, by its path."""
        return {path: self.blocks[cid] for path, cid in self.plan.files.items()}


@dataclass(frozen=True, slots=True)
class Plan:
    """A bundle's root node."""

    entry: str
    files: Mapping[str, Cid]
    requires: Mapping[str, str]
    python: str

    @property
    def code_id(self) -> Cid:
        """The identity of the code without its entry: entries of the same files share one loaded copy."""
        return cid_of(encode(_node("", self.files, self.requires, self.python)))


def python_version() -> str:
    """The running version, as bundles record it."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def make_bundle(
    entry: str, sources: Mapping[str, bytes], requires: Mapping[str, str], python: str | None = None
) -> Bundle:
    """Make the blocks of a bundle; raises `modules.bundle_size` beyond the limits."""
    if len(sources) > FILES_MAX:
        raise Rejected(
            "modules.bundle_size", "the bundle of {entry} has {count} files; at most {most}",
            entry=entry, count=len(sources), most=FILES_MAX,
        )  # fmt: skip
    blocks: dict[Cid, bytes] = {}
    files: dict[str, Cid] = {}
    for path, source in sources.items():
        if len(source) > FILE_BYTES_MAX:
            raise Rejected(
                "modules.bundle_size", "{path} has {size} bytes; a file of a bundle has at most {most}",
                path=path, size=len(source), most=FILE_BYTES_MAX,
                hint="Code this long holds data: pass it in events, or keep it in the CAS.",
            )  # fmt: skip
        files[path] = cid_of(source, "raw")
        blocks[files[path]] = source
    data = encode(_node(entry, files, requires, python or python_version()))
    root = cid_of(data)
    return Bundle(root, {**blocks, root: data})


def read_root(cid: Cid, data: bytes) -> Plan:
    """Read a root node; raises `modules.bundle_damaged` if it is none."""
    try:
        node: Any = decode(data)
    except CelluleError as error:
        _damaged(cid, str(error))
    if not isinstance(node, dict) or set(node) != _KEYS:
        _damaged(cid, f"its fields are not {', '.join(sorted(_KEYS))}")
    if node["format"] != FORMAT_VERSION:
        _damaged(cid, f"its format is {node['format']!r}; this version reads {FORMAT_VERSION}")
    entry, files, requires, python = node["entry"], node["files"], node["requires"], node["python"]
    if not isinstance(entry, str) or not all(entry.partition(":")) or not isinstance(python, str):
        _damaged(cid, "its entry or python is not text")
    if not isinstance(files, dict) or not all(
        _is_source_path(path) and isinstance(link, Link) and link.cid.codec == "raw"
        for path, link in files.items()
    ):
        _damaged(cid, "its files are not links to blobs by relative path")
    if not isinstance(requires, dict) or not all(isinstance(version, str) for version in requires.values()):
        _damaged(cid, "its requires are not versions by distribution")
    return Plan(entry, {path: link.cid for path, link in files.items()}, requires, python)


def module_path(name: str, *, is_package: bool) -> str:
    """The path of a module in a bundle: `shop.orders` is `shop/orders.py`, a package its `__init__.py`."""
    parts = name.replace(".", "/")
    return f"{parts}/__init__.py" if is_package else f"{parts}.py"


def _node(entry: str, files: Mapping[str, Cid], requires: Mapping[str, str], python: str) -> Any:
    return {
        "format": FORMAT_VERSION, "entry": entry, "python": python, "requires": dict(requires),
        "files": {path: Link(cid) for path, cid in files.items()},
    }  # fmt: skip


def _is_source_path(path: str) -> bool:
    pure = PurePosixPath(path)
    parts = pure.with_suffix("").parts
    return pure.suffix == ".py" and str(pure) == path and all(part.isidentifier() for part in parts)


def _damaged(cid: Cid, problem: str) -> NoReturn:
    raise Corrupted("modules.bundle_damaged", "{cid} is no bundle: {problem}", cid=str(cid), problem=problem)
