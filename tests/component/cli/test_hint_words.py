"""Words that are refused, and the same as their hint says to type them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.component.cli.material import Run
from tests.component.cli.test_hints_followed import pattern

GRAPH = "social.omni"
LOAD = ("load", GRAPH, "--mode", "merge")
PEOPLE = ("--data", "people.jsonl")
QUERY = ("query", GRAPH, "--sql", "select * from Person")
DELETE = "delete Person where name = $name"

# (place in the engine, a part of the hint, the wrong words, the right ones)
WORDS: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "cli/call.py",
        "for example --storage-option aws_region",
        ("status", GRAPH, "--storage-option", "x"),
        ("status", GRAPH),
    ),
    (
        "cli/call.py",
        "give it once",
        ("status", GRAPH, "--storage-option", "allow_http=1", "--storage-option", "allow_http=1"),
        ("status", GRAPH, "--storage-option", "allow_http=1"),
    ),
    ("cli/commands/branch.py", "delete another branch", ("branch", "delete", GRAPH, "main"), ("branch", "list", GRAPH)),
    ("cli/commands/cleanup.py", "give --keep 10", ("cleanup", GRAPH), ("cleanup", GRAPH, "--keep", "10")),
    (
        "cli/commands/export.py",
        "or repeat with --force",
        ("export", GRAPH, "--output", "people.jsonl"),
        ("export", GRAPH, "--output", "people.jsonl", "--force"),
    ),
    (
        "cli/commands/export.py",
        "add --output FOLDER",
        ("export", GRAPH, "--format", "parquet"),
        ("export", GRAPH, "--format", "parquet", "--output", "out"),
    ),
    (
        "cli/commands/export.py",
        "give a new or empty folder",
        ("export", GRAPH, "--format", "parquet", "--output", "out", "--force"),
        ("export", GRAPH, "--format", "parquet", "--output", "out"),
    ),
    (
        "cli/commands/lint.py",
        "correct the places named",
        ("lint", "--query", "bad.gq", "--schema", "social.pg"),
        ("lint", "--query", "good.gq", "--schema", "social.pg"),
    ),
    ("cli/commands/load.py", "for example --data people.jsonl", LOAD, (*LOAD, *PEOPLE)),
    (
        "cli/commands/load.py",
        "give tables with --node TYPE=FILE",
        (*LOAD, *PEOPLE, "--delimiter", ";"),
        (*LOAD, "--node", "Person=p.csv", "--delimiter", ";"),
    ),
    ("cli/commands/load.py", "use --node TYPE=", (*LOAD, "--data", "p.csv"), (*LOAD, "--node", "Person=p.csv")),
    (
        "cli/commands/load.py",
        "for example 100 or 0.01",
        (*LOAD, *PEOPLE, "--on-bad-row", "quarantine", "--bad-rows-max", "few"),
        (*LOAD, *PEOPLE, "--on-bad-row", "quarantine", "--bad-rows-max", "100"),
    ),
    (
        "cli/commands/load.py",
        "for example --bound endpoints=",
        (*LOAD, *PEOPLE, "--on-bad-row", "quarantine", "--bound", "endpoints"),
        (*LOAD, *PEOPLE, "--on-bad-row", "quarantine", "--bound", "endpoints=0.15"),
    ),
    (
        "cli/commands/load.py",
        "for example --on-missing-endpoint Follows=stub",
        (*LOAD, *PEOPLE, "--on-missing-endpoint", "drop", "--on-missing-endpoint", "Follows=drop"),
        (*LOAD, *PEOPLE, "--on-missing-endpoint", "Follows=drop"),
    ),
    (
        "cli/commands/mutate.py",
        "give one of --params and --params-file",
        ("mutate", GRAPH, "--query", "good.gq", "--params", "{}", "--params-file", "p.json"),
        ("mutate", GRAPH, "--query", "good.gq", "--params", '{"name": "Ann"}'),
    ),
    (
        "cli/commands/mutate.py",
        "declare them: -e",
        ("mutate", GRAPH, "-e", DELETE, "--params", '{"name": "Ann"}'),
        ("mutate", GRAPH, "-e", f"query q($name: String) {{ {DELETE} }}", "--params", '{"name": "Ann"}'),
    ),
    (
        "cli/rows.py",
        "add --format parquet",
        (*QUERY, "--output", "r.parquet"),
        (*QUERY, "--format", "parquet", "--output", "r.parquet"),
    ),
    (
        "cli/rows.py",
        "choose another name, or delete the file",
        (*QUERY, "--format", "parquet", "--output", "people.jsonl"),
        (*QUERY, "--format", "parquet", "--output", "r.parquet"),
    ),
    (
        "cli/commands/query.py",
        "give --limit alone",
        (*QUERY, "--limit", "1", "--limit-rows", "1"),
        (*QUERY, "--limit", "1"),
    ),
    ("cli/commands/query.py", "give either --sql or --type", (*QUERY, "--type", "Person"), QUERY),
    ("cli/commands/explain.py", "give one of them", ("explain", "usage", "--all"), ("explain", "--all")),
    (
        "cli/commands/lint.py",
        "leave --branch and --at out",
        ("lint", "--query", "good.gq", "--schema", "social.pg", "--at", "2h ago"),
        ("lint", "--query", "good.gq", "--schema", "social.pg"),
    ),
    (
        "cli/commands/recover.py",
        "leave --grace out",
        ("recover", GRAPH, "--history", "--grace", "0"),
        ("recover", GRAPH, "--history"),
    ),
    (
        "cli/commands/recover.py",
        "add --history, or leave --limit out",
        ("recover", GRAPH, "--limit", "1"),
        ("recover", GRAPH, "--history", "--limit", "1"),
    ),
    ("cli/table_arguments.py", "Person=people.parquet", (*LOAD, "--node", "p.csv"), (*LOAD, "--node", "Person=p.csv")),
    (
        "cli/table_arguments.py",
        "name each property once",
        (*LOAD, "--node", "Person=p.csv:name=name,name=age"),
        (*LOAD, "--node", "Person=p.csv:name=name,age=age"),
    ),
    (
        "cli/table_arguments.py",
        "for example --format-of born",
        (*LOAD, "--edge", "Follows=f.csv", "--format-of", "since"),
        (*LOAD, "--edge", "Follows=f.csv", "--format-of", "since=%d.%m.%Y"),
    ),
)


@pytest.mark.parametrize(("place", "hint", "wrong", "right"), WORDS, ids=[f"{one[0]}: {one[1][:40]}" for one in WORDS])
def test_words_typed_as_their_hint_says_are_not_refused(
    place: str, hint: str, wrong: tuple[str, ...], right: tuple[str, ...], run: Run, folder: Path
) -> None:
    Path("p.csv").write_text("name;age\nZoe;1\n" if ";" in right else "name,age\nZoe,1\n")
    Path("f.csv").write_text("from,to,since\nAnn,Bob,01.02.2024\n")
    Path("p.json").write_text("{}")
    Path("good.gq").write_text(f"query q($name: String) {{ {DELETE} }}\n")
    Path("bad.gq").write_text("query q() { delete Nobody where name = 1 }\n")
    refused = run(*wrong, code=None)
    assert refused.code in (2, 3), refused
    assert pattern(hint).search(" ".join(refused.err.split())), refused.err
    run(*right)
