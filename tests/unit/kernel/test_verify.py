"""Verify and check: code that changed, journals that lie."""

from __future__ import annotations

import pytest

from cellule.errors import Corrupted, Rejected
from cellule.kernel.items import EventItem
from cellule.kernel.journal.codes import DROPPED
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import StepRecord
from cellule.kernel.need import drive
from cellule.kernel.program import CODE_UNAVAILABLE
from cellule.kernel.prove.check import Position, check_frames
from cellule.kernel.prove.verify import Verifier
from cellule.kernel.world import World
from cellule.values.cbor import decode, encode
from tests.support.enzyme_world import EnzymeWorld
from tests.support.frames import with_change, with_header, with_row
from tests.support.kernel_world import Did, FunctionPrograms, KernelWorld


def paid(order: str = "o1") -> EventItem:
    return EventItem("shop/Paid@1", encode({"order": order}))


@pytest.mark.parametrize(
    ("changed", "field", "recorded", "computed"),
    [
        (lambda *_: {"total": 9, "paid": True, "seen": 1}, "state.total", 0, 9),
        (lambda *_: Did({"total": 0, "paid": True, "seen": 1}), "ann", encode({"note": "paid"}), None),
        (lambda *_: Did(None), "status", "OK", "DELETED"),
        (
            lambda *_: Did(
                {"total": 0, "paid": True, "seen": 1},
                ann={"note": "paid"},
                emit=[("shop/Paid@1", {"order": "z"})],
            ),
            "emitted[0]",
            None,
            {"depth": 1, "schema": "shop/Paid@1", "value": {"order": "z"}, "targets": [("shop/Order", b"z")]},
        ),
    ],
)
def test_the_first_difference_names_field_and_both_values(world, changed, field, recorded, computed):
    beat = world.beat([paid()])
    world.programs.steps, kept = {**world.programs.steps, "shop/Order": changed}, world.programs.steps
    difference = world.verify()
    world.programs.steps = kept
    assert (difference.field, difference.recorded, difference.computed) == (field, recorded, computed)
    assert difference.height == beat.steps[0].height
    assert difference.cell == ("shop/Order", b"o1")
    assert difference.event == (beat.first, "shop/Paid@1")
    assert str(difference.world) in str(difference)
    assert "shop/Order@1" in str(difference)


@pytest.mark.parametrize(
    ("ann", "field", "before", "after"),
    [
        ({"list": [1, 2, 4]}, "ann.list[2]", 3, 4),
        ({"list": [1, {"a": 2}, 3]}, "ann.list[1]", 2, {"a": 2}),
        ({"list": [1, 2]}, "ann.list", [1, 2, 3], [1, 2]),
    ],
)
def test_the_first_difference_names_the_place_in_a_list(monkeypatch, world, ann, field, before, after):
    def note(ann):
        steps = {"shop/Order": lambda *_: Did({"total": 0, "paid": True, "seen": 1}, ann=ann)}
        monkeypatch.setattr(world.programs, "steps", steps)

    note({"list": [1, 2, 3]})
    world.beat([paid()])
    note(ann)
    difference = world.verify()
    assert (difference.field, difference.recorded, difference.computed) == (field, before, after)
    note({"list": [1, 2, 3]})


def test_unchanged_code_verifies(world):
    world.beat([paid(), paid("o2")])
    assert world.verify() is None


def test_a_verification_says_how_many_steps_it_ran(world):
    world.beat([paid(), paid("o2")])
    world.send("shop/Failed@1", {"order": "o1", "why": "no"})
    world.settle()
    verifier = Verifier()
    drive_restore(world, verifier)
    steps = [each for data in world.frames for each in decode_frame(data).records if type(each) is StepRecord]
    assert len(steps) == 4
    assert (verifier.steps, verifier.skipped, verifier.not_run.total()) == (4, 0, 0)


def drive_restore(world, verifier):
    restoring = World.restore(world.snapshots[0][1], world.world_id, world.programs)
    opened = drive(restoring.open(verifier.witness), restoring.nodes, world.fetch)
    for frame in world.frames:
        drive(opened.apply(frame), restoring.nodes, world.fetch)


