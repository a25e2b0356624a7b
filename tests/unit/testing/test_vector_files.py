"""Files of cases: what is read, what is refused, and what counts as expected."""

from __future__ import annotations

import json

import pytest

from cellule.errors import Rejected
from cellule.testing.vectors.document import read
from cellule.testing.vectors.report import is_as_expected, run

AGENDA = {"id": "a", "enzymes": [], "register": [], "beats": [], "expect": []}


@pytest.fixture
def write(tmp_path):
    def written(document, *, raw=None):
        path = tmp_path / "cases.json"
        path.write_bytes(json.dumps(document).encode() if raw is None else raw)
        return path

    return written


def test_a_file_without_a_section_has_no_cases_of_it(write):
    entries = read(write({"meta": {"format": 1}, "ops": [{"id": "o", "script": []}]}))
    assert [(entry.section, entry.id, entry.problem) for entry in entries] == [("ops", "o", "")]


def test_what_stands_beside_the_sections_and_is_no_list_is_passed_over(write):
    document = {"title": "some", "by": {"name": "x"}, "count": 3, "ops": [{"id": "o", "script": []}]}
    assert [(entry.section, entry.id, entry.problem) for entry in read(write(document))] == [("ops", "o", "")]


@pytest.mark.parametrize(
    ("document", "reason"),
    [([], "got `array`"), ({"meta": 5}, "got `int`"), ({"meta": {"format": 2}}, "`meta.format` is 2")],
)
def test_a_malformed_file_is_refused(write, document, reason):
    with pytest.raises(Rejected) as refused:
        read(write(document))
    assert refused.value.code == "testing.vectors_malformed"
    assert reason in str(refused.value)


ENZYME = {"id": 0, "name": "a", "query": "/"}


@pytest.mark.parametrize(
    ("document", "named", "place"),
    [
        ({"agenda": 5}, "agenda/*", "the section is no list"),
        ({"ttl": None}, "ttl/*", "the section is no list"),
        ({"odd": []}, "odd/*", "there is no such section"),
        ({"agenda": [{"id": "x"}]}, "agenda/x", "missing required field `beats`"),
        ({"agenda": [5]}, "agenda/agenda[0]", "got `int`"),
        ({"ops": [{"script": []}]}, "ops/ops[0]", "missing required field `id`"),
        ({"ops": [{"id": "o", "script": [{"do": "jump"}]}]}, "ops/o", "`$.script[0].do`"),
        ({"ops": [{"id": "o", "script": [{"do": "start"}]}]}, "ops/o", "`$.script[0]`"),
        ({"wallclock": [{"id": "w", "script": [{"do": "select"}]}]}, "wallclock/w", "`$.script[0].do`"),
        ({"ttl": [{"id": "t", "context": {"issued_beat": "1"}, "expect": {}}]}, "ttl/t", "issued_beat"),
        ({"agenda": [{**AGENDA, "register": [3]}]}, "agenda/a", "`$.register`"),
        ({"agenda": [{**AGENDA, "beats": [{"register": [3]}], "expect": [{}]}]}, "agenda/a", "beats[0].regi"),
        ({"agenda": [{**AGENDA, "expect": [{}]}]}, "agenda/a", "1 expectations for 0 beats"),
        ({"agenda": [{**AGENDA, "enzymes": [{**ENZYME, "match": "some"}]}]}, "agenda/a", "enzymes[0].match"),
        ({"agenda": [{**AGENDA, "enzymes": [ENZYME] * 2}]}, "agenda/a", "two enzymes have one id"),
    ],
)  # fmt: skip
def test_what_is_no_case_has_failed_with_the_place_and_the_others_run(write, document, named, place):
    good = {"wallclock": [{"id": "good", "script": []}]}
    merged = {**document, "wallclock": [*document.get("wallclock", []), *good["wallclock"]]}
    results = list(run(read(write(merged)), {"wallclock": lambda _: []}))
    failed = [each for each in results if each.failures]
    assert [f"{each.section}/{each.id}" for each in failed] == [named]
    assert place in failed[0].failures[0]
    assert [each.id for each in results if not each.failures] == ["good"]


@pytest.mark.parametrize(
    "action",
    [
        {"do": "jump", "call": 1},
        {"do": "register", "call": 1, "enzyme": 7},
        {"do": "bind", "call": 1, "path": "/a"},
        {"do": "unbind", "call": 1, "name": "a"},
    ],
)
def test_a_malformed_action_is_told_with_the_place(write, action):
    (entry,) = read(write({"agenda": [{**AGENDA, "enzymes": [{**ENZYME, "actions": [action]}]}]}))
    assert entry.case is None
    assert "`$.enzymes[0].actions[0]`" in entry.problem


def test_null_stands_for_what_is_left_out_but_not_where_it_is_expected(write):
    enzyme = {**ENZYME, "match": None, "before": None, "flags": None, "rc": None, "actions": None}
    beats = [{"enqueue": [{"signal": "/s", "target": None}], "register": None}]
    agenda = {"id": "a", "enzymes": [enzyme], "cells": None, "beats": beats, "expect": [{"ok": None}]}
    clock = {"id": "w", "script": [{"do": "lookup", "beat": 1, "expect": None}]}
    first, second = read(write({"agenda": [agenda], "wallclock": [clock]}))
    assert first.case.enzymes[0].match == "exact"
    assert first.case.expect == [{"ok": None}]
    assert second.case.script[0].expect is None


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b'{"agenda": [}', b"[" * 100_000])
def test_a_file_that_is_no_json_is_refused(write, raw):
    with pytest.raises(Rejected) as refused:
        read(write(None, raw=raw))
    assert refused.value.code == "testing.vectors_malformed"


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(Rejected) as refused:
        read(tmp_path / "none.json")
    assert refused.value.code == "testing.vectors_file"


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"b": 2}, False),
        ([1, 2], [1, 2], True),
        ([1], [1, 2], False),
        ([["m", 1]], [("m", 1)], True),
        (True, 1, False),
        (None, None, True),
        (None, 0, False),
        ({"signal": "op/tmo"}, {"signal": "/op/tmo"}, True),
        ({"signal": None}, {"signal": "/"}, False),
        ({"note": "op"}, {"note": "/op"}, False),
    ],
)
def test_what_counts_as_expected(expected, actual, same):
    assert is_as_expected(expected, actual) is same


def test_each_place_that_is_not_as_expected_is_told_and_the_next_case_still_runs(write):
    script = [{"do": "lookup", "beat": 1, "expect": number} for number in range(7)]
    entries = read(
        write({"wallclock": [{"id": "one", "script": script}, {"id": "two", "script": script[:1]}]})
    )

    def perform(case):
        if case.id == "two":
            raise ValueError("broken")
        return [0] * 7

    one, two = run(entries, {"wallclock": perform})
    assert one.failures[0] == "line 1 (lookup): expected 1, actual 0"
    assert one.failures[-1] == "and 1 more places"
    assert two.failures == ["expected 1 results, actual: it ended with ValueError: broken"]
