"""`cellule fsm paths`: walks through a machine, written as a file of tests that people read and change."""

from __future__ import annotations

import json
import os
from pathlib import Path
from string import Template
from typing import Any, Final

from cellule.app import App, Built
from cellule.app.fsm_module import module_name
from cellule.cli.app_file import is_file as is_app_file
from cellule.cli.app_file import split_place
from cellule.cli.errors import usage
from cellule.cli.fsm_contracts import built_machine, is_file
from cellule.cli.output import counted, write_file
from cellule.cli.session import Session
from cellule.errors import Rejected
from cellule.kernel.manifest.model import Module
from cellule.kernel.need import Nodes, drive
from cellule.modules.fsm.contract import Transition
from cellule.modules.fsm.examples import simplest
from cellule.modules.fsm.interface import manual_event
from cellule.modules.fsm.program import FsmProgram
from cellule.modules.fsm.programs import FsmPrograms
from cellule.modules.fsm.read import read_contract
from cellule.modules.fsm.trails import Explorer, Trail, Trails
from cellule.modules.fsm.trial import Deed, Trial
from cellule.testing.clock import WALL_ORIGIN_NS
from cellule.values.json_view import to_json
from cellule.values.names import Name
from cellule.values.schema import key_bytes
from cellule.values.schema import types as t

_TEMPLATE: Final = Path(__file__).with_name("template") / "fsm" / "test_paths.py.txt"


def write_paths(session: Session, source: str, out: Path | None, *, force: bool) -> dict[str, Any]:
    """Find the walks of a machine and write their tests; what was written, as JSON data."""
    app, name = session.load_app(), source
    if app is None:
        app, name = _app_of_file(source)
    built, module = built_machine(app, name)
    target = out or Path(f"test_{module.base.rpartition('/')[2]}_paths.py")
    if target.exists() and not force:
        raise Rejected(
            "cli.file_exists", "{file} is there already", file=str(target),
            hint="Name another file with --out, or replace it with --force.",
        )  # fmt: skip
    made = _Tests(built, module)
    opening = _of_app(session.app) if session.app else _of_file(source, name, target)
    write_file(target, made.text(opening))
    return {"file": str(target), "tests": made.count, "summary": made.summary, **made.counts}


def _app_of_file(source: str) -> tuple[App, str]:
    """An app with nothing but the contract of a file, and the module's name."""
    if not is_file(source):
        raise usage(
            "{source} is no file of a contract", source=source,
            hint="Name a file, or a module of an app: cellule --app shop.py:app fsm paths order",
        )  # fmt: skip
    path = Path(source).resolve()
    app = App("main")
    app.fsm(path)
    return app, module_name(path)


def _of_app(place: str) -> str:
    where, attribute = split_place(place)
    module = Path(where).stem if is_app_file(where) else where
    named = "" if attribute == "app" else " as app"
    return f"from {module} import {attribute}{named}\n\nfrom cellule.testing import World"


def _of_file(source: str, name: str, target: Path) -> str:
    file = os.path.relpath(Path(source).resolve(), target.resolve().parent)
    names = "\nfrom cellule import App\nfrom cellule.testing import World"
    return f'{names}\n\napp = App("main")\napp.fsm({_code(file)}, name={_code(name)})'