@pytest.mark.parametrize("extras", [{"timed_out": True}, {"code": CODE_UNAVAILABLE}])
def test_a_step_that_says_something_about_a_machine_is_not_run_again(world, extras):
    world.send("shop/Failed@1", {"order": "o1", "why": "no"})
    failed = world.frames[-1]
    position = next(
        at for at, record in enumerate(decode_frame(failed).records) if isinstance(record, StepRecord)
    )
    changed = with_change(failed, position, lambda fields: fields["extras"].update(extras))
    verifier = Verifier()
    world._restore(0, [*world.frames[:-1], changed], verifier.witness)
    assert (verifier.steps, verifier.skipped) == (0, 1)


class Leaking(FunctionPrograms):
    """A program whose steps see what an earlier one left in memory."""

    def program(self, manifest, module, nodes):
        made = yield from super().program(manifest, module, nodes)
        left = []

        def step(state, schema, event, ctx):
            left.append(event)
            return {"total": len(left), "paid": True, "seen": 1}

        made._step, made.forget = step, left.clear
        return made


def test_what_a_program_kept_in_memory_is_seen(shop):
    world = KernelWorld(shop(), Leaking({"shop/Order": None}))
    for _ in range(2):
        world.beat([paid()])
    assert world.state("shop/Order", b"o1")["total"] == 2
    difference = world.verify()
    assert (difference.field, difference.recorded, difference.computed) == ("state.total", 2, 1)


def test_what_an_enzyme_kept_in_memory_is_seen():
    left = []

    def remembering(call, tree):
        left.append(call.beat)
        return len(left)

    class Remembering(FunctionPrograms):
        def program(self, manifest, module, nodes):
            made = yield from super().program(manifest, module, nodes)
            made.forget = left.clear
            return made

    world = EnzymeWorld({"x": remembering})
    world.programs = Remembering(world.programs.steps)
    world.world = world.restored()
    world.register("x")
    for _ in range(3):
        world.signal("/s")
        world.tick()
    left.clear()
    difference = world.verify()
    assert (difference.field, difference.recorded, difference.computed) == (
        "lines", [[0, 2, True]], [[0, 1, True]],
    )  # fmt: skip


class Missing(FunctionPrograms):
    """Programs of which none can be loaded here, each for a reason of its own."""

    def program(self, manifest, module, nodes):
        raise Rejected("test.library", "the library of {module} is not here", module=module.base)
        yield


@pytest.mark.parametrize(
    ("most", "reasons"), [(2, ["shop/Order", "shop/Stats"]), (1, ["other reasons", "shop/Order"])]
)
def test_steps_whose_code_cannot_be_loaded_here_are_counted_by_the_reason(world, monkeypatch, most, reasons):
    monkeypatch.setattr("cellule.kernel.prove.verify.REASONS_MAX", most)
    world.beat([paid()])
    world.send("shop/Placed@1", {"order": "o1", "total": 1})
    kept, world.programs = world.programs, Missing({})
    verifier = Verifier()
    drive_restore(world, verifier)
    world.programs = kept
    assert (verifier.steps, verifier.skipped, verifier.difference) == (0, 0, None)
    assert verifier.not_run.total() == 3
    found = sorted(verifier.not_run)
    assert len(found) == len(reasons)
    assert all(reason in each for reason, each in zip(reasons, found, strict=True))


CASES = {
    "a gap": (lambda data, prev: _moved(data, prev.header.last + 5), "kernel.chain_gap"),
    "another predecessor": (lambda data, _: with_header(data, prev=bytes(32)), "kernel.chain_broken"),
    "time going back": (lambda data, _: with_header(data, now_ns=1), "kernel.chain_time"),
    "a skipped beat": (lambda data, prev: with_header(data, beat=prev.header.beat + 2), "kernel.chain_time"),
    "cut bytes": (lambda data, _: data[:-1], "kernel.frame_damaged"),
    "no frame": (lambda *_: encode({"a": 1}), "kernel.frame_damaged"),
    "a lying length": (lambda data, _: _longer(data), "kernel.frame_damaged"),
    "no format": (lambda data, _: data.replace(b"fformat\x00", b"fformat\x20"), "kernel.frame_format"),
    "an unknown kind": (lambda data, _: with_row(data, 0, [99, 0, None]), "kernel.record_kind"),
    "a short record": (lambda data, _: with_row(data, 0, [1, 0, None]), "kernel.frame_damaged"),
    "a cause in the future": (lambda data, _: _field(data, 1, "cause", 10_000), "kernel.frame_damaged"),
    "a step out of turn": (lambda data, _: _field(data, 1, "key", b"other"), "kernel.journal_contradicts"),
    "a step of another message": (lambda data, _: _field(data, 1, "cause", 1), "kernel.journal_contradicts"),
    "a step with a wrong history": (lambda data, _: _field(data, 1, "prev", 1), "kernel.journal_contradicts"),
    "a step of an unknown end": (lambda data, _: _field(data, 1, "status", 99), "kernel.journal_contradicts"),
    "a step that a person ended and nobody did": (
        lambda data, _: _field(data, 1, "status", DROPPED),
        "kernel.journal_contradicts",
    ),
    "a step of an era to come": (lambda data, _: _field(data, 1, "era", 1), "kernel.journal_contradicts"),
    "a name beyond the table": (lambda data, _: _field(data, 1, "module", 77), "kernel.frame_damaged"),
}


