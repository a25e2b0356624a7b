"""The text of an app that tests change and deploy again."""

from __future__ import annotations

FIRST = """
    import msgspec
    from cellule.app import App, Step

    app = App("change")

    @app.event(key="name")
    class Ping(msgspec.Struct, frozen=True):
        name: str
        weight: int = 1

    class Count(msgspec.Struct, frozen=True):
        total: int = 0

    @app.reducer
    def count(state: Count | None, event: Ping) -> Step[Count]:
        return Step(Count((state or Count()).total + event.weight))
"""
