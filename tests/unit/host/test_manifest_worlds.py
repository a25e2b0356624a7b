"""Worlds from manifest documents: made, sent to and deployed to without an app."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cellule.errors import Parked, Rejected
from cellule.host.manifest_document import read_document
from cellule.host.service import Cellule
from cellule.kernel.journal.records import ControlRecord
from cellule.kernel.programs import ProgramKinds
from cellule.modules.plan import PlanPrograms
from cellule.modules.python import PythonPrograms
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.values import cid_of, decode, encode
from cellule.values.json_view import to_json
from tests.support.nodes import check_store, open_node
from tests.support.template_kind import TemplateKind

FIXTURES = Path(__file__).parents[2] / "fixtures" / "manifests"
MISSING = str(cid_of(b"code that nobody has", "raw"))
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]" for at in range(1, 9)
)
"""Nine aliases of nine aliases, and so on: 300 bytes that say 387 million values."""
NOTES, CODE = FIXTURES / "notes.yaml", FIXTURES / "notes"


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
async def node(disk: MemoryDisk) -> AsyncIterator[Cellule]:
    """A node that was opened without an app; every world of it is proven at the end."""
    async with opened(disk) as found:
        yield found


@asynccontextmanager
async def opened(
    disk: MemoryDisk, *, with_templates: bool = True, owner: bool = True
) -> AsyncIterator[Cellule]:
    python = PythonPrograms(limit_s=None)
    whole = ProgramKinds(python, PlanPrograms(), TemplateKind())
    try:
        programs = whole if with_templates else ProgramKinds(python, PlanPrograms())
        async with open_node(MemoryEngine(disk), None, programs, owner=owner) as found:
            yield found
        await check_store(MemoryEngine(disk), whole)
    finally:
        python.close()


def notes(**changes: Any) -> dict[str, Any]:
    """The document of notes, with other fields of its module."""
    document = dict(read_document(NOTES))
    module = document["modules"]["notes/note@1"]
    return {**document, "modules": {"notes/note@1": {**module, **changes}}}


async def test_a_world_is_made_from_a_yaml_file_and_a_folder_of_code(node):
    await node.create_world("n", manifest=NOTES, code=CODE)
    world = await node.world("n")
    sent = await world.send(("notes/Opened@1", {"note_id": "a", "title": " milk "}), wait="reply")
    assert sent.reply == "opened"
    assert await world.cell("notes/note", "a").state() == {"title": "Milk", "open": True}


async def test_a_world_from_a_document_is_opened_again_without_document_and_code(disk):
    async with opened(disk) as node:
        await node.create_world("n", manifest=notes(), code=CODE)
        await (await node.world("n")).send(("Opened", {"note_id": "a", "title": "x"}))
    async with opened(disk) as node:
        world = await node.world("n")
        await world.send(("Closed", {"note_id": "a"}))
        assert await world.cell("note", "a").state() == {"title": "X", "open": False}


async def test_json_and_yaml_and_a_map_give_the_same_manifest(node, tmp_path):
    file = tmp_path / "notes.json"
    file.write_text(json.dumps(read_document(NOTES)))
    for name, document in (("a", NOTES), ("b", file), ("c", read_document(NOTES))):
        await node.create_world(name, manifest=document, code=str(CODE))
    cids = {(await manifest_of(node, name)).cid for name in "abc"}
    assert len(cids) == 1


async def manifest_of(node: Cellule, name: str) -> Any:
    hosted = await node.node.hosted((await node.world(name)).info)
    return hosted.world.eras.current.manifest


async def test_the_json_view_of_a_stored_manifest_makes_another_world_without_its_code(node):
    await node.create_world("a", manifest=NOTES, code=CODE)
    stored = await manifest_of(node, "a")
    view = json.loads(json.dumps(to_json(decode(stored.data))))
    await node.create_world("b", manifest=view)
    assert (await manifest_of(node, "b")).cid == stored.cid


async def test_an_untrusted_program_runs_in_a_world_from_a_document(node, tmp_path):
    template = {"state": {"title": {"$": "event.title"}, "open": True}, "reply": 1}
    (tmp_path / "note.template").write_bytes(encode({"notes/Opened@1": template}))
    code = {"kind": "template", "file": "note.template"}
    await node.create_world("n", manifest=notes(code=code, key={"text": {}}), code=tmp_path)
    world = await node.world("n")
    sent = await world.send(("Opened", {"note_id": "a", "title": "x"}), wait="reply")
    assert sent.reply == 1
    assert await world.cell("note", "a").state() == {"title": "x", "open": True}


async def test_a_node_that_lacks_a_kind_reads_a_world_and_does_not_open_it(disk, tmp_path):
    (tmp_path / "note").write_bytes(encode({"notes/Opened@1": {"state": {"title": "x", "open": True}}}))
    code = {"kind": "template", "file": "note"}
    event = ("Opened", {"note_id": "a", "title": "x"})
    async with opened(disk) as node:
        await node.create_world("n", manifest=notes(code=code, key={"text": {}}), code=tmp_path)
        await (await node.world("n")).send(event)
    async with opened(disk, with_templates=False, owner=False) as node:
        world = await node.world("n")
        assert await world.cell("note", "a").state() == {"title": "x", "open": True}
    async with opened(disk, with_templates=False) as node:
        with pytest.raises(Rejected, match="kind 'template'; this node runs: plan, python, python-live"):
            await node.world("n")


@pytest.mark.parametrize("name", ["keyed_reducers.json", "keyed_workflows.json"])
async def test_the_documents_of_the_design_make_worlds_as_they_are_written(node, name):
    written = json.loads((FIXTURES / name).read_text())
    await node.create_world("w", manifest=written)
    world = await node.world("w")
    event = {
        "keyed_reducers.json": ("ChargeRequested", {"key": "k", "order_id": "o"}),
        "keyed_workflows.json": ("Event", {"$tag": "Opened", "$value": {"note_id": "k"}}),
    }[name]
    with pytest.raises(Parked, match="has no code"):
        await world.send(event)
    with pytest.raises(Parked, match="needs code"):
        await world.send(event)


# Deploys


async def test_a_deploy_says_what_changed_and_is_journaled_with_who_and_why(node):
    await node.create_world("n", manifest=NOTES, code=CODE)
    world = await node.world("n")
    changed = notes(failure="skip")
    changed["modules"]["notes/note@1"]["code"] = (await manifest_of(node, "n")).modules["notes/note"].code
    before = await world.head()
    dry = await node.deploy_world("n", manifest=changed, dry_run=True)
    assert (await world.head()).height == before.height
    change = await node.deploy_world("n", manifest=changed, who="ada", why="less noise")
    assert change == dry
    assert {each.what for each in change.changes} >= {"failure changed"}
    controls = [record async for record in controls_of(world)]
    assert ("deploy", "ada", "less noise") in controls


async def controls_of(world: Any) -> AsyncIterator[tuple[str, str, str]]:
    async for frame in world.frames():
        for _, record in frame.of(ControlRecord):
            yield record.verb, record.who, record.why


async def test_a_deploy_that_cells_cannot_follow_is_refused_with_the_reasons(node):
    await node.create_world("n", manifest=NOTES, code=CODE)
    world = await node.world("n")
    await world.send(("Opened", {"note_id": "a", "title": "x"}))
    other = dict(read_document(FIXTURES / "keyed_workflows.json"))
    dry = await node.deploy_world("n", manifest=other, dry_run=True)
    assert not dry.compatible
    with pytest.raises(Rejected, match="notes/note@1 is no longer there: its cells"):
        await node.deploy_world("n", manifest=other)
    await world.send(("Closed", {"note_id": "a"}))


async def test_events_are_checked_against_the_manifest_that_was_deployed(node):
    await node.create_world("n", manifest=NOTES, code=CODE)
    world = await node.world("n")
    with pytest.raises(Rejected, match="Filed"):
        await world.send(("Filed", {"note_id": "a"}))
    document = notes()
    document["schemas"] = {**document["schemas"], "notes/Filed@1": {"record": {"note_id": {"text": {}}}}}
    document["modules"]["notes/File@1"] = {"state": "notes/Filed@1"}
    document["routing"] = {
        "subscriptions": [
            *document["routing"]["events"],
            {"event": "notes/Filed@1", "module": "notes/File", "key_field": "note_id"},
        ]
    }
    await node.deploy_world("n", manifest=document, code=CODE)
    with pytest.raises(Parked):
        await world.send(("Filed", {"note_id": "a"}))


async def test_the_same_manifest_is_deployed_only_once(node):
    await node.create_world("n", manifest=NOTES, code=CODE)
    world = await node.world("n")
    before = await world.head()
    change = await node.deploy_world("n", manifest=NOTES, code=CODE)
    assert change.identical
    assert (await world.head()).height == before.height


# Documents that cannot be taken


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.json", "{", "cannot be read"),
        ("a.json", "[]", "a map is needed, not list"),
        ("a.json", '{"schemas": {}, "schemas": {}}', "'schemas' stands twice"),
        ("a.json", '{"n": NaN}', "NaN is no JSON number"),
        ("a.yaml", "a: [", "cannot be read"),
        ("a.yaml", "a: 1\na: 2", "'a' stands twice"),
        ("a.yaml", BOMB, "over 1000000 values"),
        ("a.yaml", "&a {b: *a}", "nests more than 128 levels"),
        ("a.yaml", "{[1, 2]: 3}", "unhashable"),
        ("a.json", '{"modules": ' + '{"a": ' * 900 + "1" + "}" * 901, "nests more than 128 levels"),
        ("a.yml", "!!python/object/apply:os.getcwd []", "cannot be read"),
        ("a.yaml", "", "a map is needed, not NoneType"),
        ("a.toml", "", "does not end in .json"),
    ],
)
async def test_a_file_that_is_no_document_is_refused_with_its_name(node, tmp_path, name, text, problem):
    (tmp_path / name).write_text(text)
    with pytest.raises(Rejected, match=problem) as caught:
        await node.create_world("n", manifest=tmp_path / name)
    assert name in str(caught.value)
    assert await node.worlds() == []


async def test_a_file_that_is_missing_and_one_that_is_too_long_are_refused(node, tmp_path, monkeypatch):
    with pytest.raises(Rejected, match=r"none\.json cannot be read"):
        await node.create_world("n", manifest=tmp_path / "none.json")
    monkeypatch.setattr("cellule.host.manifest_document.DOCUMENT_BYTES_MAX", 3)
    with pytest.raises(Rejected, match="at most 3"):
        await node.create_world("n", manifest=NOTES)


@pytest.mark.parametrize(
    ("code", "folder", "problem"),
    [
        (
            {"kind": "wasm", "hash": "00"},
            CODE,
            r"kind 'wasm'; this node runs: plan, python, python-live, template",
        ),
        ({"kind": "python", "entry": "notes:note", "namespace": "notes"}, None, "in which folder"),
        ({"kind": "python", "entry": "gone:note", "namespace": "notes"}, CODE, "gone"),
        ({"kind": "python", "entry": "notes:gone", "namespace": "notes"}, CODE, "gone"),
        ({"kind": "python", "entry": "notes", "namespace": "notes"}, CODE, "entry"),
        ({"kind": "python", "entry": "notes:note", "namespace": "notes"}, NOTES, "is no folder"),
        ({"kind": "template", "blob": {"/": MISSING}}, None, "not in the store"),
        ({"kind": "python", "entry": "notes:note", "namespace": "other"}, CODE, "takes notes/"),
    ],
)
async def test_code_that_cannot_run_is_refused_before_a_world_is_made(node, code, folder, problem):
    with pytest.raises(Rejected, match=problem):
        await node.create_world("n", manifest=notes(code=code), code=folder)
    assert await node.worlds() == []


async def test_a_node_without_app_says_what_a_new_world_needs(node):
    with pytest.raises(Rejected, match="an app or a manifest") as caught:
        await node.create_world("n")
    assert caught.value.code == "host.no_app"


def test_yaml_says_what_json_says(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text('day: 2026-01-02\nmerged: &m {a: 1}\nother: {<<: *m, b: "2"}\n')
    assert read_document(file) == {"day": "2026-01-02", "merged": {"a": 1}, "other": {"a": 1, "b": "2"}}
