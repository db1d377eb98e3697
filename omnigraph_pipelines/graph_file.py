"""Read a graph file: YAML in, checked settings and the catalog out, every complaint with its line.

Owns where things stand in the text, and the checks that need more than one setting: against the schema, and between
sources. Opens no graph and no store, so that a code location loads whatever is unreachable.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

import omnigraph as og
from omnigraph_pipelines.bad_rows import check_rules, rules_of
from omnigraph_pipelines.complaints import FileComplaints, Path_, Problem, meant, refused, sentences
from omnigraph_pipelines.order import circle_in
from omnigraph_pipelines.settings import Settings, SourceSettings, absolute

GRAPH_FILE_VARIABLE: Final = "OMNIGRAPH_GRAPH_FILE"
_BYTES_MAX: Final = 4 << 20  # thousands of sources; more is not a graph file
_VALUES_MAX: Final = 500_000  # with what anchors stand for

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C where PyYAML was built with it


@dataclass(frozen=True)
class GraphFile:
    """A graph file that was found good. ``catalog`` is what its schema declares."""

    settings: Settings
    catalog: Any = field(repr=False)
    path: Path | None = None

    def types_of(self, source: SourceSettings) -> tuple[str, ...]:
        """The types that batches of a source may have rows of, in the order of table keys."""
        if source.tables is not None:
            return tuple(self.catalog.type(table.type).name for table in source.tables)
        if source.types is not None:
            return tuple(self.catalog.type(name).name for name in source.types)
        return tuple(declared.name for declared in self.catalog.types())

    def rules_of(self, source: SourceSettings) -> dict[str, Any]:
        """Return the options of a load that say which rows of a source may be bad, and how many."""
        return rules_of(source, self.settings.checks_of(source), self.catalog)


def find_graph_file() -> Path:
    """The file that the environment names, else ``graph.yaml`` here, else the one of the demo in this repository."""
    named = os.environ.get(GRAPH_FILE_VARIABLE)
    if named:
        return Path(named)
    here = Path("graph.yaml")
    if here.is_file():
        return here
    demo = Path(__file__).parent.parent / "demo" / "graph.yaml"
    if demo.is_file():
        return demo
    raise og.errors.InvalidInput(
        f"no graph file: {GRAPH_FILE_VARIABLE} is not set and there is no graph.yaml here",
        hint=f"set {GRAPH_FILE_VARIABLE} to the path of one",
    )


def load_graph_file(path: str | Path | None = None) -> GraphFile:
    """Read and check a graph file. Raises one ``InvalidInput`` that names every problem found (fact ``problems``)."""
    where = find_graph_file() if path is None else Path(path)
    values, places = _parse(_text(where), where)
    return _checked(values, places, where.parent, where)


def check_settings(
    values: Mapping[str, Any],
    folder: Path,
    origin: Path | None = None,
    places: Mapping[Path_, tuple[int, int]] | None = None,
) -> GraphFile:
    """The same for settings that were read elsewhere; paths are relative to ``folder``. ``places``: where each value stands."""
    return _checked(dict(values), places or {}, folder, origin)


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > _BYTES_MAX:
            raise og.errors.LimitExceeded(
                f"{file} has more than {_BYTES_MAX} bytes", limit="graph_file_bytes", bound=_BYTES_MAX
            )
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise og.errors.InvalidInput(
            f"{file} cannot be read: {error.strerror or error}", hint="check the path", file=str(file)
        ) from error
    except UnicodeDecodeError as error:
        raise og.errors.InvalidInput(f"{file} is not UTF-8", hint="save it as UTF-8", file=str(file)) from error


# --- places in the text ---------------------------------------------------------------------------------------------------


def _too_deep(where: Path) -> og.errors.InvalidInput:
    return refused([Problem(where, (1, 1), "lists and mappings are nested too deeply")])


def _parse(text: str, where: Path) -> tuple[Any, dict[Path_, tuple[int, int]]]:
    """Plain values, and the line and column of each of them (and of each key) from 1."""
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise refused([Problem(where, _at(error), f"not YAML: {error.problem or error.context}")]) from error
    except yaml.YAMLError as error:
        raise refused([Problem(where, (1, 1), f"not YAML: {' '.join(str(error).split())[:200]}")]) from error
    except RecursionError:
        raise _too_deep(where) from None
    if root is None:
        raise refused([Problem(where, (1, 1), "the file is empty")])
    places: dict[Path_, tuple[int, int]] = {}
    problems: list[Problem] = []
    try:
        _walk(root, (), places, problems, where, frozenset())
    except RecursionError:
        raise _too_deep(where) from None
    if problems:
        raise refused(problems)
    try:
        return yaml.SafeLoader("").construct_document(root), places
    except yaml.MarkedYAMLError as error:
        raise refused([Problem(where, _at(error), f"not a plain value: {error.problem}")]) from error
    except (ValueError, OverflowError) as error:  # numbers and dates are read by Python itself
        raise refused([Problem(where, (1, 1), f"not a plain value: {str(error)[:200]}")]) from error


def _walk(
    node: yaml.Node,
    path: Path_,
    places: dict[Path_, tuple[int, int]],
    problems: list[Problem],
    where: Path,
    above: frozenset[int],
) -> None:
    if id(node) in above:
        problems.append(Problem(where, _mark(node), "an anchor contains itself"))
        return
    if len(places) > _VALUES_MAX:
        if not problems:
            problems.append(Problem(where, _mark(node), f"the file has more than {_VALUES_MAX} values"))
        return
    above = above | {id(node)}
    places.setdefault(path, _mark(node))
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                problems.append(Problem(where, _mark(key), "keys are plain names"))
                continue
            if name in seen:
                problems.append(Problem(where, _mark(key), f"{name!r} is said twice"))
            seen.add(name)
            places[(*path, name)] = _mark(key)
            _walk(value, (*path, name), places, problems, where, above)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _walk(value, (*path, index), places, problems, where, above)


def _at(error: yaml.MarkedYAMLError) -> tuple[int, int]:
    mark = error.problem_mark or error.context_mark
    return (1, 1) if mark is None else (mark.line + 1, mark.column + 1)


def _mark(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


# --- checks ---------------------------------------------------------------------------------------------------------------


def _checked(values: Any, places: Mapping[Path_, tuple[int, int]], folder: Path, where: Path | None) -> GraphFile:
    complaints = FileComplaints(places, where)
    if not isinstance(values, dict):
        complaints.add((), "a graph file is a mapping with 'graph' and 'sources'")
        raise refused(complaints.found)
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        for path, said in sentences(error, values):
            complaints.add(path, said)
        raise refused(complaints.found) from None
    settings = settings.based_on(folder)
    catalog = _catalog(settings, complaints)
    _check_names(settings, complaints)
    _check_order(settings, complaints)
    if catalog is not None:
        _check_types(settings, catalog, complaints)
        check_rules(settings, catalog, complaints)
    if complaints.found:
        raise refused(complaints.found)
    return GraphFile(settings, catalog, where)


def _catalog(settings: Settings, complaints: FileComplaints) -> Any:
    path, file = ("graph", "schema"), Path(settings.graph.schema_file)
    try:
        return og.parse_schema(_text(file))
    except og.errors.OmnigraphError as error:
        complaints.add(path, error.message if str(file) in error.message else f"{file.name}: {error.message}")
    return None


def _check_names(settings: Settings, complaints: FileComplaints) -> None:
    seen: set[str] = set()
    for index, source in enumerate(settings.sources):
        if source.name in seen:
            complaints.add(("sources", index, "name"), f"two sources are called {source.name!r}")
        if source.name == "upkeep":
            complaints.add(("sources", index, "name"), "'upkeep' is taken: assets of upkeep are called so")
        seen.add(source.name)


def _check_order(settings: Settings, complaints: FileComplaints) -> None:
    """Check that ``after`` names other sources of this file, and that no source waits for itself."""
    known = {source.name for source in settings.sources}
    after: dict[str, tuple[str, ...]] = {}
    for index, source in enumerate(settings.sources):
        for number, name in enumerate(source.after):
            if name not in known:
                complaints.add(("sources", index, "after", number), f"no source is called {name!r}{meant(name, known)}")
        after[source.name] = tuple(name for name in source.after if name in known)
    circle = circle_in(after)
    if circle:
        index = [source.name for source in settings.sources].index(circle[0])
        complaints.add(("sources", index, "after"), f"sources wait for one another: {' after '.join(circle)}")


def _check_types(settings: Settings, catalog: Any, complaints: FileComplaints) -> None:
    writers: dict[str, list[tuple[int, SourceSettings, Path_]]] = {}
    for index, source in enumerate(settings.sources):
        for path, kind, name in _named(source):
            here: Path_ = ("sources", index, *path)
            declared = _declared(catalog, kind, name)
            if declared is None:
                complaints.add(here, _unknown_type(catalog, kind, name))
                continue
            if declared.name in ("commit", "quarantine"):
                complaints.add(here, f"a type called {declared.name!r} has the name of an asset of every source")
            writers.setdefault(declared.name, []).append((index, source, here))
        if source.format == "graph" and source.types is None:
            for declared in catalog.types():
                writers.setdefault(declared.name, []).append((index, source, ("sources", index, "mode")))
        for number, table in enumerate(source.tables or ()):
            _check_columns(table, catalog, ("sources", index, "tables", number), complaints)
    for name, found in sorted(writers.items()):
        overwriting = [one for one in found if one[1].mode == "overwrite"]
        if overwriting and len(found) > 1:
            others = ", ".join(sorted({one[1].name for one in found} - {overwriting[0][1].name}))
            complaints.add(
                overwriting[0][2],
                f"{overwriting[0][1].name} overwrites {name}, which {others} writes too: one would undo the other",
            )


def _named(source: SourceSettings) -> Iterator[tuple[Path_, str | None, str]]:
    for number, table in enumerate(source.tables or ()):
        kind = "node" if table.node is not None else "edge"
        yield ("tables", number, kind), kind, table.type
    for number, name in enumerate(source.types or ()):
        yield ("types", number), None, name


def _declared(catalog: Any, kind: str | None, name: str) -> Any:
    node = catalog.find_node(name) if kind != "edge" else None
    return node or (catalog.find_edge(name) if kind != "node" else None)


def _unknown_type(catalog: Any, kind: str | None, name: str) -> str:
    known = [declared.name for declared in catalog.types() if kind is None or declared.table_key.startswith(f"{kind}:")]
    what = f"{kind} type" if kind else "type"
    return f"the schema has no {what} {name!r}{meant(name, known)}"


def _check_columns(table: Any, catalog: Any, path: Path_, complaints: FileComplaints) -> None:
    declared = _declared(catalog, "node" if table.node is not None else "edge", table.type)
    if declared is None:
        return
    known = {"id", *(_property_names(declared))} | ({"from", "to"} if table.edge is not None else set())
    for name in table.columns:
        if name not in known:
            complaints.add((*path, "columns", name), f"{declared.name} has no property {name!r}{meant(name, known)}")


def _property_names(declared: Any) -> list[str]:
    properties = declared.properties
    return list(properties) if isinstance(properties, Mapping) else [one.name for one in properties]


__all__ = ["GRAPH_FILE_VARIABLE", "GraphFile", "absolute", "check_settings", "find_graph_file", "load_graph_file"]
