"""A graph file is read strictly: what is wrong is said with its line, and everything that is wrong is said at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph_pipelines.graph_file import GRAPH_FILE_VARIABLE, find_graph_file, load_graph_file
from omnigraph_pipelines.resources import OmniGraphResource
from omnigraph_pipelines.settings import EnvRef, text_of

SCHEMA = """\
node Person { name: String @key  age: I32? }
node Note { text: String? }
edge Follows: Person -> Person { since: Date? }
"""
GOOD = """\
graph:
  name: social
  uri: data/social.omni
  schema: social.pg
sources:
  - name: crm
    batches: landing/crm/*/
    ready: _SUCCESS
    mode: merge
    tables:
      - node: Person
        files: people*.csv
        columns: {name: full_name}
      - edge: Follows
        files: follows*.parquet
        from: src
        to: dst
  - name: feed
    batches: landing/feed/*.jsonl
    format: graph
    types: [Person, Follows]
    mode: append
checks: {on_bad_row: quarantine, bad_rows_max: 0.001}
backpressure: {warn: 500, slow: 2000, fail: null}
spark: {master: "local[*]", conf: {}}
upkeep:
  optimize: {cron: "0 2 * * *"}
  cleanup: {cron: "30 2 * * *", keep: 10, older_than: 7d}
  compaction: {fragments_max: 64}
  reconcile: {interval_s: 30, grace_s: 60}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "social.pg").write_text(SCHEMA)
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "graph.yaml"
    path.write_text(text)
    return path


def problems(folder: Path, text: str) -> list[dict[str, Any]]:
    with pytest.raises(og.errors.InvalidInput) as refused:
        load_graph_file(write(folder, text))
    error = refused.value
    assert error.message.startswith(str(folder)) and error.hint
    found: list[dict[str, Any]] = error.facts["problems"]
    return found


def test_a_good_file_is_read_with_its_paths_seen_from_the_file(folder: Path) -> None:
    file = load_graph_file(write(folder, GOOD))
    crm, feed = file.settings.sources
    assert file.settings.graph.uri == str(folder / "data/social.omni")
    assert crm.batches == f"{folder}/landing/crm/*/" and crm.in_folders and not feed.in_folders
    assert crm.tables is not None and crm.tables[0].renamed == {"name": "full_name"}
    assert crm.tables[1].renamed == {"from": "src", "to": "dst"}
    assert file.types_of(crm) == ("Person", "Follows") == file.types_of(feed)
    assert file.settings.graph.pool == "graph_social_main"
    assert file.settings.backpressure.fail is None
    assert file.settings.upkeep.compaction.low == 16


CHANGED = [
    ("tables:", "tabels:", 10, "unknown key 'tabels'; did you mean 'tables'?"),
    ("mode: merge", "mode: upsert", 9, "'append', 'merge', 'patch' or 'overwrite', got 'upsert'"),
    ("mode: merge", "mode: merge\n    batches_per_run: 0", 10, "greater than or equal to 1, got 0"),
    ("mode: merge", "mode: merge\n    batches_per_run: 101", 10, "less than or equal to 100, got 101"),
    ("upkeep:", "commit: {share: true}\nupkeep:", 26, "unknown key 'share'"),
    ("  uri: data", "  durability: never\n  uri: data", 3, "'commit' or 'relaxed', got 'never'"),
    ("keep: 10", "keep: ten", 28, "valid integer, got 'ten'"),
    ("keep: 10", "keep: 0", 28, "greater than or equal to 1, got 0"),
    ("older_than: 7d", "older_than: a week", 28, "a duration is a number and one of"),
    ('cron: "0 2 * * *"', "cron: daily", 27, "five fields"),
    ("name: social", "name: so-cial", 2, "letters, digits and _"),
    ("node: Person", "node: Persn", 11, "no node type 'Persn'; did you mean 'Person'?"),
    ("edge: Follows", "edge: Note", 14, "no edge type 'Note'"),
    ("types: [Person, Follows]", "types: [Person, Nobody]", 21, "no type 'Nobody'"),
    ("{name: full_name}", "{nam: full_name}", 13, "no property 'nam'; did you mean 'name'?"),
    ("        files: people*.csv\n", "", 6, "need 'files' for every table"),
    ("      - node: Person\n", "      - node: Person\n        edge: Follows\n", 11, "either a node type or an edge"),
    ("  uri: data/social.omni\n", "", 1, "'uri' is missing"),
    ("name: feed", "name: crm", 18, "two sources are called 'crm'"),
    ("    format: graph\n", "", 18, "'tables', or 'format: graph'"),
    ('master: "local[*]"', 'master: local, remote: "sc://x"', 25, "exclude each other"),
    ("bad_rows_max: 0.001", "bad_rows_max: 1.5", 23, "a share below 1.0"),
    ("bad_rows_max: 0.001", "bad_rows_max: yes", 23, "got True"),
    ("fragments_max: 64", "fragments_max: 64, fragments_low: 64", 29, "fragments_low is below fragments_max"),
    ("schema: social.pg", "schema: nowhere.pg", 4, "cannot be read: No such file"),
    ("mode: append", "mode: overwrite", 21, "overwrites Person, which crm writes too"),
    ("  name: social\n", "  name: social\n  name: other\n", 3, "'name' is said twice"),
    ("upkeep:", "upkeep: {]", 26, "not YAML"),
]


