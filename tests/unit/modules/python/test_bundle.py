from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from textwrap import dedent

import pytest

from cellule.errors import Corrupted, Rejected
from cellule.modules.python import bundle
from cellule.modules.python.bundle import FILE_BYTES_MAX, FILES_MAX, make_bundle, read_root
from cellule.modules.python.collect import find_home
from cellule.modules.python.imports import imports_of
from cellule.modules.python.loader import load_bundle
from cellule.values import Link, cid_of, encode

PLAIN = """
import msgspec

class Hit(msgspec.Struct):
    by: int

def count(state: int | None, event: Hit) -> int:
    return (state or 0) + event.by
"""


def test_a_bundle_holds_the_file_and_all_own_files_it_imports(import_app):
    module = import_app(
        {
            "shop/__init__.py": "from shop.version import NUMBER",
            "shop/version.py": "NUMBER = 1",
            "shop/entry.py": "from . import rates\nfrom .deep.inner import x\nimport shop.late_name as late\n"
            + PLAIN.replace("state or 0", "state or x()"),
            "shop/rates.py": "import json, msgspec\nfrom datetime import datetime\n",
            "shop/deep/__init__.py": "",
            "shop/deep/inner.py": "def x():\n    from beside import y\n    return y\n",
            "shop/late_name.py": "",
            "shop/unused.py": "",
            "beside.py": "y = 2",
            "unused.py": "",
        },
        "shop.entry",
    )
    found = bundle(module.count)
    assert sorted(found.plan.files) == [
        "beside.py", "shop/__init__.py", "shop/deep/__init__.py", "shop/deep/inner.py", "shop/entry.py",
        "shop/late_name.py", "shop/rates.py", "shop/version.py",
    ]  # fmt: skip
    assert found.plan.entry == "shop.entry:count"
    assert found.plan.requires == {}
    assert all(cid_of(data, cid.codec) == cid for cid, data in found.blocks.items())


def test_the_same_sources_give_the_same_bytes_anywhere(import_app):
    files = {"shop/__init__.py": "", "shop/a.py": "from shop import b\n" + PLAIN, "shop/b.py": "x = 1\n"}
    first = bundle(import_app(files, "shop.a").count)
    again = bundle(import_app(dict(reversed(files.items())), "shop.a").count)
    crlf = {path: source.replace("\n", "\r\n") for path, source in files.items()}
    assert first.root == again.root
    assert dict(first.blocks) == dict(again.blocks)
    assert bundle(import_app(crlf, "shop.a").count).root == first.root


def test_encodings_and_marks_are_honoured_and_left_behind(write_app):
    folder = write_app({"app.py": "import latin, marked\n" + PLAIN, "latin.py": "", "marked.py": ""})
    (folder / "latin.py").write_bytes("# -*- coding: latin-1 -*-\nx = 'ø'\r\n".encode("latin-1"))
    (folder / "marked.py").write_bytes(b"\xef\xbb\xbfx = 1\n")
    found = bundle(importlib.import_module("app").count)
    assert found.sources["latin.py"] == "# -*- coding: latin-1 -*-\nx = 'ø'\n".encode()
    assert found.sources["marked.py"] == b"x = 1\n"
    loaded = load_bundle(found.plan, found.blocks)
    assert loaded.resolve("latin:x") == "ø"


def test_another_source_gives_another_root(import_app):
    files = {"shop/__init__.py": "", "shop/a.py": "from shop import b\n" + PLAIN, "shop/b.py": "x = 1\n"}
    first = bundle(import_app(files, "shop.a").count)
    assert bundle(import_app({**files, "shop/b.py": "x = 2\n"}, "shop.a").count).root != first.root


def test_installed_distributions_are_recorded_with_versions_and_the_runtime_is_not(import_app):
    source = "import cbor2, cellule, msgspec\nfrom hypothesis import strategies\n" + PLAIN
    found = bundle(import_app({"app.py": source}, "app").count)
    assert sorted(found.plan.requires) == ["cbor2", "hypothesis"]
    assert all(version[0].isdigit() for version in found.plan.requires.values())


def test_imports_that_never_run_or_may_fail_are_not_required(import_app):
    source = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from nowhere import Something
try:
    import speedups_that_nobody_has
except ImportError:
    speedups_that_nobody_has = None
"""
    found = bundle(import_app({"app.py": source + PLAIN}, "app").count)
    assert found.plan.requires == {}
    assert list(found.plan.files) == ["app.py"]


DRAWN = """
class Total:
    def draw(self):
        {0}import not_there{1}
