"""`Retry-After` in all its forms, for every adapter that speaks HTTP."""

from __future__ import annotations

import pytest

from cellule.effects.http.response import retry_after_s
from cellule.effects.limits import HTTP_RETRY_AFTER_S_MAX

NOW_NS = 1_445_412_480_000_000_000  # Wed, 21 Oct 2015 07:28:00 GMT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:29:00 GMT"}, 60.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:00:00 GMT"}, 0.0),
        ({"retry-after": "99999999"}, HTTP_RETRY_AFTER_S_MAX),
        ({"retry-after": "Wed, 21 Oct 2099 07:28:00 GMT"}, HTTP_RETRY_AFTER_S_MAX),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({}, None),
    ],
)
def test_what_the_other_side_asks_for_is_read_within_bounds(headers, seconds):
    assert retry_after_s(headers, NOW_NS) == seconds
