"""`cellule.open` refuses what it cannot mean, before anything is made."""

from __future__ import annotations

import asyncio
import sys

import pytest

import cellule
from cellule import App, Rejected
from cellule.assembly import Options
from cellule.kernel.state.module_cells import Budget
from cellule.store.store import StoreOptions


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


def test_options_of_another_kind_are_refused_before_anything_is_made(tmp_path):
    """An `AttributeError` from inside was told."""
    with pytest.raises(Rejected, match="options is a dict, not"):
        cellule.open(tmp_path / "data", app, options={"session_ttl_s": 20})
    assert list(tmp_path.iterdir()) == []


def test_a_function_that_is_no_adapter_is_refused_where_the_options_are_made():
    with pytest.raises(Rejected, match="is no adapter"):
        Options(adapters=[send])


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_beats_that_count_without_a_pause_are_refused(seconds):
    async def main() -> None:
        async with cellule.open("memory:", options=cellule.Options(beat_interval_s=seconds)):
            raise AssertionError("it was opened")

    with pytest.raises(cellule.Rejected) as refused:
        asyncio.run(main())
    assert refused.value.code == ("host.argument" if seconds else "host.option")


WRONG = {
    "worlds_max": (None, "5", True, -1), "idle_s": (None, "x", float("nan"), -1), "own": (None, 1),
    "tail_s": (float("inf"), None), "snapshot_bytes": (None, 1.5), "stall_s": (float("inf"),),
    "collect_s": ("x", -5), "scratch": ("x", 5), "store": (None, {}), "budget": (5,),
    "secrets": (5,),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_an_option_is_refused_by_name_where_it_is_given(name):
    """`tail_s=inf` ended a node at its first snapshot, `idle_s=None` after a second."""
    for wrong in WRONG[name]:
        with pytest.raises(Rejected) as caught:
            Options(**{name: wrong})
        assert (caught.value.code, caught.value.fields["name"]) == ("host.argument", name)


def test_options_inside_options_are_checked_too():
    wrong = {
        "pool_max": {"store": StoreOptions(pool_max="5")},
        "timeout_ms": {"store": StoreOptions(timeout_ms=-1)},
        "hot_cells_max": {"budget": Budget(hot_cells_max=None)},
    }
    for name, given in wrong.items():
        with pytest.raises(Rejected) as caught:
            Options(**given)
        assert caught.value.fields["name"] == name
