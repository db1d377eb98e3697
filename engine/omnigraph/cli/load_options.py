"""The options of ``omnigraph load``, one name each, so that the command reads as one page."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Mode(StrEnum):
    append = "append"
    merge = "merge"
    patch = "patch"
    overwrite = "overwrite"


class OnBadRow(StrEnum):
    fail = "fail"
    quarantine = "quarantine"


class Decimals(StrEnum):
    exact = "exact"
    round = "round"


LoadMode = Annotated[
    Mode,
    typer.Option(
        "--mode",
        help="append: ids must be new; merge: replace by id; patch: as merge, but what a record does not name keeps its "
        "value; overwrite: replace whole types.",
    ),
]
Data = Annotated[
    str | None, typer.Option("--data", metavar="FILE|-", help="Records (NDJSON, also .gz); - is standard input.")
]
NodeTables = Annotated[
    list[str] | None,
    typer.Option("--node", metavar="TYPE=FILE[:property=column,-column,…]", help="A table of nodes; may be repeated."),
]
EdgeTables = Annotated[
    list[str] | None,
    typer.Option(
        "--edge", metavar="TYPE=FILE[:from=column,to=column,-column,…]", help="A table of edges; may be repeated."
    ),
]
OnBadRowOption = Annotated[
    OnBadRow, typer.Option("--on-bad-row", help="fail: load nothing; quarantine: leave the bad rows out.")
]
BadRowsMax = Annotated[
    str | None,
    typer.Option("--bad-rows-max", metavar="N|SHARE", help="Fail beyond so many, or beyond a share like 0.01."),
]
Bound = Annotated[
    list[str] | None,
    typer.Option(
        "--bound",
        metavar="CHECK=N|SHARE",
        help="Fail beyond so many bad rows of a check: values, duplicates, endpoints, cardinality; may be repeated.",
    ),
]
OnMissingEndpoint = Annotated[
    list[str] | None,
    typer.Option(
        "--on-missing-endpoint",
        metavar="[TYPE=]ACTION",
        help="What becomes of edges without a node: fail, quarantine, drop or stub; may be repeated with edge types.",
    ),
]
QuarantineTo = Annotated[
    Path | None,
    typer.Option("--quarantine-to", metavar="FILE", help="Keep rows left out, with reasons; can be loaded again."),
]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", metavar="CHAR", help="Between the cells of CSV; \\t is a tab.")
]
QuoteChar = Annotated[str | None, typer.Option("--quote-char", metavar="CHAR", help="Around cells of CSV.")]
Encoding = Annotated[str | None, typer.Option("--encoding", metavar="NAME", help="Of CSV files, for example latin-1.")]
Null = Annotated[
    list[str] | None,
    typer.Option("--null", metavar="TEXT", help="A text of CSV that means null; may be repeated."),
]
NoHeader = Annotated[bool, typer.Option("--no-header", help="CSV files begin with data; columns are named 1, 2, ….")]
FormatOf = Annotated[
    list[str] | None,
    typer.Option(
        "--format-of",
        metavar="COLUMN=FORMAT",
        help="Dates or times of a CSV column, for example born=%d.%m.%Y, or epoch-s, epoch-ms.",
    ),
]
DecimalsOption = Annotated[
    Decimals,
    typer.Option("--decimals", help="exact: refuse decimals that lose digits; round: take the nearest number."),
]
Check = Annotated[bool, typer.Option("--check", help="Validate only; write nothing.")]
Explain = Annotated[bool, typer.Option("--explain", help="Print what would be written to each table; write nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Consent to overwriting on a remote store.")]
