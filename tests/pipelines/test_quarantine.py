"""Rows that were left out are kept under their batch's name, counted by reason, and loaded again once they fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph_pipelines.cli import main
from omnigraph_pipelines.quarantine import Quarantine, QuarantineFile, summary_of
from omnigraph_pipelines.quarantine_replay import Replay, failure_of, open_entries, replay, replay_each

SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person { since: I32? }\n"
FILE = """\
graph: {name: people, uri: people.omni, schema: people.pg}
sources:
  - {name: feed, batches: "landing/*.jsonl", format: graph, mode: MODE}
"""


def person(name: str) -> dict[str, Any]:
    return {"type": "Person", "data": {"name": name}}


def knows(src: str, dst: str) -> dict[str, Any]:
    return {"edge": "Knows", "from": src, "to": dst}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMNIGRAPH_GRAPH_FILE", raising=False)
    Path("people.pg").write_text(SCHEMA)
    Path("graph.yaml").write_text(FILE.replace("MODE", "merge"))
    return tmp_path


def left_out(root: str, *edges: tuple[str, str]) -> Path:
    """The file that the engine writes of edges without a node."""
    rows, bad = Path("rows.jsonl"), Path("bad.jsonl")
    bad.unlink(missing_ok=True)
    rows.write_text("".join(json.dumps(knows(*edge)) + "\n" for edge in edges))
    with og.open(root) as graph:
        graph.load(rows, mode="merge", on_bad_row="quarantine", quarantine_to=bad)
    return bad


def test_a_file_has_the_batchs_name_and_is_never_replaced(folder: Path, any_root: str) -> None:
    og.init(any_root, SCHEMA).close()
    kept = Quarantine(any_root)
    first = kept.keep("feed", "2026/a.b", left_out(any_root, ("a", "b")))
    assert first.path == f"{any_root}.quarantine/feed/2026%2Fa.b.jsonl"
    assert kept.keep("feed", "2026/a.b", left_out(any_root, ("a", "b"))) == first
    other = kept.keep("feed", "2026/a.b", left_out(any_root, ("c", "d"), ("c", "e")))
    assert other.path.endswith("/2026%2Fa.b.2.jsonl")
    assert kept.entries() == [first, other] and kept.entries("crm") == []
    numbered = kept.keep("crm", "x.2", left_out(any_root, ("a", "b")))
    assert kept.entries("crm") == [numbered] and numbered.path.endswith("/x%2E2.jsonl") and numbered.number == 1
    assert b'"a"' in b"".join(kept.lines(first))


def test_reasons_and_the_most_frequent_missing_ids_are_counted(folder: Path, any_root: str) -> None:
    og.init(any_root, SCHEMA).close()
    file = left_out(any_root, ("x", "x"), ("x", "y"), ("x", "z"))
    found = summary_of([*file.read_bytes().splitlines(), b"{edited"])
    assert found.rows == 4 and found.reasons == {"missing-endpoint": 6, "unreadable": 1}
    assert next(iter(found.missing.items())) == ("x", 4) and len(found.missing) == 3


def test_a_replay_loads_what_fits_now_and_keeps_the_rest(folder: Path, any_root: str) -> None:
    og.init(any_root, SCHEMA).close()
    kept = Quarantine(any_root)
    entry = kept.keep("feed", "b1", left_out(any_root, ("a", "b"), ("a", "lost")))
    with og.open(any_root) as graph:
        nothing = replay(graph, kept, entry, branch="main", mode="merge")
        assert (nothing.loaded, nothing.left, nothing.commit_id) == (0, 2, None)
        assert open_entries(graph, kept, "feed") == [entry], "nothing of it fitted: it stays as it is"
        graph.load([person("a"), person("b")], mode="merge")
        found = replay(graph, kept, entry, branch="main", mode="merge")
        assert (found.loaded, found.left) == (1, 1) and found.summary is not None
        assert found.summary.missing == {"lost": 1}
        [rest] = open_entries(graph, kept, "feed")
        assert rest.number == 2 and graph.snapshot().count("Knows") == 1


def test_a_replay_that_died_after_its_commit_adds_nothing_twice_and_keeps_the_rest(folder: Path) -> None:
    root = str(folder / "people.omni")
    og.init(root, SCHEMA).close()
    kept = Quarantine(root)
    entry = kept.keep("feed", "b1", left_out(root, ("a", "b"), ("a", "lost")))
    with og.open(root) as graph:
        graph.load([person("a"), person("b")], mode="merge")

        class Dies(Quarantine):
            def keep_bytes(self, *given: Any) -> Any:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            replay(graph, Dies(root), entry, branch="main", mode="merge")
        assert graph.snapshot().count("Knows") == 1 and open_entries(graph, kept, "feed") == [entry]
        found = replay(graph, kept, entry, branch="main", mode="merge")
        assert (found.loaded, found.left) == (1, 1) and graph.snapshot().count("Knows") == 1
        [rest] = open_entries(graph, kept, "feed")
        assert rest.number == 2 and b"lost" in b"".join(kept.lines(rest))


def test_where_the_rest_was_lost_a_replay_says_so_and_adds_nothing(folder: Path, s3_root: str) -> None:
    og.init(s3_root, SCHEMA).close()
    kept = Quarantine(s3_root)
    entry = kept.keep("feed", "b1", left_out(s3_root, ("a", "b"), ("a", "lost")))
    with og.open(s3_root) as graph:
        graph.load([person("a"), person("b")], mode="merge")
        replay(graph, kept, entry, branch="main", mode="merge")
        with pytest.raises(og.errors.InvalidInput, match="died before it kept the rows"):
            replay(graph, kept, entry, branch="main", mode="merge")
        assert graph.snapshot().count("Knows") == 1


def test_rows_of_a_source_that_appends_are_loaded_all_or_none_and_once(folder: Path, any_root: str) -> None:
    og.init(any_root, SCHEMA).close()
    kept = Quarantine(any_root)
    entry = kept.keep("feed", "b1", left_out(any_root, ("a", "b")))
    with og.open(any_root) as graph:
        with pytest.raises(og.errors.DataInvalid):
            replay(graph, kept, entry, branch="main", mode="append")
        graph.load([person("a"), person("b")], mode="merge")
        first = replay(graph, kept, entry, branch="main", mode="append")
        again = replay(graph, kept, entry, branch="main", mode="append")
        assert first.commit_id == again.commit_id and graph.snapshot().count("Knows") == 1


NONSENSE = b'{"record": \nfoo\n"bar\xff"}\n'


@pytest.mark.parametrize("mode", ["append", "merge", "patch"])
def test_a_file_that_was_edited_into_nonsense_is_refused_and_changes_nothing(
    folder: Path, any_root: str, mode: str
) -> None:
    og.init(any_root, SCHEMA).close()
    kept = Quarantine(any_root)
    broken = Path("broken.jsonl")
    broken.write_bytes(b'{"record": {"type": "Nobody", "data": {}}, "reasons": 7}\n' + NONSENSE)
    entry = kept.keep("feed", "b1", broken)
    with og.open(any_root) as graph:
        head = graph.snapshot().commit_id
        if mode == "append":
            with pytest.raises(og.errors.DataInvalid) as refused:
                replay(graph, kept, entry, branch="main", mode=mode)
            assert f"{entry.path}: no JSON object in row 2, 3, 4" in refused.value.message
        else:
            found = replay(graph, kept, entry, branch="main", mode=mode)
            assert (found.loaded, found.left, found.commit_id, found.kept_as) == (0, 4, None, None)
        assert graph.snapshot().commit_id == head and not graph.notes.list("replayed")
        assert open_entries(graph, kept, "feed") == [entry]


def test_a_replay_counts_the_rows_that_entered_and_keeps_the_bytes_of_the_others(folder: Path, any_root: str) -> None:
    og.init(any_root, SCHEMA).close()
    kept = Quarantine(any_root)
    odd = rb'{"type": "Person", "data": {"name": "x", "more": [1e400, "\ud800"], "more": 2}}'
    row = b'{"reasons": [{"source": "landing/b1.jsonl", "record": 41}],\n "record": ' + odd + b"}\n"
    bare = b'{"type": "Nobody", "data": {}}\n'
    broken = Path("broken.jsonl")
    broken.write_bytes(json.dumps({"record": person("a"), "reasons": []}).encode() + b"\n\n" + NONSENSE + row + bare)
    entry = kept.keep("feed", "b1", broken)
    with og.open(any_root) as graph:
        found = replay(graph, kept, entry, branch="main", mode="merge")
        assert (found.loaded, found.left) == (1, 5) and graph.snapshot().count("Person") == 1
        [rest] = open_entries(graph, kept, "feed")
        lines = list(kept.lines(rest))
        assert lines[:3] == NONSENSE.splitlines() and lines[3].startswith(b'{"record":' + odd + b',"reasons":[')
        places = [[(one["source"], one["record"]) for one in json.loads(line)["reasons"]] for line in lines[3:]]
        assert places == [[("landing/b1.jsonl", 41)], [(entry.path, 6)]]
        again = replay(graph, kept, rest, branch="main", mode="merge")
        assert (again.loaded, again.left, again.kept_as) == (0, 5, None)


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["quarantine", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_commands_list_show_and_replay(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(folder / "people.omni")
    og.init(root, SCHEMA).close()
    assert call(capsys, "list")[1] == "0 open, 0 replayed\n"
    code, _, err = call(capsys, "show", "-s", "feed", "-b", "b9")
    assert code == 3 and "nothing is kept b9 of feed" in err and "Traceback" not in err
    Quarantine(root).keep("feed", "b1", left_out(root, ("a", "b"), ("a", "lost")))
    code, out, _ = call(capsys, "list")
    assert code == 0 and "open      feed/b1" in out and "people.omni.quarantine/feed/b1.jsonl" in out
    code, out, _ = call(capsys, "show")
    assert "2 rows" in out and "2  miss a" in out and "missing-endpoint" in out
    with og.open(root) as graph:
        graph.load([person("a"), person("b")], mode="merge")
    code, out, _ = call(capsys, "replay", "-s", "feed")
    assert code == 0 and "feed/b1  1 loaded, 1 left in" in out and "1 row loaded, 1 left" in out
    code, out, _ = call(capsys, "list", "--json")
    entries = json.loads(out)["result"]["entries"]
    assert [(one["number"], one["replayed"]) for one in entries] == [(1, True), (2, False)]
    code, _, err = call(capsys, "list", "-s", "fed")
    assert code == 3 and "the graph file has no source 'fed'" in err


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_file_that_is_refused_does_not_keep_the_others_back(
    folder: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    Path("graph.yaml").write_text(FILE.replace("MODE", mode))
    root = str(folder / "people.omni")
    og.init(root, SCHEMA).close()
    kept = Quarantine(root)
    good = Path("good.jsonl")
    good.write_text(json.dumps(person("a")) + "\n")
    bad = left_out(root, ("a", "lost"))
    first = kept.keep("feed", "b1", bad)
    kept.keep("feed", "b2", good)
    code, out, err = call(capsys, "replay")
    assert "feed/b2  1 loaded\n" in out and "1 row loaded" in out
    with og.open(root) as graph:
        assert graph.snapshot().count("Person") == 1 and open_entries(graph, kept, "feed") == [first]
    assert code == (3 if mode == "append" else 0) and "Traceback" not in err
    if mode == "append":
        assert f"error[data-invalid]: {first.path} record 1: " in err and "rows.jsonl" not in err
        assert "hint: load what the rows refer to" in err
        said = json.loads(call(capsys, "replay", "--json")[1])
        assert not said["ok"] and [one["file"] for one in said["error"]["problems"]] == [first.path]


def test_one_error_stands_for_all_files_and_is_the_worst_of_them() -> None:
    entries = [QuarantineFile("feed", name, 1, f"{name}.jsonl", 1) for name in ("a", "b", "c")]
    errors = {
        "a": og.errors.DataInvalid("a.jsonl record 1: bad", violations=[]),
        "b": og.errors.StoreRefused("b.jsonl: denied", hint="ask for rights"),
    }

    def load(entry: QuarantineFile) -> Replay:
        if entry.batch in errors:
            raise errors[entry.batch]
        return Replay(entry, "01", 1)

    done, failures = replay_each(entries, load)
    assert [one.entry for one in done] == entries[2:] and [one.entry for one in failures] == entries[:2]
    found = failure_of(done, failures)
    assert isinstance(found, og.errors.StoreRefused) and found.hint == "ask for rights"
    assert "2 of 3 quarantine files" in found.message and "a.jsonl record 1: bad" in found.message
    assert failure_of(done, []) is None
