"""`cellule module`: WebAssembly modules from source to file; no store is needed."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from cellule.cli.init import make_project
from cellule.cli.session import Session, in_session
from cellule.modules.wasm.compiler import build_module, module_facts

app = typer.Typer(help="Modules in WebAssembly: a new one, building it, checking it.", no_args_is_help=True)


class Language(StrEnum):
    """What a module can be written in with an SDK of ours."""

    C = "c"
    ASSEMBLYSCRIPT = "assemblyscript"


_SOURCES = {
    Language.C: {"counter.c": "counter.c"},
    Language.ASSEMBLYSCRIPT: {"counter.ts": "counter.ts", "package.json": "package.json"},
}
_INSTALLS = {Language.C: "pip install ziglang", Language.ASSEMBLYSCRIPT: "npm install"}


@app.command()
@in_session
async def init(
    session: Session,
    folder: Annotated[Path, typer.Argument(help="The new folder; an empty one will do.")],
    language: Annotated[Language, typer.Option(help="What it is written in.")] = Language.C,
) -> None:
    """Make a new module: a counter, the manifest of a world that runs it, a README."""
    sources = _SOURCES[language]
    source = next(iter(sources))
    wanted = {
        **sources,
        "manifest.yaml": "manifest.yaml",
        "README.md.txt": "README.md",
        "gitignore.txt": ".gitignore",
    }
    name, made = make_project(folder, "module", wanted, source=source, install=_INSTALLS[language])
    steps = f"next:\n  cd {quote(str(folder))}\n  cellule module build {source}"
    text = f"made {', '.join(made)} in {folder}\n\n{steps}"
    session.output.document({"folder": str(folder), "namespace": name, "files": made}, text)


@app.command()
@in_session
async def build(
    session: Session,
    source: Annotated[Path, typer.Argument(help="The source: a .c or .ts file.")],
    out: Annotated[Path | None, typer.Option(help="The module; SOURCE with .wasm by default.")] = None,
) -> None:
    """Compile a module with its SDK, and check that it fits the ABI."""
    built = await asyncio.to_thread(build_module, source, out)
    data = {"path": str(built.path), "command": list(built.command), **built.facts}
    session.output.document(data, f"built {_shown(built.path, built.facts)}")


@app.command()
@in_session
async def check(
    session: Session, path: Annotated[Path, typer.Argument(help="The module: a .wasm or .wat file.")]
) -> None:
    """Check that a module fits the ABI, and show what it exports and needs."""
    facts = await asyncio.to_thread(module_facts, path)
    session.output.document({"path": str(path), **facts}, f"{_shown(path, facts)}\n{facts['cid']}")


def _shown(path: Path, facts: Any) -> str:
    exports = ", ".join(f"{name} -> {answer}" for name, answer in facts["exports"].items())
    memory = f"begins with {facts['memory_bytes']} bytes of memory"
    return f"{path}: {facts['bytes']} bytes, {memory}, exports {exports}"
