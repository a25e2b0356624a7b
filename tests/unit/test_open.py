"""`cellule.open` refuses what it cannot mean, before anything is made."""

from __future__ import annotations

import asyncio
import sys

import pytest

import cellule
from cellule import App, Rejected


def test_a_way_to_deploy_that_does_not_exist_is_refused_with_those_that_do(tmp_path):
    with pytest.raises(Rejected, match="deploy is 'sometimes'; it is auto, require or never"):
        cellule.open(tmp_path / "data", App("a"), deploy="sometimes")
    assert list(tmp_path.iterdir()) == []


app = App("here")


def test_a_module_in_place_of_its_app_is_refused_with_the_app_in_it(tmp_path):
    here = sys.modules[__name__]
    with pytest.raises(Rejected, match=rf"app is the module .*Write app={here.__name__}.app\."):
        cellule.open(tmp_path / "data", here)
    with pytest.raises(Rejected, match="app is a str"):
        cellule.open(tmp_path / "data", "shop.py:app")
    assert list(tmp_path.iterdir()) == []


async def send(params: int) -> int:
    return params


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"session_ttl_s": 20}, "options is a dict, not cellule.Options"),
        (cellule.Options(adapters=[send]), "is no adapter. Decorate an async function"),
    ],
)
def test_options_of_another_kind_are_refused_before_anything_is_made(tmp_path, options, told):
    """An `AttributeError` from inside was told."""
    with pytest.raises(Rejected, match=told):
        cellule.open(tmp_path / "data", app, options=options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_beats_that_count_without_a_pause_are_refused(seconds):
    async def main() -> None:
        async with cellule.open("memory:", options=cellule.Options(beat_interval_s=seconds)):
            raise AssertionError("it was opened")

    with pytest.raises(cellule.Rejected) as refused:
        asyncio.run(main())
    assert refused.value.code == "host.option"
