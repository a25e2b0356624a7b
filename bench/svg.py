"""A small writer of SVG charts: labelled rows on one scale, as bars from zero or as dots on a log scale.

Bars begin at zero, so their lengths compare. Where values differ by powers of ten, dots mark them on a log
scale: a bar would have no honest length there. Colours follow the reader's light or dark setting.

Rejected: matplotlib. It would be the largest dependency of the repository, and its files do not follow the
setting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

WIDTH, LABELS, VALUES, ROW, TOP, BOTTOM = 760, 250, 110, 30, 82, 34
ROWS_MAX = 40
_XMLNS = "http://www.w3.org/2000/svg"
_STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1f2328 } .title { font-weight: 600; font-size: 16px }
.quiet { fill: #656d76; font-size: 12px } .grid { stroke: #d0d7de } .back { fill: #ffffff }
.mark { stroke: #9a6700; stroke-dasharray: 4 3 } .markname { fill: #9a6700; font-size: 12px }
.ours { fill: #0969da } .other { fill: #8c959f }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .quiet { fill: #8b949e } .grid { stroke: #30363d } .back { fill: #0d1117 }
.mark { stroke: #d29922 } .markname { fill: #d29922 } .ours { fill: #58a6ff } .other { fill: #6e7681 }
}
"""


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a chart: its label, its value, how that is written, and whether it is ours."""

    label: str
    value: float
    shown: str
    is_ours: bool = True


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture: rows on one scale, and perhaps a marked value."""

    title: str
    subtitle: str
    lines: Sequence[Line]
    is_log: bool = False
    mark: tuple[float, str] | None = None


def draw(chart: Chart) -> str:
    """The chart as an SVG document."""
    if not 1 <= len(chart.lines) <= ROWS_MAX:
        raise ValueError(f"a chart has 1 to {ROWS_MAX} rows; {chart.title!r} has {len(chart.lines)}")
    ticks = _log_ticks(chart) if chart.is_log else _ticks(chart)
    at = _scale(ticks, is_log=chart.is_log)
    height = TOP + ROW * len(chart.lines) + BOTTOM
    label = escape(chart.title)
    parts = [
        f'<svg xmlns="{_XMLNS}" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{height}" rx="6"/>',
        _text(16, 26, chart.title, "title"),
        _text(16, 46, chart.subtitle, "quiet"),
        *(_tick(at(tick), tick, height) for tick in ticks),
        *(part for row, line in enumerate(chart.lines) for part in _line(line, row, at, chart.is_log)),
    ]
    if chart.mark is not None:
        parts += _mark(at(chart.mark[0]), chart.mark[1], height)
    return "\n".join([*parts, "</svg>", ""])


def _line(line: Line, row: int, at: Callable[[float], float], is_log: bool) -> list[str]:
    kind, middle, x = "ours" if line.is_ours else "other", TOP + ROW * row + ROW // 2, at(line.value)
    length, top = x - LABELS, middle - 9
    dot = f'<circle class="{kind}" cx="{x:.1f}" cy="{middle}" r="6"/>'
    bar = f'<rect class="{kind}" x="{LABELS}" y="{top}" width="{length:.1f}" height="18" rx="2"/>'
    return [
        _text(LABELS - 12, middle + 5, line.label, "", "end"),
        dot if is_log else bar,
        _text(x + (12 if is_log else 8), middle + 5, line.shown, ""),
    ]


def _tick(x: float, value: float, height: int) -> str:
    rule = f'<line class="grid" x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{height - BOTTOM}"/>'
    return rule + _text(x, height - 12, f"{value:,.0f}" if value >= 10 else f"{value:g}", "quiet", "middle")


def _mark(x: float, name: str, height: int) -> list[str]:
    rule = f'<line class="mark" x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{height - BOTTOM}"/>'
    return [rule, _text(x, TOP - 10, name, "markname", "middle")]


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    known = f' class="{kind}"' if kind else ""
    return f'<text{known} x="{x:.1f}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def _scale(ticks: Sequence[float], *, is_log: bool) -> Callable[[float], float]:
    low, high, room = ticks[0], ticks[-1], WIDTH - LABELS - VALUES

    def at(value: float) -> float:
        if is_log:
            return LABELS + room * (log10(value) - log10(low)) / (log10(high) - log10(low))
        return LABELS + room * (value - low) / (high - low)

    return at


def _ticks(chart: Chart) -> list[float]:
    """Zero and round steps up to the first beyond the largest value."""
    largest = max([line.value for line in chart.lines] + ([chart.mark[0]] if chart.mark else []))
    unit = 10.0 ** floor(log10(largest))
    step = next(unit * part for part in (0.2, 0.5, 1.0, 2.0) if largest / (unit * part) <= 5)
    count = next(number for number in range(1, ROWS_MAX) if step * number >= largest * 0.999)
    return [round(step * number, 9) for number in range(count + 1)]


def _log_ticks(chart: Chart) -> list[float]:
    """Powers of ten around all values."""
    values = [line.value for line in chart.lines]
    first, last = floor(log10(min(values))), floor(log10(max(values))) + 1
    return [10.0**power for power in range(first, last + 1)]
