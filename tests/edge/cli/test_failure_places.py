"""A person who asks why finds the place in their own file, and how the code came there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.edge.cli.conftest import Cellule as Cli

if TYPE_CHECKING:
    Cellule = Any

SCALES = """
import msgspec

from cellule import App, Attempt, Receipt, Step

app = App("scales")


@app.event(key="name")
class Weighed(msgspec.Struct, frozen=True):
    name: str
    parts: int


class Weight(msgspec.Struct, frozen=True):
    parts: int


def share(parts: int) -> int:
    return 100 // parts


@app.adapter("scales.weigh", attempts=2, backoff_s=0.01, backoff_max_s=0.02)
async def weigh(params: Weight, attempt: Attempt) -> Weight:
    return Weight(share(params.parts))


@app.reducer(effects=[weigh])
def scale(state: Weight | None, event: Weighed | Receipt[Weight]) -> Step[Weight]:
    if isinstance(event, Receipt):
        return Step(Weight(0))
    if event.name == "step":
        return Step(Weight(share(event.parts)))
    return Step(Weight(1), effects=[weigh(Weight(event.parts))])
"""


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(SCALES.splitlines(), 1) if text in line)


def test_the_place_of_a_failure_stands_in_why_and_in_the_effect(tmp_path: Path) -> None:
    """An adapter's bug left `ZeroDivisionError: integer division or modulo by zero` and no place."""
    app = tmp_path / "scales.py"
    app.write_text(SCALES)
    scales = Cli(tmp_path / "data", app)
    node = scales.start("--json", "--app", scales.app, "dev", "--no-reload")
    try:
        assert node.json()["kind"] == "ready"
        scales("event", "send", "Weighed", '{"name": "step", "parts": 0}', "--id", "s", code=None)
        scales("event", "send", "Weighed", '{"name": "adapter", "parts": 0}', "--id", "a")
        while node.json()["kind"] != "receipt":
            pass
        assert node.end() == 0
    finally:
        node.close()
    raised = f"scales.py:{line_of('return 100')} in share, called at scales.py:"
    in_step = f"{raised}{line_of('return Step(Weight(share')} in scale)"
    in_adapter = f"{raised}{line_of('return Weight(share')} in weigh)"
    step = scales("why", "scale/step", "--json").json
    assert in_step in step["causes"][0]["error"]["text"]
    assert_shown(scales("why", str(step["height"])).out, in_step)
    [effect] = scales("effect", "list", "--cause", height_of(scales, "a"), "--json").json["effects"]
    receipt = scales("effect", "show", effect["id"], "--json").json["receipt"]
    assert receipt["text"].startswith("ZeroDivisionError: ")
    assert in_adapter in receipt["text"]
    assert_shown(scales("effect", "show", effect["id"]).out, in_adapter)
    assert_shown(scales("why", str(receipt["height"])).out, in_adapter)
    [letter] = scales("letter", "list", "--json").json["letters"]
    assert in_adapter in letter["text"]


def assert_shown(output: str, text: str) -> None:
    """Lines are broken where the screen ends."""
    assert "".join(text.split()) in "".join(output.replace("│", "").split())


def height_of(scales: Cellule, event: str) -> str:
    return str(scales("why", event, "--json").json["height"])