class _Tests:
    """The walks of one machine, and their tests."""

    def __init__(self, built: Built, module: Module) -> None:
        self._built, self._module = built, module
        nodes = Nodes(0)
        program = drive(
            FsmPrograms().program(built.manifest, module, nodes), nodes,
            lambda cids: {cid: built.blocks[cid] for cid in cids},
        )  # fmt: skip
        assert isinstance(program, FsmProgram)
        self._contract = read_contract(built.blocks[module.code["contract"].cid], module.code["file"])
        schema = module.key or t.Text()
        self._key = simplest(schema, built.manifest.schemas, WALL_ORIGIN_NS)
        key = key_bytes(self._key, schema, built.manifest.schemas)
        self._trial = Trial(self._contract, program, built.manifest, module, key, WALL_ORIGIN_NS)
        self._found: Trails = Explorer(self._trial).walks()

    @property
    def counts(self) -> dict[str, int]:
        """How many of each there are."""
        found = self._found
        walks = [walk for _, walk in found.transitions]
        return {
            "transitions": len(walks), "paths": len(found.paths), "refused": len(found.refused),
            "by_hand": sum(walk.by_hand for walk in walks), "missed": len(found.missed),
        }  # fmt: skip

    @property
    def count(self) -> int:
        """How many tests."""
        return sum(self.counts[name] for name in ("transitions", "paths", "refused"))

    @property
    def summary(self) -> str:
        """The counts in words."""
        counts = self.counts
        shown = f"{counted(counts['transitions'], 'transition')}, {counted(counts['paths'], 'path')}, "
        shown += f"{counted(counts['refused'], 'refusal')}"
        if counts["by_hand"]:
            shown += f"; {counts['by_hand']} moved by hand, because no simple value passes the guard"
        if self._found.missed:
            names = ", ".join(_name(each) for each in self._found.missed[:5])
            shown += f"; {len(self._found.missed)} not walked ({names})"
        return shown

    def text(self, opening: str) -> str:
        """The whole file."""
        name = Name.parse(self._module.name)
        found = self._found
        transitions = [(_name(each), self._walk(walk)) for each, walk in found.transitions]
        first = [] if self._contract.start else [self._contract.initial]
        paths = [(" -> ".join([*first, *walk.states]), self._walk(walk)) for walk in found.paths]
        refused = [
            (f"{Name.parse(deed.name).local} in {self._last(walk)}", (*self._walk(walk), self._deed(deed)))
            for walk, deed in found.refused
        ]
        return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
            machine=self._module.base, summary=self.summary.capitalize(), opening=opening,
            base=_code(self._module.base), key=_code(self._shown(self._key, self._module.key or t.Text())),
            manual=_code(manual_event(name)), key_field=_code(self._contract.key),
            key_only=f"{{{_code(sorted(self._trial.key_only))[1:-1]}}}" if self._trial.key_only else "set()",
            transitions=_literal(_unique(transitions)), paths=_literal(_unique(paths)),
            refused=_literal(_unique(refused)),
        )  # fmt: skip

    def _last(self, walk: Trail) -> str:
        return walk.states[-1] if walk.states else self._contract.initial

    def _walk(self, walk: Trail) -> tuple[Any, ...]:
        return [self._deed(each) for each in walk.deeds], list(walk.states)

    def _deed(self, deed: Deed) -> tuple[Any, ...]:
        manifest = self._built.manifest
        match deed.how:
            case "sent":
                return "sent", deed.name, self._shown(deed.value, t.Ref(deed.name))
            case "answered":
                form = t.Ref(manifest.effects[deed.name].receipt)
                return "answered", deed.name, None if deed.value is None else self._shown(deed.value, form)
            case "waited":
                return "waited", deed.value / 1e9
            case _:
                return "move", *deed.value

    def _shown(self, value: Any, schema: t.Schema) -> Any:
        return to_json(value, schema, self._built.manifest.schemas)


def _name(transition: Transition) -> str:
    return f"{transition.source} -{transition.trigger}-> {transition.target}"


def _unique(rows: list[tuple[str, Any]]) -> dict[str, Any]:
    """Rows by their names; a name that is there gets a number."""
    found: dict[str, Any] = {}
    for name, row in rows:
        same = sum(1 for each in found if each == name or each.startswith(f"{name} #"))
        found[f"{name} #{same + 1}" if same else name] = row
    return found


def _literal(rows: dict[str, Any]) -> str:
    """Rows as Python, one deed a line."""
    if not rows:
        return "{}"
    lines = ["{"]
    for name, (deeds, *others) in rows.items():
        walk = ["        [", *(f"            {_code(each)}," for each in deeds), "        ],"]
        lines += [f"    {_code(name)}: (", *(walk if deeds else ["        [],"])]
        lines += [*(f"        {_code(each)}," for each in others), "    ),"]
    return "\n".join([*lines, "}"])


def _code(value: Any) -> str:
    """JSON data, and tuples, as Python."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case tuple():
            return f"({', '.join(map(_code, value))})"
        case list():
            return f"[{', '.join(map(_code, value))}]"
        case dict():
            return f"{{{', '.join(f'{_code(name)}: {_code(each)}' for name, each in value.items())}}}"
        case _:
            return repr(value)