def used(): return Total
"""


def test_a_method_of_a_class_in_use_may_import_what_is_missing_if_it_says_so(import_app):
    plain = PLAIN.replace("state or 0", "state or used()")
    with pytest.raises(
        Rejected, match=r"app.py:4 imports not_there.*put it into `try:` with `except ImportError:`"
    ):
        bundle(import_app({"app.py": DRAWN.format("", "") + plain}, "app").count)
    optional = DRAWN.format("try:\n            ", "\n        except ImportError:\n            pass")
    assert bundle(import_app({"tried.py": optional + plain}, "tried").count).plan.requires == {}


UNREACHED = {
    "a function": "def report():\n    import not_there\n",
    "a method": "class Report:\n    def make(self):\n        import not_there\n",
    "inside both": "class K:\n    def make(self):\n        def inner():\n            import not_there\n",
    "a function of a function": "def outer():\n    return report()\ndef report():\n    import not_there\n",
    "an adapter": "def adapter(f): return f\n@adapter\nasync def call(p):\n    import not_there\n",
    "a blocking adapter": "def adapter(f): return f\n@adapter\ndef call(p):\n    import not_there\n",
    "another reducer": "def reducer(f): return f\n@reducer\ndef other(s, e):\n    import not_there\n",
    "the main program": "if __name__ == '__main__':\n    import not_there\n    count(None, None)\n",
    "a type": "def report():\n    import shop_web\n",
}


@pytest.mark.parametrize("name", UNREACHED)
def test_what_the_entry_never_reaches_is_not_bundled(import_app, name):
    """A library that only a report beside the reducer needs refused the whole app where it was missing."""
    files = {"app.py": PLAIN + UNREACHED[name], "shop_web.py": "import not_there\n"}
    found = bundle(import_app(files, "app").count)
    assert sorted(found.plan.files) == ["app.py"]
    assert found.plan.requires == {}


REACHED = {
    "a function": ("def later():\n    import other\n", "later()"),
    "through another": ("def first():\n    later()\ndef later():\n    import other\n", "first()"),
    "a table": ("def later():\n    import other\nTABLE = {1: later}\n", "TABLE[1]()"),
    "a method": ("class K:\n    def later(self):\n        import other\n", "K().later()"),
    "an heir": ("class K: pass\nclass L(K):\n    def later(self):\n        import other\n", "K()"),
    "a registered function": ("K = []\n@K.append\ndef later():\n    import other\n", "0"),
    "at the top level": ("def later():\n    import other\nX = [later] and 1\n", "0"),
    "a class body": ("class K:\n    import other\n", "0"),
    "through an import": ("def later():\n    from middle import run\n    run()\n", "later()"),
    "the first of two imports of a name": (
        (
            "def later():\n    try:\n        from middle import run\n    except ImportError:\n"
            "        from other_way import run\n    run()\n"
        ),
        "later()",
    ),
}


@pytest.mark.parametrize("name", REACHED)
def test_whatever_may_run_with_the_entry_is_bundled(import_app, name):
    above, expression = REACHED[name]
    files = {
        "app.py": above + PLAIN.replace("state or 0", f"state or {expression} or 0"),
        "other.py": "", "middle.py": "def run():\n    import other\ndef no():\n    import not_there\n",
        "other_way.py": "def run(): pass\n",
    }  # fmt: skip
    found = bundle(import_app(files, "app").count)
    assert "other.py" in found.plan.files


def test_modules_imported_by_other_means_can_be_named(import_app):
    files = {"shop/__init__.py": "", "shop/a.py": PLAIN, "shop/plugin.py": ""}
    module = import_app(files, "shop.a")
    assert "shop/plugin.py" in bundle(module.count, include=["shop.plugin"]).plan.files
    with pytest.raises(Rejected) as caught:
        bundle(module.count, include=["shop.missing"])
    assert caught.value.code == "modules.import_missing"


def test_a_namespace_folder_is_part_of_the_app(import_app):
    files = {"shop/parts/rates.py": "x = 1", "shop/a.py": "from shop.parts import rates\n" + PLAIN}
    assert sorted(bundle(import_app(files, "shop.a").count).plan.files) == [
        "shop/a.py",
        "shop/parts/rates.py",
    ]


@pytest.mark.parametrize(
    ("files", "module", "code", "words"),
    [
        (
            {"app.py": "def later():\n    import not_there\n"},
            "app",
            "import_missing",
            "app.py:2 imports not_there",
        ),
        (
            {"shop/__init__.py": "", "shop/app.py": "def later():\n    import shop.no\n"},
            "shop.app",
            "import_missing",
            "shop/app.py:2 imports shop.no,",
        ),
        ({"app.py": "import colorsys\n", "colorsys.py": ""}, "app", "shadows_library", "Rename"),
        (
            {"app.py": "def later():\n    import broken\n", "broken.py": "x ="},
            "app",
            "source_invalid",
            "broken.py",
        ),
    ],
)
def test_an_import_that_cannot_be_bundled_is_named(import_app, files, module, code, words):
    entry = module.replace(".", "/") + ".py"
    plain = PLAIN.replace("state or 0", "state or later()")
    found = import_app({**files, entry: files[entry] + plain}, module)
    with pytest.raises(Rejected) as caught:
        bundle(found.count)
    assert caught.value.code == f"modules.{code}"
    assert words in str(caught.value)


def test_functions_that_no_process_could_find_are_refused(import_app):
    def inner(state: int | None, event: object) -> int: ...

    scope: dict[str, object] = {"__name__": "nowhere"}
    exec("def typed(state, event): ...", scope)
    for function, words in (
        (inner, "inside another function"),
        (lambda state, event: state, "lambda"),
        (Holder.method, "inside a class"),
        (scope["typed"], "prompt or notebook"),
    ):
        with pytest.raises(Rejected) as caught:
            bundle(function)
        assert caught.value.code == "modules.not_bundled"
        assert words in str(caught.value)


class Holder:
    @staticmethod
    def method(state, event): ...


SCRIPT = """
    from cellule.modules.python import bundle, check_not_loading, is_loading
    from cellule.modules.python.loader import load_bundle, load_function
    import msgspec

    class Hit(msgspec.Struct):
        by: int

    def count(state: int | None, event: Hit) -> int:
        return (state or 0) + event.by

    def main():
        check_not_loading("open a node")
        found = bundle(count)
        function = load_function(load_bundle(found.plan, found.blocks), found.plan.entry)
        print(found.plan.entry, function.__module__.endswith(".app"), function is not count, is_loading())
