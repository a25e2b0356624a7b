"""README, guides, examples and the template are clean for type checkers, and mistakes are errors.

Both checkers run once over folders of their own: mypy with `--strict`, pyright (the build that brings its own
runtime and needs no download) in its `standard` mode.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from string import Template

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TEMPLATE = ROOT / "src/cellule/cli/template"
PAGES = [ROOT / "docs/start.md", *sorted((ROOT / "docs/guides").glob("*.md"))]
GIVEN = {"sync.md": "import atexit, contextlib\nimport cellule\nfrom shop import Paid, Placed, app, order\n"}

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TEST = re.compile(r"(test_.*|conftest)\.py$")  # tests take fixtures without annotations, as everywhere
_FILE = re.compile(r"# ([\w/]+\.py)\n")

TYPED = """
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, assert_type

import msgspec

import cellule
from cellule import App, Receipt, Step, Workflow, WorkflowRun, http, timer
from cellule.testing import World

app = App("typed")


@app.event(key="id")
class Opened(msgspec.Struct, frozen=True):
    id: str


@app.event(key="id")
@dataclass(frozen=True)
class Raised:
    id: str


@app.event(key="id")
class Closed(NamedTuple):
    id: str


class Account(msgspec.Struct, frozen=True):
    total: int = 0


class Balance(msgspec.Struct, frozen=True):
    total: int


class Charge(msgspec.Struct, frozen=True):
    cents: int


class Charged(msgspec.Struct, frozen=True):
    charge_id: str


class Refunded(msgspec.Struct, frozen=True):
    refund_id: int


@app.adapter("bank.charge")
async def charge(params: Charge) -> Charged:
    return Charged(str(params.cents))


refund = app.effect("bank.refund", params=Charge, receipt=Refunded)


@app.reducer(reply=Balance, effects=[charge, refund, timer, http])
def account(
    state: Account | None, event: Opened | Raised | Closed | Receipt[Charged] | Receipt[Refunded]
) -> Step[Account]:
    if charge.is_receipt(event):
        assert_type(event, Receipt[Charged])
        assert_type(event.value, Charged | None)
    elif refund.is_receipt(event):
        assert_type(event, Receipt[Refunded])
    else:
        assert_type(event, Opened | Raised | Closed)
    return Step(state or Account(), effects=[charge(Charge(1)), refund(Charge(2))])


@app.reducer(key={Opened: "id"})
def bare(state: Account | None, event: Opened) -> Account:
    return state or Account()


@app.workflow(events=[Raised], effects=[charge, refund])
async def flow(ctx: Workflow, event: Opened, turn: int = 0) -> str:
    assert_type(await ctx.effect(charge(Charge(1))), Charged)
    assert_type(await ctx.effect(refund(Charge(1))), Refunded)
    assert_type(await ctx.event(Raised, timeout=60), Raised)
    assert_type(await ctx.event(Raised, Closed), Raised | Closed)
    assert_type(await ctx.gather(ctx.event(Raised), ctx.sleep(1)), tuple[Raised, None])
    assert_type((await ctx.race(ctx.event(Raised), ctx.event(Raised))).value, Raised)
    ctx.again(event, turn + 1)


async def typed(node: Any) -> None:
    async with cellule.open("data", app=app) as store:
        world = await store.world("w")
        assert_type(await world.cell(account, "a").state(), Account | None)
        assert_type(await world.cell(bare, "a").state(), Account | None)
        assert_type(await world.cell(flow, "a").state(), WorkflowRun | None)
        assert_type(await world.cell("account", "a").state(), Any | None)
        view = await world.cell(account, "a").view()
        assert view is not None
        assert_type(view.state, Account | None)
        for version in await world.cell(account, "a").history():
            assert_type(version.state, Account | None)
        applied = await world.send(Opened("a"), reply=Balance)
        assert_type(applied.reply, Balance)
        await world.send(Raised("a"))
        await world.send(Closed("a"), id="c1")
        await world.send(("Opened", {"id": "a"}))


def typed_sync() -> None:
    with cellule.open_sync("data", app=app) as store:
        world = store.world("w")
        assert_type(world.cell(account, "a").state(), Account | None)
        assert_type(world.send(Opened("a"), reply=Balance).reply, Balance)


