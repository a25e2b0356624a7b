"""Apps in files: code goes into blocks, with the names of its classes, and runs from there."""

from __future__ import annotations

import pytest

from cellule import Rejected
from cellule.modules.python.code import read_code

EVENTS = """
    import msgspec
    from shop.base import app

    @app.event(key="order_id", version=3)
    class Placed(msgspec.Struct, frozen=True):
        order_id: str

    @app.event(key="order_id", name="Sent", version=2)
    class Shipped(msgspec.Struct, frozen=True):
        order_id: str
"""
ORDERS = """
    import msgspec
    from cellule import Step
    from shop.base import app
    from shop.events import Placed, Shipped

    @app.state(version=4)
    class Order(msgspec.Struct, frozen=True):
        sent: bool = False

    @app.reducer
    def order(state: Order | None, event: Placed) -> Step[Order]:
        return Step(Order(sent=True), emit=[Shipped(event.order_id)])
"""
PARCELS = """
    import msgspec
    from shop.base import app
    from shop.events import Shipped

    class Parcel(msgspec.Struct, frozen=True):
        count: int

    @app.reducer
    def parcel(state: Parcel | None, event: Shipped) -> Parcel:
        return Parcel((state.count if state else 0) + 1)
"""
PACKAGE = {
    "shop/__init__.py": "from shop.base import app\nfrom shop import orders, parcels\n",
    "shop/base.py": "from cellule import App\napp = App('shop')\n",
    "shop/events.py": EVENTS,
    "shop/orders.py": ORDERS,
    "shop/parcels.py": PARCELS,
}


def test_a_package_of_several_files_runs_from_its_bundle(project, make_world):
    shop = project(PACKAGE, "shop")
    world = make_world(shop.app)
    assert not world.built.live
    assert world.send(shop.orders.Placed("o1")).applied
    assert world.state(shop.orders.order, "o1") == shop.orders.Order(sent=True)
    assert world.state("parcel", "o1").count == 1


def test_an_event_that_is_emitted_without_being_declared_keeps_its_chosen_name(project, make_world):
    shop = project(PACKAGE, "shop")
    world = make_world(shop.app)
    world.send(shop.orders.Placed("o1"))
    assert [row.schema for row in world.chronicle.journal.emitted()] == ["shop/Sent@2"]


def test_only_names_that_the_bundle_can_find_are_stored_beside_the_code(project):
    shop = project(PACKAGE, "shop")
    built = shop.app.build()
    names = {
        base: set(read_code(module.code, base).names.values())
        for base, module in built.manifest.modules.items()
    }
    assert names["shop/order"] == {"shop/Placed@3", "shop/Sent@2", "shop/Order@4"}
    assert names["shop/parcel"] == {"shop/Placed@3", "shop/Sent@2", "shop/Order@4"}
    alone = {**PACKAGE, "shop/__init__.py": "", "shop/all.py": "from shop import orders, parcels\n"}
    again = project(
        {name.replace("shop", "store", 1): text.replace("shop", "store") for name, text in alone.items()},
        "store.all",
    )
    built = again.orders.app.build()
    parcel = read_code(built.module("parcel").code, "parcel")
    assert set(parcel.names.values()) == {"store/Placed@3", "store/Sent@2"}


def test_every_block_of_the_code_and_the_manifest_is_handed_over(project):
    built = project(PACKAGE, "shop").app.build()
    assert built.blocks[built.manifest.cid] == built.manifest.data
    for module in built.manifest.modules.values():
        assert read_code(module.code, module.name).bundle in built.blocks


def test_the_same_files_in_another_folder_are_the_same_manifest(project, tmp_path):
    first = project(PACKAGE, "shop").app.build().manifest.cid
    import sys

    for name in [name for name in sys.modules if name == "shop" or name.startswith("shop.")]:
        del sys.modules[name]
    other = tmp_path / "elsewhere"
    files = {f"elsewhere/{name}": text for name, text in PACKAGE.items()}
    sys.path.insert(0, str(other))
    try:
        (tmp_path / "shop").rename(tmp_path / "gone")
        assert project(files, "shop").app.build().manifest.cid == first
    finally:
        sys.path.remove(str(other))


STARTER = """
    import msgspec
    from cellule import App, Step
    app = App("shop")

    @app.event(key="order_id")
    class Placed(msgspec.Struct, frozen=True):
        order_id: str

    @app.reducer
    def order(state: Placed | None, event: Placed) -> Step[Placed]:
        return Step(event)
"""


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("from cellule.testing import World; World(app)", "make a testing.World"),
        ("app.build()", "build the app shop"),
        (
            "from cellule.modules.python import check_not_loading; check_not_loading('open a node')",
            "open a node",
        ),
    ],
)
def test_top_level_code_that_starts_something_while_it_is_bundled_is_refused(project, line, what):
    quiet = f"\n    import sys\n    if sys.modules.get('started', 1):\n        {line}\n"
    files = {"started.py": STARTER, "broken.py": STARTER + quiet}
    project(files, "started")
    with pytest.raises(Rejected) as refused:
        project(files, "broken").app.build()
    assert refused.value.code == "modules.started_while_loading"
    assert what in str(refused.value)
    assert "__main__" in refused.value.hint


def test_code_that_cannot_be_repeated_is_refused_when_the_app_is_built(project):
    broken = STARTER.replace("return Step(event)", "import time; time.time(); return Step(event)")
    with pytest.raises(Rejected) as refused:
        project({"clock.py": broken}, "clock").app.build()
    assert refused.value.code == "modules.nondeterministic"


def test_code_whose_top_level_fails_away_from_home_is_refused_when_the_app_is_built(project):
    broken = STARTER + "\n    open(__file__).close()\n"
    with pytest.raises(Rejected) as refused:
        project({"reads.py": broken}, "reads").app.build()
    assert refused.value.code == "modules.load_failed"
