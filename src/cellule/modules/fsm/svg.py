"""A machine as an SVG picture: boxes for states, arrows with their triggers and guards.

Terminal states have a double edge, arrows that only time takes are dashed, the state a cell is in is filled.
Colours follow the reader's light or dark setting. The same contract gives the same bytes.
"""

from __future__ import annotations

from html import escape
from itertools import pairwise
from typing import Final

from cellule.errors import Rejected
from cellule.modules.fsm.contract import Contract
from cellule.modules.fsm.layout import Layout, Route, Size, Slot, lay_out
from cellule.modules.fsm.limits import DRAWN_ARROWS_MAX, DRAWN_STATES_MAX
from cellule.modules.fsm.picture import Arrow, Box, Picture, picture_of, shortened

_CHARACTER: Final = 7.2
_SMALL: Final = 6.4
_LINE: Final = 16.0
_MARGIN: Final = 24.0
_ROW_GAP: Final = 26.0
_HEAD: Final = 62.0
_XMLNS: Final = "http://www.w3.org/2000/svg"
_TIP: Final = """<defs>
<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>"""
_STYLE: Final = """
text { font: 13px system-ui, sans-serif; fill: #1f2328; text-anchor: middle; dominant-baseline: central }
.small { font-size: 11.5px; fill: #57606a } .label { fill: #1f2328; font-size: 11.5px }
.back { fill: #ffffff } .box { fill: #f6f8fa; stroke: #57606a } .inner { fill: none; stroke: #57606a }
.current { fill: #ddf4ff; stroke: #0969da; stroke-width: 2 } .start { fill: #57606a }
.arrow { fill: none; stroke: #8c959f } .timed { stroke-dasharray: 5 3 } .tip { fill: #8c959f }
@media (prefers-color-scheme: dark) {
text, .label { fill: #e6edf3 } .small { fill: #8b949e } .back { fill: #0d1117 }
.box { fill: #161b22; stroke: #8b949e } .inner { stroke: #8b949e } .current { fill: #0c2d6b; stroke: #58a6ff }
.start { fill: #8b949e } .arrow { stroke: #6e7681 } .tip { fill: #6e7681 }
}
"""


def draw(contract: Contract, current: str | None = None) -> str:
    """The picture as an SVG document; `Rejected` for a machine that no picture of ours can show."""
    picture = picture_of(contract, current)
    if len(picture.boxes) > DRAWN_STATES_MAX or len(picture.arrows) > DRAWN_ARROWS_MAX:
        raise Rejected(
            "fsm.picture", "{file} has {states} states and {arrows} arrows; {most} and {many} can be drawn",
            file=contract.file, states=len(picture.boxes), arrows=len(picture.arrows), most=DRAWN_STATES_MAX,
            many=DRAWN_ARROWS_MAX, hint="Write it as Mermaid instead, and let another tool draw it.",
        )  # fmt: skip
    return _Drawing(picture).document()


