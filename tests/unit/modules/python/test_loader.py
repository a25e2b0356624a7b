from __future__ import annotations

import inspect
import linecache
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from cellule.errors import Corrupted, Rejected
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.need import Need, Nodes, drive
from cellule.kernel.program import StepFault
from cellule.modules.python import PythonPrograms, describe, is_loading, manifest_document
from cellule.modules.python.bundle import make_bundle
from cellule.modules.python.code import PythonCode
from cellule.modules.python.loader import load_bundle, load_function
from cellule.modules.python.programs import naming_in
from cellule.values import decode, encode


def loaded_from(sources, entry, requires=None, **options):
    found = make_bundle(entry, {path: source.encode() for path, source in sources.items()}, requires or {})
    return load_bundle(found.plan, found.blocks, **options)


def function_from(sources, entry="app:f", **options):
    return load_function(loaded_from(sources, entry, **options), entry)


def test_every_form_of_import_leads_into_the_bundle():
    sources = {
        "shop/__init__.py": "NAME = 'shop'",
        "shop/rates.py": "RATE = 1\nfrom . import NAME",
        "shop/deep/__init__.py": "",
        "shop/deep/leaf.py": "from ..rates import RATE\nfrom ... import shop as top\nLEAF = RATE + 1",
        "beside.py": "BESIDE = 5",
        "app.py": """
import shop
import shop.rates
import shop.deep.leaf as leaf
from shop import rates as again, NAME
from shop.deep.leaf import *
import beside, json

def f():
    import shop.deep.leaf
    from beside import BESIDE
    same = again is shop.rates and shop.deep.leaf is leaf
    return [shop.rates.RATE, leaf.LEAF, NAME, LEAF, BESIDE, json.dumps(1), same]
""",
    }
    assert function_from(sources)() == [1, 2, "shop", 2, 5, "1", True]
    assert not {"shop", "beside", "app"} & set(sys.modules)


def test_the_author_s_modules_stay_apart_from_the_bundle_s(shop, load_program):
    loaded = load_program(shop.order, key="order_id")
    assert sys.modules["shop.orders"] is shop
    assert loaded.state("Placed", order_id="o", amount=1)["total"] == 1
    (private,) = [
        name for name in sys.modules if name.startswith("cellule_bundle_") and name.endswith(".models")
    ]
    assert sys.modules[private].Order is not shop.Order


def test_files_on_disk_are_not_consulted_for_the_app_s_names(write_app):
    write_app({"shop/__init__.py": "", "shop/extra.py": "raise SystemExit('from disk')"})
    function = function_from({"shop/__init__.py": "", "app.py": "def f():\n    import shop.extra"})
    with pytest.raises(ModuleNotFoundError):
        function()
    assert "shop" not in sys.modules


def test_two_versions_of_an_app_run_side_by_side():
    one = function_from(
        {
            "shop/__init__.py": "",
            "shop/rate.py": "R = 1",
            "app.py": "import shop.rate\ndef f(): return shop.rate.R",
        }
    )
    two = function_from(
        {
            "shop/__init__.py": "",
            "shop/rate.py": "R = 2",
            "app.py": "import shop.rate\ndef f(): return shop.rate.R",
        }
    )
    assert (one(), two(), one()) == (1, 2, 1)


def test_entries_of_the_same_files_share_one_copy():
    sources = {"app.py": "def f(): ...\ndef g(): ..."}
    assert function_from(sources, "app:f").__globals__ is function_from(sources, "app:g").__globals__


def test_tracebacks_and_inspect_show_the_original_names_and_lines():
    function = function_from(
        {"shop/app.py": "def f():\n    # a comment\n    return 1 / 0  # the line\n"}, "shop.app:f"
    )
    with pytest.raises(ZeroDivisionError) as caught:
        function()
    shown = "".join(traceback.format_exception(caught.value))
    assert 'shop/app.py", line 3, in f' in shown
    assert "return 1 / 0  # the line" in shown
    linecache.checkcache()
    assert inspect.getsource(function).endswith("# the line\n")