"""


def run_script(folder, tail, *arguments):
    (folder / "app.py").write_text(dedent(SCRIPT) + tail)
    return subprocess.run(
        [sys.executable, *(arguments or ["app.py"])],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("arguments", [["app.py"], ["-m", "app"]])
def test_a_script_is_bundled_under_the_name_of_its_file(tmp_path, arguments):
    done = run_script(tmp_path, 'if __name__ == "__main__":\n    main()\n', *arguments)
    assert done.stdout == "app:count True True False\n", done.stderr


def test_a_script_that_starts_at_its_top_level_is_refused_with_the_way_out(tmp_path):
    done = run_script(tmp_path, "main()\n")
    assert done.returncode == 1
    assert "app.py tries to open a node at its top level" in done.stderr
    assert 'if __name__ == "__main__":' in done.stderr


def test_a_home_that_does_not_match_its_name_is_its_folder(import_app, tmp_path):
    module = import_app({"plain.py": PLAIN}, "plain")
    module.__name__ = "renamed_by_a_tool"
    module.count.__module__ = "renamed_by_a_tool"
    sys.modules["renamed_by_a_tool"] = module
    try:
        home = find_home(module.count)
    finally:
        del sys.modules["renamed_by_a_tool"]
    assert (home.module, home.root.name) == ("plain", "app0")


def test_relative_imports_become_absolute():
    tree = ast.parse("from . import a\nfrom .. import b\nfrom .c.d import e\nimport f.g\nfrom h import *")
    found = [(each.module, each.names) for each in imports_of(tree, "top.mid.leaf", is_package=False)]
    assert found == [
        ("top.mid", ("a",)),
        ("top", ("b",)),
        ("top.mid.c.d", ("e",)),
        ("f.g", ()),
        ("h", ("*",)),
    ]


def test_limits_are_refused_with_their_number():
    with pytest.raises(Rejected, match=r"at most 1000000"):
        make_bundle("a:f", {"a.py": b"#" * (FILE_BYTES_MAX + 1)}, {})
    with pytest.raises(Rejected, match=r"at most 2000"):
        make_bundle("a:f", {f"a{at}.py": b"" for at in range(FILES_MAX + 1)}, {})


FILES = {"a.py": Link(cid_of(b"", "raw"))}
GOOD = {"entry": "a:f", "files": FILES, "format": 0, "python": "3.11", "requires": {}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 1}, "format"),
        ({"entry": "a"}, "entry"),
        ({"entry": 7}, "entry"),
        ({"python": 3}, "python"),
        ({"more": 1}, "fields"),
        ({"files": []}, "files"),
        ({"files": {"../a.py": Link(cid_of(b"", "raw"))}}, "files"),
        ({"files": {"/a.py": Link(cid_of(b"", "raw"))}}, "files"),
        ({"files": {"a.txt": Link(cid_of(b"", "raw"))}}, "files"),
        ({"files": {"a.py": Link(cid_of(b"\xa0"))}}, "files"),
        ({"files": {"a.py": b"source"}}, "files"),
        ({"requires": {"x": 1}}, "requires"),
    ],
)
def test_a_damaged_root_says_what_is_wrong(change, words):
    read_root(cid_of(encode(GOOD)), encode(GOOD))
    data = encode({**GOOD, **change})
    with pytest.raises(Corrupted) as caught:
        read_root(cid_of(data), data)
    assert caught.value.code == "modules.bundle_damaged"
    assert words in str(caught.value)


def test_bytes_that_are_no_node_are_damaged():
    with pytest.raises(Corrupted):
        read_root(cid_of(b"\xff"), b"\xff")


def test_nothing_is_imported_to_find_files(write_app):
    folder = write_app(
        {"shop/__init__.py": "", "shop/a.py": "import shop.bomb\n" + PLAIN, "shop/bomb.py": "BOOM = 1"}
    )
    module = importlib.import_module("shop.a")
    (folder / "shop" / "bomb.py").write_text("raise SystemExit('ran')")
    assert "shop/bomb.py" in bundle(module.count).plan.files
