"""Small plots of cost against size, as SVG text: two logarithmic axes, one line per name.

Invariant: every point is drawn where its two figures are, and carries them in its title.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["plot"]

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 320, 70, 44, 16, 190
_COLOURS = ("#3366cc", "#dc3912", "#109618", "#ff9900", "#990099", "#0099c6")
_TIMES = ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))

Points = Sequence[tuple[float, float]]


def plot(lines: Mapping[str, Points], x_name: str, x_unit: str = "") -> str:
    """One SVG element. `lines`: name -> points of (size, seconds), both above 0.

    Raises ValueError where there is nothing to draw.
    """
    points = [point for line in lines.values() for point in line]
    if not points:
        raise ValueError("a plot needs points")
    x_axis = _decades([x for x, _ in points])
    y_axis = _decades([y for _, y in points])

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + (WIDTH - LEFT - RIGHT) * _place(x, x_axis),
            HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * _place(y, y_axis),
        )

    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-size="12" font-family="sans-serif" fill="currentColor">'
    ]
    for power in range(x_axis[0], x_axis[1] + 1):
        x, y = at(10.0**power, 10.0 ** y_axis[0])
        drawn.append(_text(x, y + 18, f"{_size(10.0**power)}{x_unit}", "middle"))
        drawn.append(_rule(x, y, x, TOP))
    for power in range(y_axis[0], y_axis[1] + 1):
        x, y = at(10.0 ** x_axis[0], 10.0**power)
        drawn.append(_text(x - 6, y + 4, _time(10.0**power), "end"))
        drawn.append(_rule(x, y, WIDTH - RIGHT, y))
    drawn.append(_text(LEFT, HEIGHT - 6, x_name, "start"))
    for number, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        places = [at(x, y) for x, y in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (px, py), (x, y) in zip(places, line, strict=True):
            title = escape(f"{name}: {_size(x)}{x_unit}, {_time(y)}")
            drawn.append(
                f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.5" fill="{colour}">'
                f"<title>{title}</title></circle>"
            )
        y_key = TOP + 14 + 18 * number
        drawn.append(
            f'<rect x="{WIDTH - RIGHT + 12}" y="{y_key - 9}" width="10" height="10" '
            f'fill="{colour}"/>'
        )
        drawn.append(_text(WIDTH - RIGHT + 28, y_key, escape(name), "start"))
    return "".join([*drawn, "</svg>"])


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around the values, at least one apart."""
    low = math.floor(math.log10(min(values)) + 1e-9)
    high = math.ceil(math.log10(max(values)) - 1e-9)
    return low, max(high, low + 1)


def _place(value: float, axis: tuple[int, int]) -> float:
    return (math.log10(value) - axis[0]) / (axis[1] - axis[0])


def _size(value: float) -> str:
    for bound, unit in ((1e6, "M"), (1e3, "k")):
        if value >= bound:
            return f"{value / bound:g}{unit}"
    return f"{value:g}"


def _time(seconds: float) -> str:
    bound, unit = next((b, u) for b, u in reversed(_TIMES) if seconds >= b or b == _TIMES[0][0])
    return f"{seconds / bound:.3g} {unit}"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="currentColor" stroke-opacity="0.15"/>'
