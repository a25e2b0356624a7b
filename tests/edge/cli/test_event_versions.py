"""Events of several versions, sent by name: no app is at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edge.cli.conftest import Cellule as Line

VERSIONS = """
from __future__ import annotations

import msgspec

from cellule import App, Step

app = App("shop")


@app.event(name="Placed", version=1, key="order_id")
class PlacedV1(msgspec.Struct, frozen=True):
    order_id: str
    euros: int


@app.event(version=2, key="order_id")
class Placed(msgspec.Struct, frozen=True):
    order_id: str
    cents: int


@app.upcaster
def in_cents(old: PlacedV1) -> Placed:
    return Placed(old.order_id, old.euros * 100)


@app.reducer
def order(state: int | None, event: Placed) -> Step[int]:
    return Step((state or 0) + event.cents)
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Line:
    """A world whose event has a second version."""
    file: Path = tmp_path_factory.mktemp("versions") / "shop.py"
    file.write_text(VERSIONS)
    line = Line(file.parent / "data", file)
    line("world", "create", "main", "--app", line.app)
    return line


@pytest.mark.parametrize("more", [(), ("--key", "KEY")], ids=["", "with a key"])
@pytest.mark.parametrize("name", ["shop/Placed@1", "Placed@1"])
def test_an_event_of_an_older_version_is_sent_without_the_app(
    shop: Line, name: str, more: tuple[str, ...]
) -> None:
    """Whoever had no app at hand was told that nobody subscribes to it."""
    key = f"{name}{len(more)}"
    value = f'{{"order_id": "{key}", "euros": 2}}'
    shop("event", "send", name, value, *(each.replace("KEY", key) for each in more))
    assert shop("cell", "show", "order", key, "--json").json["state"] == 200


@pytest.mark.parametrize("name", ["Placed", "shop/Placed", "Placed@2", "shop/Placed@2"])
def test_an_event_may_be_named_without_its_namespace_and_version(shop: Line, name: str) -> None:
    shop("event", "send", name, f'{{"order_id": "{name}", "cents": 7}}')
    assert shop("cell", "show", "order", name, "--json").json["state"] == 7


@pytest.mark.parametrize("name", ["Placed@3", "other/Placed", "other/Placed@1", "@1", ""])
def test_what_names_no_event_is_refused(shop: Line, name: str) -> None:
    refused = shop("event", "send", name, '{"order_id": "x", "cents": 7}', "--json", code=1)
    assert refused.error["code"] == "host.no_event"