def test_a_module_is_never_main_and_knows_that_it_is_loading():
    source = """
from cellule.modules.python import is_loading
SEEN = (__name__ == "__main__", is_loading())
def f(): return SEEN, is_loading()
"""
    assert function_from({"app.py": source})() == ((False, True), False)
    assert not is_loading()


def test_classes_with_text_annotations_resolve_in_the_bundle():
    source = """
from __future__ import annotations
import dataclasses, typing, msgspec

class Leaf(msgspec.Struct):
    x: int

@dataclasses.dataclass
class Tree:
    leaf: Leaf
    more: Tree | None = None
    kept: dataclasses.InitVar[int] = 0

class Row(typing.NamedTuple):
    leaf: Leaf

def f():
    hints = typing.get_type_hints
    return hints(Tree)["leaf"] is Leaf, hints(Row)["leaf"] is Leaf, Tree(Leaf(1)).leaf.x
"""
    assert function_from({"app.py": source})() == (True, True, 1)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "import nowhere_to_be_found",
            "ModuleNotFoundError: No module named 'nowhere_to_be_found' (app.py:1",
        ),
        ("\nopen('/nowhere/data.json')", "FileNotFoundError"),
        ("raise SystemExit(1)", "SystemExit: 1 (app.py:1"),
        ("x = 1", "has no attribute 'f'"),
        ("from app import g", "cannot import name 'g'"),
    ],
)
def test_a_top_level_that_fails_is_named_with_its_line(source, words):
    with pytest.raises(Rejected) as caught:
        function_from({"app.py": source})
    assert caught.value.code == "modules.load_failed"
    assert words in str(caught.value)
    assert "cellule_bundle" not in str(caught.value)


HOSTILE = """
from cellule import errors
class Odd(errors.{kind}):
    def __str__(self): raise KeyboardInterrupt
raise {raised}
"""


@pytest.mark.parametrize("kind", ["Corrupted", "Fenced", "Unavailable", "InvariantBroken", "Rejected"])
@pytest.mark.parametrize("raised", ["errors.{kind}('a.b', 'no')", "Odd('a.b', 'no')", "Odd"])
def test_a_top_level_that_raises_what_ends_worlds_only_fails_to_load(kind, raised):
    """It ended its world, as if the kernel had said so, at every event for a cell of that code."""
    source = HOSTILE.format(kind=kind, raised=raised.format(kind=kind))
    with pytest.raises(Rejected) as caught:
        function_from({"app.py": source})
    assert type(caught.value) is Rejected
    assert caught.value.code in ("modules.load_failed", "a.b")
    assert str(caught.value)


def test_another_file_whose_top_level_raises_what_ends_worlds_only_fails_to_load():
    files = {
        "app.py": "def f(): pass",
        "kinds.py": "from cellule.errors import Fenced\nraise Fenced('a.b', 'no')",
    }
    loaded = loaded_from(files, "app:f")
    code = PythonCode("python", "app:f", "shop", names={"kinds:Order": "shop/Order@1"})
    with pytest.raises(Rejected, match="cannot be loaded: Fenced: no"):
        naming_in(code, loaded)


def test_a_newer_syntax_names_both_versions_of_python():
    found = make_bundle("app:f", {"app.py": b"def f(: pass"}, {}, python="3.99")
    with pytest.raises(Rejected) as caught:
        load_function(load_bundle(found.plan, found.blocks), "app:f")
    assert caught.value.code == "modules.python_version"
    assert "3.99" in str(caught.value)


@pytest.mark.parametrize(
    ("requires", "found"),
    [({"no-such-distribution": "1.0"}, "none"), ({"cbor2": "0.0.1"}, "here is")],
)
def test_missing_and_other_versions_are_named(requires, found):
    with pytest.raises(Rejected) as caught:
        loaded_from({"app.py": ""}, "app:f", requires)
    assert caught.value.code == "modules.requirement"
    (name, wanted), *_ = requires.items()
    assert f"needs {name} {wanted}" in str(caught.value)
    assert found in str(caught.value)


