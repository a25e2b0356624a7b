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
    document = read(write({"meta": {"format": 1}, "ops": [{"id": "o", "script": []}]}))
    assert [case.id for case in document.ops] == ["o"]
    assert document.agenda == []


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ([], "got `array`"),
        ({"agenda": 5}, "$.agenda"),
        ({"agenda": [{"id": "x"}]}, "`$.agenda[0]`"),
        ({"odd": []}, "no section 'odd'"),
        ({"meta": {"format": 2}}, "`meta.format` is 2"),
        ({"ops": [{"id": "o", "script": [{"do": "jump"}]}]}, "`$.ops[0].script[0].do`"),
        ({"ops": [{"id": "o", "script": [{"do": "start"}]}]}, "`$.ops[0].script[0]`"),
        ({"wallclock": [{"id": "w", "script": [{"do": "select"}]}]}, "`$.wallclock[0].script[0].do`"),
        ({"ttl": [{"id": "t", "context": {"issued_beat": "1"}, "expect": {}}]}, "context.issued_beat"),
        ({"agenda": [{**AGENDA, "register": [3]}]}, "`$.agenda[0].register`"),
        ({"agenda": [{**AGENDA, "beats": [{"register": [3]}], "expect": [{}]}]}, "beats[0].register"),
        ({"agenda": [{**AGENDA, "expect": [{}]}]}, "1 expectations for 0 beats"),
        (
            {"agenda": [{**AGENDA, "enzymes": [{"id": 0, "name": "a", "query": "/", "match": "some"}]}]},
            "`$.agenda[0].enzymes[0].match`",
        ),
        (
            {"agenda": [{**AGENDA, "enzymes": [{"id": 0, "name": "a", "query": "/", "match": "exact"}] * 2}]},
            "two enzymes have one id",
        ),
    ],
)  # fmt: skip
def test_a_malformed_file_is_refused_with_the_place(write, document, place):
    with pytest.raises(Rejected) as refused:
        read(write(document))
    assert refused.value.code == "testing.vectors_malformed"
    assert place in str(refused.value)


@pytest.mark.parametrize(
    "action",
    [
        {"do": "jump", "call": 1},
        {"do": "register", "call": 1, "enzyme": 7},
        {"do": "bind", "call": 1, "path": "/a"},
        {"do": "unbind", "call": 1, "name": "a"},
    ],
)
def test_a_malformed_action_is_refused_with_the_place(write, action):
    enzyme = {"id": 0, "name": "a", "query": "/", "match": "exact", "actions": [action]}
    with pytest.raises(Rejected) as refused:
        read(write({"agenda": [{**AGENDA, "enzymes": [enzyme]}]}))
    assert "`$.agenda[0].enzymes[0].actions[0]`" in str(refused.value)


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
    document = read(
        write({"wallclock": [{"id": "one", "script": script}, {"id": "two", "script": script[:1]}]})
    )

    def perform(case):
        if case.id == "two":
            raise ValueError("broken")
        return [0] * 7

    one, two = run(document, {"wallclock": perform})
    assert one.failures[0] == "line 1 (lookup): expected 1, actual 0"
    assert one.failures[-1] == "and 1 more places"
    assert two.failures == ["it ended with ValueError: broken"]