@pytest.mark.parametrize(
    ("old", "new", "line", "said"), CHANGED, ids=[f"{new or old}"[:30] for old, new, _, _ in CHANGED]
)
def test_what_is_wrong_is_said_with_its_line(folder: Path, old: str, new: str, line: int, said: str) -> None:
    assert GOOD.count(old) >= 1
    found = problems(folder, GOOD.replace(old, new, 1))
    assert said in found[0]["message"]
    assert found[0]["line"] == line
    assert f"graph.yaml:{line}:" in found[0]["message"]


def test_every_problem_is_said_at_once(folder: Path) -> None:
    text = GOOD.replace("tables:", "tabels:").replace("mode: append", "mode: x").replace("keep: 10", "keep: x")
    assert [one["line"] for one in problems(folder, text)] == [10, 22, 28]


def test_a_schema_that_does_not_parse_is_told_with_its_own_place(folder: Path) -> None:
    (folder / "social.pg").write_text("node Person { name String }\n")
    (found,) = problems(folder, GOOD)
    assert found["line"] == 4 and "social.pg" in found["message"] and "1" in found["message"]


@pytest.mark.parametrize(
    "text", ["", "[]", "just text", "graph: &a {b: *a}", "graph: !!python/object:os.system x", "\t"]
)
def test_what_is_no_graph_file_at_all_is_refused(folder: Path, text: str) -> None:
    assert problems(folder, text)


def test_anchors_may_be_used_and_do_not_explode(folder: Path) -> None:
    load_graph_file(
        write(folder, GOOD.replace("mode: merge", "mode: &mode merge").replace("mode: append", "mode: *mode"))
    )
    layers = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    (found,) = problems(folder, f"a0: &a0 [x, x]\n{layers}")
    assert "more than" in found["message"]


def test_a_file_that_cannot_be_read_is_refused(folder: Path) -> None:
    with pytest.raises(og.errors.InvalidInput, match="nowhere.yaml cannot be read"):
        load_graph_file(folder / "nowhere.yaml")
    (folder / "latin.yaml").write_bytes(b"graph: \xff")
    with pytest.raises(og.errors.InvalidInput, match="not UTF-8"):
        load_graph_file(folder / "latin.yaml")
    (folder / "huge.yaml").write_bytes(b"#" * (5 << 20))
    with pytest.raises(og.errors.LimitExceeded):
        load_graph_file(folder / "huge.yaml")


def test_the_environment_names_the_file_and_then_comes_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delenv(GRAPH_FILE_VARIABLE, raising=False)
    write(folder, GOOD)
    assert find_graph_file() == Path("graph.yaml")
    monkeypatch.setenv(GRAPH_FILE_VARIABLE, "elsewhere.yaml")
    assert find_graph_file() == Path("elsewhere.yaml")


def test_a_value_may_come_from_the_environment_when_a_run_needs_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GRAPH_URI", raising=False)
    text = GOOD.replace(
        "uri: data/social.omni", "uri: {env: GRAPH_URI}\n  storage_options: {aws_endpoint: {env: ENDPOINT}}"
    )
    graph = load_graph_file(write(folder, text)).settings.graph
    assert isinstance(graph.uri, EnvRef)
    with pytest.raises(og.errors.InvalidInput, match="GRAPH_URI is not set"):
        text_of(graph.uri)
    monkeypatch.setenv("GRAPH_URI", "s3://bucket/graph")
    assert text_of(graph.uri) == "s3://bucket/graph"


def test_every_key_is_on_the_page_of_the_graph_file() -> None:
    from omnigraph_pipelines import settings

    page = (Path(__file__).parents[2] / "docs" / "reference" / "graph-file.md").read_text()
    parts = [one for one in vars(settings).values() if isinstance(one, type) and issubclass(one, settings.Part)]
    assert len(parts) > 10
    for part in parts:
        for name, field in part.model_fields.items():
            assert f"`{field.alias or name}`" in page or part is settings.EnvRef, f"{part.__name__}.{name}"


def test_how_a_graph_is_opened_stands_in_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[dict[str, Any]] = []

    def opening(uri: str, **given: Any) -> Any:
        opened.append(given)
        raise og.errors.StoreUnavailable("the store is away")

    opening_for_real = og.open
    monkeypatch.setattr(og, "open", opening)
    text = GOOD.replace("  uri: data", "  durability: relaxed\n  verify_reads: true\n  uri: data")
    og.init(str(folder / "plain.omni"), "node A { name: String @key }").close()
    opening_for_real(str(folder / "plain.omni"), read_only=True, group=True, commit={"combine": True}).close()
    for said in (GOOD, f"{text}commit: {{group: false, combine: true, offers: true}}\n"):
        resource = OmniGraphResource.from_settings(load_graph_file(write(folder, said)).settings)
        with pytest.raises(og.errors.StoreUnavailable):
            resource.open()
    names = ("durability", "verify_reads", "group", "commit")
    assert [tuple(given[name] for name in names) for given in opened] == [
        (None, None, None, None),
        ("relaxed", True, False, {"combine": True, "offers": True}),
    ]