def test_other_versions_may_be_accepted_but_not_missing_ones():
    assert (
        function_from({"app.py": "def f(): return 1"}, requires={"cbor2": "0.0.1"}, any_version=True)() == 1
    )
    with pytest.raises(Rejected):
        loaded_from({"app.py": ""}, "app:f", {"no-such-distribution": "1.0"}, any_version=True)


def test_unloading_forgets_everything():
    loaded = loaded_from({"app.py": "def f(): ..."}, "app:f")
    load_function(loaded, "app:f")
    loaded.unload()
    assert not [name for name in sys.modules if name.startswith(loaded.package)]
    assert not [name for name in linecache.cache if name.startswith(loaded.package)]


def test_loading_asks_for_the_root_then_for_all_files_at_once(shop):
    description = describe(shop.order, namespace="com.acme", key="order_id")
    manifest = load_manifest(manifest_document([description]))
    nodes = Nodes(0)
    asked = []

    def read(cids):
        asked.append(set(cids))
        return {cid: description.blocks[cid] for cid in cids}

    drive(PythonPrograms().program(manifest, manifest.modules["com.acme/order"], nodes), nodes, read)
    files = set(description.bundle.plan.files.values())
    assert asked == [{description.bundle.root}, files]


def test_a_missing_file_of_the_bundle_is_corruption(shop):
    description = describe(shop.order, namespace="com.acme", key="order_id")
    manifest = load_manifest(manifest_document([description]))
    nodes = Nodes(0)
    walk = PythonPrograms().program(manifest, manifest.modules["com.acme/order"], nodes)
    root = description.bundle.root
    assert next(walk) == Need((root,))
    nodes.add({root: description.blocks[root]})
    next(walk)
    with pytest.raises(Corrupted):
        next(walk)


def test_a_program_is_loaded_once_per_manifest(shop):
    description = describe(shop.order, namespace="com.acme", key="order_id")
    manifest = load_manifest(manifest_document([description]))
    module = manifest.modules["com.acme/order"]
    programs, nodes = PythonPrograms(), Nodes(0)
    read = lambda cids: {cid: description.blocks[cid] for cid in cids}  # noqa: E731
    first = drive(programs.program(manifest, module, nodes), nodes, read)
    assert drive(programs.program(manifest, module, nodes), nodes, lambda _: {}) is first


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"kind": "cobol"}, "modules.code_invalid"),
        ({"entry": "order"}, "modules.code_invalid"),
        ({"bundle": "bafy"}, "modules.code_invalid"),
        ({"namespace": 1}, "modules.code_invalid"),
        ({"names": {"shop.models:Order": 1}}, "modules.code_invalid"),
        ({"names": {"shop.models:Missing": "com.acme/M@1"}}, "modules.code_invalid"),
        ({"more": 1}, "modules.code_invalid"),
        ({"entry": "shop.orders:missing"}, "modules.load_failed"),
        ({"entry": "shop.models:Order"}, "modules.not_a_function"),
        ({"namespace": "com.other"}, "modules.event_not_taken"),
    ],
)
def test_code_that_does_not_fit_is_refused_when_it_is_loaded(shop, change, code):
    description = describe(shop.order, namespace="com.acme", key="order_id")
    document = manifest_document([description])
    document["modules"]["com.acme/order@1"]["code"] = {**description.code.document(), **change}
    manifest = load_manifest(document)
    nodes = Nodes(0)
    walk = PythonPrograms().program(manifest, manifest.modules["com.acme/order"], nodes)
    with pytest.raises(Rejected) as caught:
        drive(walk, nodes, lambda cids: {cid: description.blocks[cid] for cid in cids})
    assert caught.value.code == code


def test_a_schema_that_means_something_else_in_the_manifest_is_refused(shop):
    description = describe(shop.order, namespace="com.acme", key="order_id")
    document = manifest_document([description])
    document["schemas"]["com.acme/Order@1"]["record"]["extra"] = {"option": {"text": {}}}
    manifest = load_manifest(document)
    nodes = Nodes(0)
    walk = PythonPrograms().program(manifest, manifest.modules["com.acme/order"], nodes)
    with pytest.raises(Rejected) as caught:
        drive(walk, nodes, lambda cids: {cid: description.blocks[cid] for cid in cids})
    assert caught.value.code == "modules.schema_differs"