def _moved(data, first):
    return with_header(data, first=first, last=first + len(decode_frame(data).records) - 1)


def _longer(data):
    return with_header(data, last=decode_frame(data).header.last + 1)


def _field(data, position, field, value):
    return with_change(data, position, lambda fields: fields.update({field: value}))


@pytest.mark.parametrize("case", CASES)
def test_a_lying_frame_is_corrupted_with_its_place(world, case):
    world.beat([paid()])
    tamper, code = CASES[case]
    frames = [*world.frames[:-1], tamper(world.frames[-1], decode_frame(world.frames[-2]))]
    with pytest.raises(Corrupted) as caught:
        world.restored(frames=frames)
    assert caught.value.code == code


def test_check_finds_a_broken_chain(world):
    world.beat([paid()])
    world.beat([paid()])
    with pytest.raises(Corrupted) as caught:
        list(check_frames([world.frames[0], world.frames[2]], Position(0, None)))
    assert caught.value.code == "kernel.chain_gap"


def _saved(world, **changes):
    from cellule.values.cid import cid_of

    saved = {**decode(world.cas[world.snapshot()]), **changes}
    data = encode({name: value for name, value in saved.items() if value != "gone"})
    world.cas[cid_of(data)] = data
    return cid_of(data)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"format": "0"}, "kernel.snapshot_format"),
        ({"height": -1}, "kernel.snapshot_damaged"),
        ({"surprise": 1}, "kernel.snapshot_damaged"),
        ({"timers": "gone"}, "kernel.snapshot_damaged"),
    ],
)
def test_a_bad_snapshot_never_half_opens(world, changes, code):
    from cellule.kernel.need import drive

    root = _saved(world, **changes)
    restoring = World.restore(root, world.world_id, world.programs)
    with pytest.raises(Corrupted) as caught:
        drive(restoring.open(), restoring.nodes, world.fetch)
    assert caught.value.code == code


def test_bytes_of_a_newer_format_are_not_called_damaged(world):
    """A world that a newer Cellule wrote needs that Cellule, not a restore from a backup."""
    from cellule.kernel.need import drive

    restoring = World.restore(_saved(world, format=9, surprise=1), world.world_id, world.programs)
    with pytest.raises(Rejected) as caught:
        drive(restoring.open(), restoring.nodes, world.fetch)
    assert caught.value.code == "kernel.format_newer"
    assert "newer Cellule is needed" in str(caught.value)

    world.beat([paid()])
    newer = world.frames[-1].replace(b"fformat\x00", b"fformat\x07")
    with pytest.raises(Rejected) as caught:
        world.restored(frames=[*world.frames[:-1], newer])
    assert caught.value.code == "kernel.format_newer"


def test_a_missing_node_is_named(world):
    world.beat([paid()])
    root = world.snapshot()
    world.snapshots[-1] = (0, root, len(world.frames))
    link = decode(world.cas[root])["modules"]["shop/Order"][0]
    kept = world.cas.pop(link.cid)
    restored = world.restored(len(world.snapshots) - 1)
    answer = restored.look("shop/Order", b"o1")
    with pytest.raises(Corrupted, match=str(link.cid)):
        restored.resume(world.fetch(answer.cids))
    world.cas[link.cid] = kept
