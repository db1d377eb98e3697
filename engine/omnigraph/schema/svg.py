"""A picture of a schema as one inline SVG: no script, no font, nothing from the network.

This module owns the layout: boxes in rows, each as large as its text needs, arrows as straight lines between their
borders, arrows of one pair side by side, loops at the side of their box. Widths are estimates for a fixed-width font.
"""

from __future__ import annotations

import html
import math
from collections import Counter
from dataclasses import dataclass

from omnigraph.schema.catalog import Catalog
from omnigraph.schema.diagram import Arrow, Box, Diagram, diagram_of
from omnigraph.schema.graphtext import COLOURS
from omnigraph.schema.plan import SchemaPlan

BOXES_MAX = 60  # more fill the page and slow a notebook down
_CHAR = 7.3  # width of a character at 12 pixels
_LINE = 17.0
_PAD = 8.0
_GAP_X, _GAP_Y = 110.0, 60.0
_LOOP = 34.0


@dataclass(frozen=True, slots=True)
class Placed:
    """A box with its corner and size."""

    box: Box
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2


def to_svg(shown: Catalog | SchemaPlan, *, boxes_max: int = BOXES_MAX) -> str:
    """The picture. Of a larger schema the first boxes, with a line that says how many are missing."""
    diagram = diagram_of(shown)
    left_out = max(0, len(diagram.boxes) - boxes_max)
    placed = place(diagram, boxes_max)
    arrows = [a for a in diagram.arrows if a.source < len(placed) and a.target < len(placed)]
    width = max((_right(p, number, arrows) for number, p in enumerate(placed)), default=_GAP_X) + _PAD
    height = max((p.y + p.height for p in placed), default=0.0) + _LOOP + _PAD * 2 + (_LINE if left_out else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="monospace" font-size="12" role="img">'
    ]
    seen: Counter[frozenset[int]] = Counter()
    for arrow in arrows:
        pair = frozenset((arrow.source, arrow.target))
        parts.append(_arrow(arrow, placed, seen[pair]))
        seen[pair] += 1
    parts += map(_box, placed)
    if left_out:
        parts.append(_text(_PAD, height - _PAD, f"and {left_out} more", "#57606a"))
    return "".join([*parts, "</svg>"])


def place(diagram: Diagram, boxes_max: int = BOXES_MAX) -> tuple[Placed, ...]:
    """Boxes in rows, in their order; a row is as high as its highest box, a column as wide as its widest."""
    boxes = diagram.boxes[:boxes_max]
    if not boxes:
        return ()
    columns = math.ceil(math.sqrt(len(boxes)))
    sizes = [_size(box) for box in boxes]
    widths = [max(w for w, _ in sizes[c::columns]) for c in range(min(columns, len(sizes)))]
    heights = [max(h for _, h in sizes[r : r + columns]) for r in range(0, len(sizes), columns)]
    found = []
    for number, (box, (width, height)) in enumerate(zip(boxes, sizes, strict=True)):
        row, column = divmod(number, columns)
        x = _PAD + sum(widths[:column]) + _GAP_X * column
        y = _PAD + _LOOP + sum(heights[:row]) + _GAP_Y * row
        found.append(Placed(box, x, y, width, height))
    return tuple(found)


def _right(placed: Placed, number: int, arrows: list[Arrow]) -> float:
    """How far a box reaches to the right, with the labels of the loops at its side."""
    loops = (len(a.title) * _CHAR + _LOOP for a in arrows if a.source == a.target == number)
    return placed.x + placed.width + max(loops, default=0.0)


def _size(box: Box) -> tuple[float, float]:
    longest = max(len(text) for text in (box.title, *map(str, box.lines)))
    return longest * _CHAR + 2 * _PAD, (1 + len(box.lines)) * _LINE + 2 * _PAD


def _box(placed: Placed) -> str:
    box, colour = placed.box, COLOURS[placed.box.mark]
    dashes = ' stroke-dasharray="5 3"' if box.kind == "interface" else ""
    parts = [
        f'<rect x="{placed.x:.1f}" y="{placed.y:.1f}" width="{placed.width:.1f}" height="{placed.height:.1f}" rx="4" '
        f'fill="#ffffff" stroke="{colour}"{dashes}/>'
    ]
    y = placed.y + _PAD + _LINE * 0.7
    parts.append(_text(placed.x + _PAD, y, box.title, colour, bold=True))
    for number, line in enumerate(box.lines, 1):
        parts.append(_text(placed.x + _PAD, y + number * _LINE, str(line), COLOURS[line.mark]))
    return "".join(parts)


def _arrow(arrow: Arrow, placed: tuple[Placed, ...], number: int) -> str:
    """``number``: how many arrows between the same boxes are drawn already."""
    colour = COLOURS[arrow.mark]
    source, target = placed[arrow.source], placed[arrow.target]
    style = f'stroke="{colour}" fill="none"' + (' stroke-dasharray="5 3"' if arrow.is_dashed else "")
    hover = "\n".join([arrow.title, *map(str, arrow.lines)])
    title = f"<title>{html.escape(hover)}</title>"
    if arrow.source == arrow.target:
        x, y = source.x + source.width, source.y + min(source.height, _LINE * (number + 1)) - 2
        loop = f"M {x:.1f} {y:.1f} c {_LOOP:.0f} {-_LOOP:.0f} {_LOOP:.0f} {_LOOP:.0f} 0 6"
        path = f'<path d="{loop}" {style}/>' + _head((x, y + 6), (-1.0, 0.2), colour)
        return f"<g>{title}{path}{_text(x + _LOOP * 0.85, y, arrow.title, colour)}</g>"
    # Arrows of one pair lie side by side: 0, then one up, one down, two up, …
    shift = (number + 1) // 2 * (1 if number % 2 else -1) * 14.0
    (ax, ay), (bx, by) = source.middle, target.middle
    length = math.hypot(bx - ax, by - ay)
    across = ((ay - by) / length * shift, (bx - ax) / length * shift)
    start, end = border(source, target.middle), border(target, source.middle)
    start = (start[0] + across[0], start[1] + across[1])
    end = (end[0] + across[0], end[1] + across[1])
    line = f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" {style}/>'
    head = _head(end, ((bx - ax) / length, (by - ay) / length), colour)
    middle = ((start[0] + end[0]) / 2 - len(arrow.title) * _CHAR / 2, (start[1] + end[1]) / 2 - 4)
    return f"<g>{title}{line}{head}{_text(*middle, arrow.title, colour)}</g>"


def border(placed: Placed, towards: tuple[float, float]) -> tuple[float, float]:
    """Where the line from the middle of a box to a point outside leaves the box."""
    x, y = placed.middle
    dx, dy = towards[0] - x, towards[1] - y
    reach = min(
        placed.width / 2 / abs(dx) if dx else math.inf,
        placed.height / 2 / abs(dy) if dy else math.inf,
    )
    return x + dx * reach, y + dy * reach


def _head(at: tuple[float, float], along: tuple[float, float], colour: str) -> str:
    (x, y), (dx, dy) = at, along
    left, right = (x - 8 * dx - 4 * dy, y - 8 * dy + 4 * dx), (x - 8 * dx + 4 * dy, y - 8 * dy - 4 * dx)
    points = " ".join(f"{px:.1f},{py:.1f}" for px, py in (at, left, right))
    return f'<polygon points="{points}" fill="{colour}"/>'


def _text(x: float, y: float, text: str, colour: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}"{weight}>{html.escape(text)}</text>'
