"""``omnigraph load``: records or tables in, one commit, a receipt out."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from omnigraph.cli.call import Answer, Call, Usage
from omnigraph.cli.load_options import (
    BadRowsMax,
    Bound,
    Check,
    Data,
    Decimals,
    DecimalsOption,
    Delimiter,
    EdgeTables,
    Encoding,
    Explain,
    FormatOf,
    LoadMode,
    Mode,
    NodeTables,
    NoHeader,
    Null,
    OnBadRow,
    OnBadRowOption,
    OnMissingEndpoint,
    QuarantineTo,
    QuoteChar,
    Yes,
)
from omnigraph.cli.options import DEADLINE_S, Deadline, ExpectHead, FromBranch, Key, LoadedBranch
from omnigraph.cli.render import Screen, count_text
from omnigraph.cli.table_arguments import CsvFlags, table_files
from omnigraph.core.errors import DataInvalid, NotFound
from omnigraph.wire.receipt import Loaded, Receipt, TableChange

if TYPE_CHECKING:
    from omnigraph.graph import Graph

_TABLE = re.compile(r"\.(?:csv|tsv|parquet|pq)(?:\.gz)?$", re.I)
_MISSING_SHOWN = 5
_GZIP = b"\x1f\x8b"


def run(
    call: Call,
    mode: LoadMode,
    data: Data = None,
    node: NodeTables = None,
    edge: EdgeTables = None,
    branch: LoadedBranch = "main",
    from_: FromBranch = None,
    key: Key = None,
    on_bad_row: OnBadRowOption = OnBadRow.fail,
    bad_rows_max: BadRowsMax = None,
    bound: Bound = None,
    on_missing_endpoint: OnMissingEndpoint = None,
    quarantine_to: QuarantineTo = None,
    expect_head: ExpectHead = None,
    deadline: Deadline = DEADLINE_S,
    delimiter: Delimiter = None,
    quote_char: QuoteChar = None,
    encoding: Encoding = None,
    null: Null = None,
    no_header: NoHeader = False,
    format_of: FormatOf = None,
    decimals: DecimalsOption = Decimals.exact,
    check: Check = False,
    explain: Explain = False,
    yes: Yes = False,
) -> Answer:
    """Bring records into a graph, as one commit.

    Give records with --data, or tables (Parquet, CSV) with --node and --edge. Either all of the input is committed or
    nothing is; --on-bad-row quarantine leaves out rows that break the schema and keeps the rest.
    """
    rules: dict[str, Any] = {
        "on_bad_row": on_bad_row.value,
        "bad_rows_max": _bad_rows("--bad-rows-max", bad_rows_max),
        "bounds": _bounds(bound or ()),
        "on_missing_endpoint": _on_missing_endpoint(on_missing_endpoint or ()),
    }
    flags = CsvFlags(
        delimiter=delimiter,
        quote_char=quote_char,
        encoding=encoding,
        null=tuple(null or ()),
        no_header=no_header,
        format_of=tuple(format_of or ()),
        decimals=decimals.value,
    )
    with _source(data, node or (), edge or (), flags) as source:
        if check:
            return _check(call, source, mode, branch, from_, rules)
        if explain:
            return _explain(call, source, mode, branch, from_, rules)
        if mode is Mode.overwrite:
            call.want_consent("load --mode overwrite", yes=yes)
        with call.writing() as graph, call.screen.busy("loading"):
            created = from_ is not None and not _is_there(graph, branch)
            receipt = graph.load(
                source,
                mode=mode.value,
                branch=branch,
                from_branch=from_,
                idempotency_key=key,
                **rules,
                quarantine_to=quarantine_to,
                expect_head=expect_head,
                deadline_s=deadline,
            )
            loaded = loaded_from(graph.uri, mode.value, receipt, branch_created=created)
    return Answer(loaded, lambda screen: _show(screen, loaded.to_dict()))


def loaded_from(uri: str, mode: str, receipt: Receipt, *, branch_created: bool) -> Loaded:
    """The receipt, with the counts that a reader of a log wants first."""
    nodes = _taken(receipt.tables, "node:")
    edges = _taken(receipt.tables, "edge:")
    return Loaded.extending(
        receipt,
        uri=uri,
        mode=mode,
        branch_created=branch_created,
        nodes_loaded=sum(nodes),
        edges_loaded=sum(edges),
        node_types_loaded=len(nodes),
        edge_types_loaded=len(edges),
    )


def _taken(tables: Mapping[str, TableChange], prefix: str) -> list[int]:
    """Rows of the input per type, those that were there already included."""
    return [
        (change.inserted or 0) + (change.updated or 0) + (change.unchanged or 0)
        for key, change in tables.items()
        if key.startswith(prefix)
    ]


def _show(screen: Screen, result: dict[str, Any]) -> None:
    nodes = f"{count_text(result['nodes_loaded'], 'node')} of {count_text(result['node_types_loaded'], 'type')}"
    edges = f"{count_text(result['edges_loaded'], 'edge')} of {count_text(result['edge_types_loaded'], 'type')}"
    if result["branch_created"]:
        screen.line(f"made the branch {result['branch']}")
    screen.line(f"loaded {nodes}, {edges}")
    names = ("inserted", "updated", "deleted", "unchanged")
    if result["tables"]:
        rows = [(key, *(change[name] for name in names)) for key, change in result["tables"].items()]
        screen.table(("table", *names), rows)
    if result["rejected"]["total"]:
        screen.line(f"{count_text(result['rejected']['total'], 'row')} left out", style="yellow")
        for row in result["rejected"]["rows"][:5]:
            screen.line(f"  {_reasons(row)}")
    _show_ends(screen, result["stubs"], result["dropped"], result["rejected"]["missing_ids"])
    if result["commit_id"] is None:
        screen.line("nothing changed: no commit")
    else:
        screen.line(
            f"commit {result['commit_id']}" + (" (replayed: this key was loaded before)" if result["replayed"] else "")
        )
    for warning in result["warnings"]:
        screen.warn(f"warning: {warning}")


def _show_ends(
    screen: Screen, stubs: Mapping[str, int], dropped: Mapping[str, int], missing_ids: Mapping[str, int]
) -> None:
    """What became of edges that name a node which does not exist, and which nodes these are."""
    for name, count in dropped.items():
        screen.line(f"{count_text(count, 'row')} of {name} dropped: a node is missing", style="yellow")
    for name, count in stubs.items():
        screen.line(f"{count_text(count, 'stub')} of {name} made")
    if missing_ids:
        listed = [f"{name} ({count}x)" for name, count in list(missing_ids.items())[:_MISSING_SHOWN]]
        screen.line(f"most often missing: {', '.join(listed)}")


def _reasons(row: Mapping[str, Any]) -> str:
    reasons = row.get("reasons", ())
    return "; ".join(str(one.get("message", one) if isinstance(one, Mapping) else one) for one in reasons)


# --- checking only ------------------------------------------------------------------------------------------------------


def _is_there(graph: Graph, branch: str) -> bool:
    try:
        graph.snapshot(branch)
    except NotFound:
        return False
    return True


def _explain(call: Call, source: Any, mode: Mode, branch: str, from_: str | None, rules: Mapping[str, Any]) -> Answer:
    with call.reading() as graph, call.screen.busy("planning"):
        plan = graph.load(
            source,
            mode=mode.value,
            branch=branch,
            from_branch=from_,
            dry_run=True,
            **rules,
        )

    def show(screen: Screen) -> None:
        screen.line(f"on commit {plan.base_commit} of {plan.branch}; nothing was written")
        names = ("inserted", "updated", "deleted", "unchanged")
        rows = [
            (
                key,
                ", ".join(table.effects),
                f"{table.version_before} → {table.version}",
                *(getattr(table, n) for n in names),
            )
            for key, table in plan.tables.items()
        ]
        if rows:
            screen.table(("table", "effects", "version", *names), rows)
        else:
            screen.line("nothing to do")
        if plan.reads:
            screen.line("checked against " + ", ".join(f"{key} at {version}" for key, version in plan.reads.items()))
        if plan.rejected:
            screen.line(f"{count_text(plan.rejected.total, 'row')} would be left out", style="yellow")
        _show_ends(screen, plan.stubs, plan.dropped, plan.rejected.missing_ids)

    return Answer(plan, show)


def _check(call: Call, source: Any, mode: Mode, branch: str, from_: str | None, rules: Mapping[str, Any]) -> Answer:
    with call.reading() as graph, call.screen.busy("checking"):
        if from_ is not None and not _is_there(graph, branch):
            branch = from_  # what the branch would be made from is what the input has to fit
        report = graph.check(source, mode=mode.value, branch=branch, **rules)
    if not report.ok:
        counts = ", ".join(f"{count} {code}" for code, count in report.by_reason.items())
        raise DataInvalid(
            f"{count_text(report.total, 'violation')} in the input ({counts}); nothing was written",
            hint="correct the records named, or load with --on-bad-row quarantine",
            violations=[dict(one) for one in report.violations],
            total=report.total,
            by_reason=dict(report.by_reason),
            missing_ids=dict(report.missing_ids),
        )

    def show(screen: Screen) -> None:
        left = report.rejected.total
        said = f"{count_text(left, 'row')} would be left out" if left else "no violations"
        screen.line(f"{said}; nothing was written")
        _show_ends(screen, report.stubs, report.dropped, report.missing_ids)

    return Answer(report, show)


# --- what to load -------------------------------------------------------------------------------------------------------


@contextmanager
def _source(data: str | None, nodes: Sequence[str], edges: Sequence[str], flags: CsvFlags) -> Iterator[Any]:
    if (data is None) == (not nodes and not edges):
        raise Usage(
            "what to load? give either --data or tables with --node and --edge",
            hint="for example --data people.jsonl, or --node Person=people.parquet",
        )
    if data is None:
        from omnigraph.write.sources.batch import Batch

        yield Batch(nodes=table_files("--node", nodes, flags), edges=table_files("--edge", edges, flags))
    elif flags.is_given:
        raise Usage(
            "options of CSV files and of decimals say nothing about --data, which takes records (NDJSON)",
            hint="give tables with --node TYPE=FILE and --edge TYPE=FILE",
        )
    elif data == "-":
        with TemporaryDirectory(prefix="omnigraph-") as folder:
            yield _spooled(Path(folder))
    else:
        # A path object: as a string, a file whose name starts with a brace would be taken for its own content.
        _refuse_tables(data)
        yield data if "://" in data else Path(data)


def _refuse_tables(data: str) -> None:
    """A table does not say which type its rows have: explain instead of guessing."""
    if _TABLE.search(data):
        raise Usage(
            f"--data takes records (NDJSON), and {data} is a table, which does not say the type of its rows",
            hint=f"use --node TYPE={data}, or --edge TYPE={data}:from=COLUMN,to=COLUMN for edges",
        )


def _spooled(folder: Path) -> Path:
    """Standard input as a file: a load may read its source more than once."""
    stream = sys.stdin.buffer
    start = stream.read(len(_GZIP))
    path = folder / ("stdin.jsonl.gz" if start == _GZIP else "stdin.jsonl")
    with path.open("wb") as file:
        file.write(start)
        shutil.copyfileobj(stream, file, 1 << 20)
    return path


def _bad_rows(option: str, text: str | None) -> int | float | None:
    if text is None:
        return None
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        raise Usage(f"{option} takes a number or a share, got {text!r}", hint="for example 100 or 0.01") from None


def _bounds(given: Sequence[str]) -> dict[str, int | float] | None:
    found: dict[str, int | float] = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not equals or name in found:
            said = f"{name} is bounded twice" if equals else f"--bound takes CHECK=N or CHECK=SHARE, got {item!r}"
            raise Usage(said, hint="for example --bound endpoints=0.15")
        found[name] = _bad_rows("--bound", text) or 0
    return found or None


def _on_missing_endpoint(given: Sequence[str]) -> str | dict[str, str] | None:
    """One action for all edge types, or one for each that is named."""
    pairs = [item.rpartition("=") for item in given]
    if len(pairs) == 1 and not pairs[0][1]:
        return given[0]
    named = {name: action for name, equals, action in pairs if equals}
    if len(named) < len(pairs):
        raise Usage(
            "--on-missing-endpoint takes one action for all edge types, or TYPE=ACTION once for each",
            hint="for example --on-missing-endpoint Follows=stub --on-missing-endpoint Likes=drop",
        )
    return named or None