CHILD = """
import sys
from pathlib import Path
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.need import Nodes, drive
from cellule.kernel.program import Context, StepFault
from cellule.modules.python import PythonPrograms
from cellule.values import cid_of, encode

manifest = load_manifest(Path("manifest").read_bytes())
blocks = {}
for path in Path("cas").iterdir():
    data = path.read_bytes()
    blocks |= {cid_of(data, "raw"): data, cid_of(data): data}
programs, nodes = PythonPrograms(), Nodes(0)
walk = programs.program(manifest, manifest.modules["com.acme/order"], nodes)
program = drive(walk, nodes, lambda cids: {cid: blocks[cid] for cid in cids})
ctx = Context(bytes(16), "com.acme/order@1", b"o1", 3, 17, 1_700_000_000_123_456_789, b"e" * 16, 0, 4)
out = program.step(None, "com.acme/Placed@1", encode({"order_id": "o1", "amount": 5}), b"o1", ctx)
try:
    program.step(None, "com.acme/Paid@1", encode({"order_id": "o1"}), b"o1", ctx)
except StepFault as fault:
    print(fault.text)
print(out.state.hex(), out.reply.hex(), sorted(name for name in sys.modules if name.split(".")[0] == "shop"))
"""


@pytest.mark.parametrize("seed", ["1", "2"])
def test_another_process_runs_the_code_without_the_author_s_files(shop, tmp_path, seed):
    description = describe(shop.order, namespace="com.acme", key="order_id")
    empty = tmp_path / "elsewhere"
    (empty / "cas").mkdir(parents=True)
    (empty / "manifest").write_bytes(load_manifest(manifest_document([description])).data)
    for cid, data in description.blocks.items():
        (empty / "cas" / str(cid)).write_bytes(data)
    for file in Path(shop.__file__).parent.iterdir():
        if file.is_file():
            file.unlink()
    done = subprocess.run(
        [sys.executable, "-c", CHILD], cwd=empty, capture_output=True, text=True, check=False, timeout=60,
        env={"PYTHONHASHSEED": seed, "PATH": ""},
    )  # fmt: skip
    state = encode({"order_id": "o1", "total": 5, "lines": ["+5"]})
    assert done.stdout.splitlines() == [
        "ValueError: nothing to pay (shop/orders.py:12 in order)",
        f"{state.hex()} 05 []",
    ], done.stderr


def test_state_kept_in_globals_does_not_survive_an_era(load_app):
    source = """
from shop.models import Order, Placed
SEEN = []
def order(state: Order | None, event: Placed) -> Order:
    SEEN.append(1)
    return Order("o", len(SEEN))
"""
    one = load_app(source, guard=False)
    assert one.state("Placed", order_id="o", amount=1)["total"] == 1
    assert one.state("Placed", order_id="o", amount=1)["total"] == 2
    other = load_app(source + "# another era\n", guard=False)
    assert other.state("Placed", order_id="o", amount=1)["total"] == 1


def test_an_import_that_is_not_in_the_bundle_fails_the_step_by_name(load_app):
    loaded = load_app(
        """
from shop.models import Order, Placed
def order(state: Order | None, event: Placed) -> Order:
    import importlib
    return importlib.import_module("shop.hidden")
""",
        guard=False,
    )
    with pytest.raises(StepFault) as caught:
        loaded.step("Placed", order_id="o", amount=1)
    assert caught.value.code == "modules.exception"
    assert "shop.hidden" in caught.value.text


def test_decoded_values_are_instances_of_the_bundle_s_classes(load_app):
    loaded = load_app(
        """
from shop.models import Order, Paid, Placed
import shop.models
def order(state: Order | None, event: Placed | Paid) -> Order:
    assert type(event) is shop.models.Placed and (state is None or type(state) is Order)
    return state or shop.models.Order("o")
"""
    )
    first = loaded.step("Placed", order_id="o", amount=1).state
    assert loaded.state("Placed", decode(first), order_id="o", amount=1) == decode(first)
