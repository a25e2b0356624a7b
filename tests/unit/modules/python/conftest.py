"""Apps written into a folder, imported as their author would, and run from their bundles."""

from __future__ import annotations

import importlib
import sys
from textwrap import dedent
from typing import Any, NamedTuple

import pytest

from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.manifest.model import Manifest, Module
from cellule.kernel.need import Nodes, drive
from cellule.kernel.program import Context, Program
from cellule.modules.python import PythonPrograms, describe, manifest_document
from cellule.modules.python.describe import ModuleDescription
from cellule.values import decode, encode

MODELS = """
    from __future__ import annotations

    import msgspec


    class Order(msgspec.Struct):
        order_id: str
        total: int = 0
        lines: list[str] = []


    class Placed(msgspec.Struct, frozen=True):
        order_id: str
        amount: int


    class Paid(msgspec.Struct, frozen=True):
        order_id: str


    class Shipped(msgspec.Struct, frozen=True):
        order_id: str
"""
ORDERS = """
    from __future__ import annotations

    from cellule.modules.python import Context, Step, reducer
    from shop.models import Order, Paid, Placed, Shipped


    @reducer(reply=int, emits=[Shipped])
    def order(state: Order | None, event: Placed | Paid, ctx: Context) -> Step[Order] | Order:
        if isinstance(event, Paid):
            if state is None:
                raise ValueError("nothing to pay")
            return Step.delete(emit=[Shipped(event.order_id)], ann={"at": ctx.now_ns})
        state = state or Order(event.order_id)
        state.total += event.amount
        state.lines.append(f"+{event.amount}")
        return Step(state, reply=state.total)
"""


class Loaded(NamedTuple):
    """A module loaded from its bundle, and a short way to step it."""

    description: ModuleDescription
    manifest: Manifest
    module: Module
    program: Program

    def step(self, event: str, state: Any = None, *, context: Context | None = None, **fields: Any) -> Any:
        """Take a step; states are given and returned as plain values."""
        given = None if state is None else encode(state)
        name = event if "/" in event else f"com.acme/{event}@1"
        return self.program.step(given, name, encode(fields), b"", context)

    def state(self, event: str, state: Any = None, **fields: Any) -> Any:
        """The new state of a step, decoded."""
        return decode(self.step(event, state, **fields).state)


@pytest.fixture
def write_app(tmp_path, monkeypatch):
    """Write files (path -> source) into a folder of its own and put it on the path."""
    counter = iter(range(100))
    tops = set()

    def forget(names):
        for loaded in [each for each in sys.modules if each.partition(".")[0] in names]:
            del sys.modules[loaded]

    def write(files):
        folder = tmp_path / f"app{next(counter)}"
        for path, source in files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(dedent(source))
        names = {path.split("/")[0].removesuffix(".py") for path in files}
        forget(names)
        tops.update(names)
        monkeypatch.syspath_prepend(folder)
        return folder

    yield write
    forget(tops)
    for bundle in [vars(module).get("__cellule_bundle__") for module in list(sys.modules.values())]:
        if bundle is not None:
            bundle.unload()


@pytest.fixture
def import_app(write_app):
    """Write an app and import one of its modules."""

    def load(files, module):
        write_app(files)
        return importlib.import_module(module)

    return load


@pytest.fixture
def shop(import_app):
    """The module of a small shop's reducer."""
    return import_app(
        {"shop/__init__.py": "", "shop/models.py": MODELS, "shop/orders.py": ORDERS}, "shop.orders"
    )


@pytest.fixture
def load_program():
    """Describe a function and load it from the blocks of its bundle, as a world would."""
    opened = []

    def load(function, **options):
        limit_s = options.pop("limit_s", 10.0)
        guarded = options.pop("guarded", False)
        description = describe(function, namespace="com.acme", **options)
        manifest = load_manifest(manifest_document([description]))
        module = next(iter(manifest.modules.values()))
        live = [description] if options.get("live") else []
        programs = PythonPrograms(limit_s=limit_s, guarded=guarded, live=live)
        opened.append(programs)
        nodes = Nodes(0)
        blocks = description.blocks
        walk = programs.program(manifest, module, nodes)
        program = drive(walk, nodes, lambda cids: {cid: blocks[cid] for cid in cids})
        return Loaded(description, manifest, module, program)

    yield load
    for programs in opened:
        programs.close()


@pytest.fixture
def load_app(import_app, load_program):
    """One file with a reducer `order`, beside the shop's models, loaded from its bundle."""

    def load(source, **options):
        files = {
            "shop/__init__.py": "",
            "shop/models.py": MODELS,
            "shop/orders.py": "from __future__ import annotations\n" + dedent(source),
        }
        return load_program(import_app(files, "shop.orders").order, **options)

    return load


@pytest.fixture
def context():
    """The kernel's context of one step."""
    now_ns = 1_700_000_000_123_456_789
    return Context(bytes(range(16)), "com.acme/order@1", b"o1", 3, 17, now_ns, b"e" * 16, 0, 4)
