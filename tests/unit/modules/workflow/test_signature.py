"""What can be no workflow is refused when the app is built, with what to write instead."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from cellule import App, Context, Receipt, Rejected, Workflow
from cellule.modules.workflow.signature import read_workflow
from tests.support.workflows import Charged, Paid, Placed


def plain(ctx: Workflow, new: Placed) -> None: ...


async def alone(ctx: Workflow) -> None: ...


async def by_name(ctx: Workflow, *, new: Placed) -> None: ...


async def no_default(ctx: Workflow, new: Placed, turn: int) -> None: ...


async def too_many_defaults(ctx: Workflow, new: Placed | None = None) -> None: ...


async def reducers_context(ctx: Context, new: Placed) -> None: ...


async def no_event(ctx: Workflow, new: int) -> None: ...


async def perhaps(ctx: Workflow, new: Placed | None) -> None: ...


async def receipts(ctx: Workflow, new: Receipt[Charged]) -> None: ...


async def silent(ctx: Workflow, new: Placed): ...


async def nameless(ctx: Workflow, new) -> None: ...


async def unknown(ctx: Workflow, new: Nowhere) -> None: ...  # noqa: F821 - which is the point


@pytest.mark.parametrize(
    ("function", "code", "told"),
    [
        (plain, "workflow.not_async", "no `async def`"),
        (alone, "workflow.parameters", "it has 1 parameters"),
        (by_name, "workflow.parameters", "not given by position"),
        (no_default, "workflow.parameters", "'turn' has no default"),
        (too_many_defaults, "workflow.parameters", "'new' has a default"),
        (reducers_context, "workflow.parameters", "'ctx' is Context, not Workflow"),
        (no_event, "workflow.event_type", "int is no event"),
        (perhaps, "workflow.event_type", "NoneType is no event"),
        (receipts, "workflow.event_type", "is no event that somebody sends"),
        (silent, "workflow.annotation_missing", "its return value has no annotation"),
        (nameless, "workflow.annotation_missing", "parameter 'new' has no annotation"),
        (unknown, "workflow.annotation_unknown", "Nowhere"),
    ],
)
def test_what_can_be_no_workflow_is_refused(function: Any, code: str, told: str) -> None:
    with pytest.raises(Rejected) as refused:
        read_workflow(function)
    assert refused.value.code == code
    assert told in str(refused.value)
    assert function.__name__ in str(refused.value)


def test_an_event_that_the_app_does_not_have_is_named() -> None:
    app = App("shop")
    app.event(key="order")(Placed)

    @app.workflow(events=[Paid])
    async def order(ctx: Workflow, new: Placed) -> None: ...

    with pytest.raises(Rejected, match="takes Paid, which is no event of") as refused:
        app.build(live=True)
    assert refused.value.code == "app.event_unknown"


def test_a_result_that_cannot_be_stored_is_refused() -> None:
    app = App("shop")
    app.event(key="order")(Placed)

    @app.workflow
    async def order(ctx: Workflow, new: Placed) -> object: ...

    with pytest.raises(Rejected):
        app.build(live=True)


@pytest.mark.parametrize(
    ("option", "given"), [("failure", "stop"), ("upgrade", "never"), ("open_max", 0), ("retention", 3)]
)
def test_options_that_are_none_are_refused(option: str, given: Any) -> None:
    app = App("shop")
    with pytest.raises(Rejected, match=option):

        @app.workflow(**{option: given})
        async def order(ctx: Workflow, new: Placed) -> None: ...


SLEEPY = """
import {module}

import msgspec

from cellule import App, Workflow

app = App("sleepy")


@app.event(key="name")
class Named(msgspec.Struct, frozen=True):
    name: str


@app.workflow
async def nap(ctx: Workflow, named: Named) -> None:
    await {module}.sleep(1)
"""


@pytest.mark.parametrize("module", ["asyncio", "time"])
def test_other_ways_to_wait_are_refused_with_the_name_of_the_right_one(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"sleepy_{module}.py").write_text(SLEEPY.format(module=module))
    monkeypatch.syspath_prepend(str(tmp_path))
    app = import_module(f"sleepy_{module}").app
    with pytest.raises(Rejected, match=r"ctx\.sleep") as refused:
        app.build()
    assert f"sleepy_{module}.py:18" in str(refused.value)
    del sys.modules[f"sleepy_{module}"]


def test_libraries_that_compute_may_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = SLEEPY.replace("import {module}", "import decimal\nimport json\nimport statistics")
    text = text.replace("await {module}.sleep(1)", "json.dumps(statistics.mean([1, 2]))")
    (tmp_path / "counted_well.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    app = import_module("counted_well").app
    assert app.build().manifest.modules["sleepy/nap"].style == "workflow"
    del sys.modules["counted_well"]
