"""Pictures of a schema as texts for other programs: Mermaid and Graphviz.

Names of the language are made of letters, digits and ``_``, types of those and a few signs more; both are escaped all
the same, so that nothing in a schema can become a part of the picture's own language.
"""

from __future__ import annotations

import html

from omnigraph.schema.catalog import Catalog
from omnigraph.schema.diagram import Arrow, Box, Mark, diagram_of
from omnigraph.schema.plan import SchemaPlan

COLOURS: dict[Mark, str] = {"same": "#57606a", "added": "#1a7f37", "changed": "#9a6700", "dropped": "#cf222e"}


def to_mermaid(shown: Catalog | SchemaPlan) -> str:
    """A Mermaid flowchart. Edge types with properties list them on their arrow."""
    diagram = diagram_of(shown)
    lines = ["flowchart LR"]
    for number, box in enumerate(diagram.boxes):
        lines.append(f'    n{number}["{"<br/>".join(_mermaid_lines(box))}"]')
    for arrow in diagram.arrows:
        shaft = "-.->" if arrow.is_dashed else "-->"
        label = "<br/>".join(_mermaid_lines(arrow))
        lines.append(f'    n{arrow.source} {shaft}|"{label}"| n{arrow.target}')
    for mark in ("added", "changed", "dropped"):
        members = [f"n{number}" for number, box in enumerate(diagram.boxes) if box.mark == mark]
        if members:
            lines.append(f"    classDef {mark} stroke:{COLOURS[mark]},stroke-width:2px")
            lines.append(f"    class {','.join(members)} {mark}")
    return "\n".join(lines) + "\n"


def to_dot(shown: Catalog | SchemaPlan) -> str:
    """A Graphviz digraph."""
    diagram = diagram_of(shown)
    lines = ["digraph schema {", "    rankdir=LR;", '    node [shape=plain, fontname="sans-serif"];']
    for number, box in enumerate(diagram.boxes):
        rows = "".join(_dot_row(str(line), line.mark) for line in box.lines)
        title = f'<tr><td bgcolor="#f6f8fa"><b>{html.escape(box.title)}</b></td></tr>'
        table = f'<table border="1" cellborder="0" cellspacing="0" color="{COLOURS[box.mark]}">{title}{rows}</table>'
        lines.append(f"    n{number} [label=<{table}>];")
    for arrow in diagram.arrows:
        label = "".join(_dot_row(text, arrow.mark) for text in (arrow.title, *map(str, arrow.lines)))
        style = "dashed" if arrow.is_dashed else "solid"
        lines.append(
            f"    n{arrow.source} -> n{arrow.target} "
            f'[style={style}, color="{COLOURS[arrow.mark]}", label=<<table border="0">{label}</table>>];'
        )
    return "\n".join([*lines, "}"]) + "\n"


def _mermaid_lines(shown: Box | Arrow) -> list[str]:
    title = _mermaid_text(shown.title)
    head = f"<b>{title}</b>" if isinstance(shown, Box) else title
    return [head, *(_mermaid_text(str(line)) for line in shown.lines)]


def _mermaid_text(text: str) -> str:
    """Mermaid's own escapes: ``#`` and the number of the character. Letters, digits, blanks and ``_ : , .`` stay."""
    return "".join(c if c.isalnum() or c in " _:,." else f"#{ord(c)};" for c in text)


def _dot_row(text: str, mark: Mark) -> str:
    return f'<tr><td align="left"><font color="{COLOURS[mark]}">{html.escape(text)}</font></td></tr>'