def typed_tests() -> None:
    world = World(app)
    world.send(Opened("a"))
    assert_type(world.state(account, "a"), Account | None)
    assert_type(world.cell(account, "a").state, Account | None)
"""

WRONG = {
    'await world.send("nonsense")': "a text",
    "await world.send(5)": "a number",
    "await world.send({})": "a dict",
    "await world.send(Opened)": "the class",
    "await world.send(None)": "nothing",
    'world.send_nowait("nonsense")': "a text without waiting",
    'World(app).send("nonsense")': "a text to a test's world",
    'Step(Account(), emit=["nonsense"])': "a text emitted",
    "charge(Balance(1))": "params of another class",
    '(await world.send(Opened("a"), reply=Balance)).reply.nothing': "a reply's missing field",
    'world.cell(account, "a").missing': "a missing method of a cell",
}


def pages() -> Iterator[tuple[str, str, str]]:
    """Folder, file and text of everything that users read."""
    for page in [ROOT / "README.md", *PAGES]:
        folder = page.stem.replace("-", "_").lower()
        files: dict[str, str] = {}
        if page.name in GIVEN:
            files = {"shop.py": (EXAMPLES / "00-orders/shop.py").read_text(), "page.py": GIVEN[page.name]}
        for block in _BLOCK.findall(page.read_text()):
            named = _FILE.match(block)
            name = named[1] if named else "page.py"
            files[name] = files.get(name, "") + block
        for name, text in files.items():
            yield folder, name, text
    for path in sorted(EXAMPLES.glob("*/*.py")):
        yield f"example_{path.parent.name[:2]}", path.name, path.read_text()
    for path in TEMPLATE.glob("*.py.txt"):
        yield "template", path.name.removesuffix(".txt"), Template(path.read_text()).substitute(name="shop")


def wrong() -> str:
    """The typed module with every mistake in a line of its own."""
    head = "async def wrong(store: Cellule) -> None:\n    world = await store.world('w')\n"
    return f"{TYPED}\n\nfrom cellule.host.service import Cellule\n\n\n{head}" + "".join(
        f"    {line}\n" for line in WRONG
    )


def mypy(folder: Path) -> list[tuple[int, str]]:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder.parent / ".mypy"), "."],
        cwd=folder, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"^(.*?):(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    return [
        (int(line), f"{file}:{line}: {text}")
        for file, line, text in found
        if not (_TEST.match(file) and "[no-untyped-def]" in text)
    ]


def pyright(folder: Path) -> list[tuple[int, str]]:
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    done = subprocess.run(
        [Path(sys.executable).parent / "basedpyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=folder, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [each for each in found if each["severity"] == "error"]
    lines = [(each["range"]["start"]["line"] + 1, each) for each in errors]
    return [(line, f"{each['file']}:{line}: {each['message']}") for line, each in lines]


CHECKERS = {"mypy": mypy, "pyright": pyright}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One folder for each page, example and the template."""
    root = tmp_path_factory.mktemp("types")
    found: dict[str, Path] = {}
    for folder, name, text in pages():
        path = root / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        found[folder] = root / folder
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("checker", CHECKERS)
def test_all_code_that_users_read_is_typed(folders, checker):
    problems = [text for folder in folders.values() for _, text in CHECKERS[checker](folder)]
    assert len(folders) > 10
    assert problems == []


@pytest.mark.parametrize("checker", CHECKERS)
def test_handles_replies_and_receipts_have_the_types_of_the_app(tmp_path, checker):
    (tmp_path / "typed.py").write_text(TYPED)
    assert CHECKERS[checker](tmp_path) == []


@pytest.mark.parametrize("checker", CHECKERS)
def test_what_is_no_event_is_a_type_error(tmp_path, checker):
    text = wrong()
    (tmp_path / "typed.py").write_text(text)
    lines = {line for line, _ in CHECKERS[checker](tmp_path)}
    written = text.splitlines()
    missed = [each for each in WRONG if written.index(f"    {each}") + 1 not in lines]
    assert missed == []
    assert len(lines) == len(WRONG)
