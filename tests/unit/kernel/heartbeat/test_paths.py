"""Paths: what is one, and the keys of cells that stand for them."""

from __future__ import annotations

import pytest

from cellule.errors import Rejected
from cellule.kernel.heartbeat import paths
from cellule.kernel.limits import PATH_BYTES_MAX, PATH_SEGMENTS_MAX
from cellule.kernel.manifest.limits import KEY_BYTES_MAX


def test_a_name_without_a_leading_slash_means_that_path():
    assert paths.parse_path("sig_cei/warn") == paths.parse_path("/sig_cei/warn") == "/sig_cei/warn"


def test_the_slash_alone_is_the_empty_path():
    assert paths.segments_of(paths.parse_path("/")) == ()
    assert paths.path_of(()) == "/"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("//", "a segment is empty"),
        ("/a//b", "a segment is empty"),
        ("/a/", "a segment is empty"),
        (7, "it is no text"),
        (None, "it is no text"),
        ("/\ud800", "it is no UTF-8"),
        ("/" + "a" * PATH_BYTES_MAX, f"at most {PATH_BYTES_MAX}"),
        ("/a" * (PATH_SEGMENTS_MAX + 1), f"at most {PATH_SEGMENTS_MAX}"),
    ],
)
def test_what_is_no_path_is_refused_with_the_field_and_the_reason(text, why):
    with pytest.raises(Rejected) as caught:
        paths.parse_path(text, "target")
    assert caught.value.code == "heartbeat.path"
    assert caught.value.fields["field"] == "target"
    assert why in str(caught.value)


def test_the_longest_path_and_the_most_segments_are_taken():
    longest, deepest = "/" + "a" * (PATH_BYTES_MAX - 1), "/a" * PATH_SEGMENTS_MAX
    assert paths.parse_path(longest) == longest
    assert paths.parse_path(deepest) == deepest


def test_a_path_is_below_itself_and_below_the_root_and_not_below_a_name_that_it_begins_with():
    assert paths.is_below("/a", "/a")
    assert paths.is_below("/a", "/")
    assert not paths.is_below("/ab", "/a")
    assert not paths.is_below("/a", "/a/b")


def test_keys_of_what_is_below_a_path_stand_together():
    ordered = ["/", "/a", "/a/b", "/a/b/c", "/a/c", "/a-x", "/ab", "/b"]
    keys = [paths.tree_key(path) for path in ordered]
    assert keys == sorted(keys)
    below = [path for path in ordered if paths.tree_key(path).startswith(paths.tree_prefix("/a"))]
    assert below == ["/a", "/a/b", "/a/b/c", "/a/c"]


def test_a_path_too_long_for_a_key_has_a_head_and_a_digest_and_does_not_tell_itself():
    edge = "/" + "a" * (KEY_BYTES_MAX - 1)
    long = "/" + "a" * KEY_BYTES_MAX
    assert not paths.is_long(edge)
    assert paths.path_of_key(paths.tree_key(edge)) == edge
    assert paths.is_long(long)
    assert len(paths.tree_key(long)) == KEY_BYTES_MAX
    assert paths.path_of_key(paths.tree_key(long)) is None
    assert paths.tree_key(long) != paths.tree_key(long + "a")
    assert paths.tree_key(long).startswith(paths.tree_prefix(long))
    assert paths.tree_key(long + "/below").startswith(paths.tree_prefix(long))


@pytest.mark.parametrize("key", [b"a", b"a\0b", b"\0", b"a\0\0", b"\xff\0", b"a/b\0"])
def test_bytes_that_are_no_key_of_a_path_tell_none(key):
    assert paths.path_of_key(key) is None
