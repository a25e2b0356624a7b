"""Names: what is one, what is not, and which part is wrong."""

from __future__ import annotations

import pytest

from cellule.errors import Rejected
from cellule.values import ModuleName, Name, check_not_reserved


@pytest.mark.parametrize(
    "text",
    [
        "com.acme/OrderSM@2",
        "sys/TimerFired@1",
        "com.acme/charge_flow@3",
        "a/b@1",
        "A-1.b_2.3c/_x-9@4294967295",
    ],
)
def test_a_name_is_read_and_written_the_same(text):
    name = Name.parse(text)
    assert str(name) == text
    assert str(name.base) == text.partition("@")[0]
    assert ModuleName.parse(str(name.base)).at(name.version) == name


def test_the_parts_of_a_name_are_at_hand():
    name = Name.parse("com.acme/Order@12")
    assert (name.namespace, name.local, name.version) == ("com.acme", "Order", 12)
    assert name.base == ModuleName("com.acme", "Order")


@pytest.mark.parametrize(
    ("text", "code", "part"),
    [
        ("", "names.malformed", "no namespace"),
        ("Order@1", "names.malformed", "no namespace"),
        ("/Order@1", "names.malformed", "namespace ''"),
        ("com..acme/Order@1", "names.malformed", "namespace 'com..acme'"),
        (".com/Order@1", "names.malformed", "namespace '.com'"),
        ("com.acme./Order@1", "names.malformed", "namespace 'com.acme.'"),
        ("com acme/Order@1", "names.malformed", "namespace 'com acme'"),
        ("-com/Order@1", "names.malformed", "namespace '-com'"),
        ("com.ácme/Order@1", "names.malformed", "namespace"),
        ("com/@1", "names.malformed", "local name ''"),
        ("com/a/b@1", "names.malformed", "local name 'a/b'"),
        ("com/9order@1", "names.malformed", "local name '9order'"),
        ("com/Order.x@1", "names.malformed", "local name 'Order.x'"),
        ("com/Größe@1", "names.malformed", "local name"),
        ("com/Order\n@1", "names.malformed", "local name"),
        ("com/Order", "names.version", "no version"),
        ("com/Order@", "names.version", "version ''"),
        ("com/Order@0", "names.version", "version '0'"),
        ("com/Order@01", "names.version", "version '01'"),
        ("com/Order@-1", "names.version", "version '-1'"),
        ("com/Order@1.0", "names.version", "version '1.0'"),
        ("com/Order@1@2", "names.version", "version '1@2'"),
        ("com/Order@ 1", "names.version", "version ' 1'"),
        ("com/Order@1\n", "names.version", "version"),
        ("com/Order@²", "names.version", "version"),
        ("com/Order@4294967296", "names.version", "version '4294967296'"),
        ("com/Order@" + "9" * 5_000, "names.version", "version"),
        ("c" * 129 + "/Order@1", "names.too_long", "129 characters"),
        ("com/" + "o" * 129 + "@1", "names.too_long", "129 characters"),
        (None, "names.malformed", "NoneType"),
        (b"com/Order@1", "names.malformed", "bytes"),
    ],
)
def test_what_is_no_name_is_refused_with_the_part_that_is_wrong(text, code, part):
    with pytest.raises(Rejected) as caught:
        Name.parse(text)
    assert caught.value.code == code
    assert part in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("text", "code"),
    [("com/Order@1", "names.version"), ("Order", "names.malformed"), ("com/", "names.malformed")],
)
def test_what_is_no_name_without_version_is_refused(text, code):
    with pytest.raises(Rejected) as caught:
        ModuleName.parse(text)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "parts", [("", "a", 1), ("a", "", 1), ("a", "b", 0), ("a", "b", True), ("a", "b", "1"), ("a", "b", 2**32)]
)
def test_a_name_made_of_parts_is_checked_as_well(parts):
    with pytest.raises(Rejected):
        Name(*parts)


def test_names_are_keys_and_sort_by_namespace_name_and_number():
    texts = ["a.b/C@1", "a/B@2", "a/B@10", "a/b@1", "b/A@1"]
    names = [Name.parse(text) for text in texts]
    assert [str(name) for name in sorted(names, reverse=True)][::-1] == [
        "a/B@2",
        "a/B@10",
        "a/b@1",
        "a.b/C@1",
        "b/A@1",
    ]
    assert len({*names, *names}) == len(names)


@pytest.mark.parametrize("text", ["sys/Context@1", "sys.internal/X@1"])
def test_the_namespace_sys_is_reserved(text):
    name = Name.parse(text)
    assert name.is_reserved
    for reserved in (name, name.base):
        with pytest.raises(Rejected) as caught:
            check_not_reserved(reserved)
        assert caught.value.code == "names.reserved"


@pytest.mark.parametrize("text", ["system/Context@1", "Sys/X@1", "com.sys/X@1"])
def test_names_that_resemble_sys_are_free(text):
    check_not_reserved(Name.parse(text))