class _Drawing:
    """One picture, placed."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._sizes = {box.name: _box_size(box) for box in picture.boxes}
        arrows = [(arrow.source, arrow.target, _label_size(arrow)) for arrow in picture.arrows]
        self._layout: Layout = lay_out(picture.initial, self._sizes, arrows, _ROW_GAP)

    def document(self) -> str:
        """All parts, arrows below boxes and texts."""
        layout, picture = self._layout, self._picture
        width, height = layout.width + 2 * _MARGIN, layout.tops[-1] + _HEAD + _MARGIN
        title = escape(picture.title)
        pairs = list(zip(picture.arrows, layout.routes, strict=True))
        parts = [
            f'<svg xmlns="{_XMLNS}" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{title}">',
            f"<title>{title}</title>", f"<style>{_STYLE}</style>",
            _TIP,
            f'<rect class="back" width="{width:.0f}" height="{height:.0f}" rx="6"/>',
            *self._start(), *(self._path(arrow, route) for arrow, route in pairs),
            *(part for box in picture.boxes for part in self._box(box)),
            *(part for arrow, route in pairs for part in self._label(arrow, route)),
        ]  # fmt: skip
        return "\n".join([*parts, "</svg>", ""])

    def _place(self, slot: Slot) -> tuple[float, float]:
        return slot.x + _MARGIN, self._layout.middle(slot.row) + _HEAD

    def _start(self) -> list[str]:
        slot = self._layout.boxes[self._picture.initial]
        x, y = self._place(slot)
        top = y - self._sizes[slot.box].height / 2
        dot = f'<circle class="start" cx="{x:.1f}" cy="{top - 40:.1f}" r="6"/>'
        line = f'<path class="arrow" d="M{x:.1f} {top - 34:.1f}V{top:.1f}" marker-end="url(#tip)"/>'
        start = self._picture.start
        return [dot, line, *([_text(x, top - 20, start, "label", back=True)] if start else [])]

    def _box(self, box: Box) -> list[str]:
        x, y = self._place(self._layout.boxes[box.name])
        width, height = self._sizes[box.name]
        kind = "box current" if box.is_current else "box"
        parts = [_rectangle(x, y, width, height, kind)]
        if box.is_terminal:
            parts.append(_rectangle(x, y, width - 7, height - 7, "inner"))
        top = y - (len(box.notes) * _LINE) / 2
        parts.append(_text(x, top, box.name, ""))
        return [
            *parts,
            *(_text(x, top + _LINE * at, note, "small") for at, note in enumerate(box.notes, start=1)),
        ]

    def _path(self, arrow: Arrow, route: Route) -> str:
        kind = "arrow timed" if arrow.is_timed else "arrow"
        return f'<path class="{kind}" d="{self._line(route)}" marker-end="url(#tip)"/>'

    def _line(self, route: Route) -> str:
        source, target = self._layout.boxes[route.source], self._layout.boxes[route.target]
        (x, y), (width, height) = self._place(source), self._sizes[route.source]
        if not route.slots:
            side = x + width / 2
            return f"M{side:.1f} {y - height / 4:.1f}c26 -12 26 {height / 2 + 12:.1f} 0 {height / 2:.1f}"
        first, last = route.slots[0], route.slots[-1]
        down = 1 if first.row > source.row else -1
        points = [(self._port(source, first), y + down * height / 2)]
        points += [self._place(slot) for slot in route.slots]
        below = 1 if last.row > target.row else -1
        end = self._place(target)[1] + below * self._sizes[route.target].height / 2
        points.append((self._port(target, last), end))
        text = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
        for (x1, y1), (x2, y2) in pairwise(points):
            bend = (y2 - y1) / 2
            text += f"C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
        return text

    def _port(self, box: Slot, beside: Slot) -> float:
        """Where on its side an arrow meets a box: in the order of what it leads to."""
        side = [each for each in box.beside if (each.row > box.row) == (beside.row > box.row)]
        side.sort(key=lambda each: each.x)
        at = next(number for number, each in enumerate(side) if each is beside)
        span = self._sizes[box.box].width * 0.7
        return box.x + _MARGIN - span / 2 + span * (at + 1) / (len(side) + 1)

    def _label(self, arrow: Arrow, route: Route) -> list[str]:
        if route.slots:
            x, y = self._place(route.slots[0])
        else:
            x, y = self._place(self._layout.boxes[route.source])
            x += self._sizes[route.source].width / 2 + 24 + _label_size(arrow).width / 2
        top = y - _LINE * (len(arrow.lines) - 1) / 2
        return [_text(x, top + _LINE * at, line, "label", back=True) for at, line in enumerate(arrow.lines)]


def _box_size(box: Box) -> Size:
    longest = max(len(box.name) * _CHARACTER, *(len(note) * _SMALL for note in box.notes), 44.0)
    return Size(longest + 28, 34 + _LINE * len(box.notes))


def _label_size(arrow: Arrow) -> Size:
    return Size(max(len(shortened(line)) for line in arrow.lines) * _SMALL + 8, _LINE * len(arrow.lines))


def _rectangle(x: float, y: float, width: float, height: float, kind: str) -> str:
    place = f'x="{x - width / 2:.1f}" y="{y - height / 2:.1f}"'
    return f'<rect class="{kind}" {place} width="{width:.1f}" height="{height:.1f}" rx="8"/>'


def _text(x: float, y: float, text: str, kind: str, *, back: bool = False) -> str:
    shown = shortened(text)
    full = f"<title>{escape(text)}</title>" if shown != text else ""
    made = f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(shown)}{full}</text>'
    if not back:
        return made
    width = len(shown) * _SMALL + 6
    return (
        f'<rect class="back" x="{x - width / 2:.1f}" y="{y - 8:.1f}" width="{width:.1f}" height="16"/>{made}'
    )
