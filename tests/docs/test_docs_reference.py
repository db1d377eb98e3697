"""Reference pages say what the code does: what can be derived is compared, what is claimed has a test that exists."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest

import omnigraph
from omnigraph import init
from omnigraph import open as open_graph
from omnigraph.cli import tree
from omnigraph.cli.reference import help_text
from omnigraph.commit.effects import RULES
from omnigraph.commit.intent import decode, encode_plan, encode_ticket
from omnigraph.commit.intent_format import ARMED, STATES, WAITING
from omnigraph.commit.recovery.audit import SCHEMA as AUDIT_SCHEMA
from omnigraph.commit.recovery.audit import decode as decode_recovery
from omnigraph.core.documents import canonical
from omnigraph.core.errors import Corruption, all_errors
from omnigraph.core.meter import Meter
from omnigraph.distributed.fragments import StagedFragments
from omnigraph.distributed.staging_record import decode as decode_record
from omnigraph.graph import Graph
from omnigraph.manifest.digests import digest
from omnigraph.manifest.fragments import join
from omnigraph.manifest.refs import decode as decode_name
from omnigraph.manifest.refs import encode as encode_name
from omnigraph.manifest.rows import ARROW_SCHEMA, RawRow
from omnigraph.manifest.state import TAIL_KEEP, TAIL_ROLL
from omnigraph.schema.catalog import ScalarKind
from omnigraph.store import layout
from omnigraph.table.checksums import decode as decode_lines
from omnigraph.table.checksums import encode as encode_line
from omnigraph.upkeep.cleanup_record import read_record
from omnigraph.write.base import violations
from tests.docs import generated, pages

REFERENCE = pages.DOCS / "reference"


def _text(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(generated.PARTS))
def test_what_is_made_from_the_code_is_up_to_date(name: str) -> None:
    _, make = generated.PARTS[name]
    assert generated.inside(name) == make(), "run `python -m tests.docs.generated`"


def test_every_error_code_is_documented() -> None:
    page = _text("errors.md")
    assert not [code for code in all_errors() if f"| `{code}` |" not in page]


def test_every_reason_that_a_record_is_refused_for_is_documented() -> None:
    codes = {
        value
        for name, value in vars(violations).items()
        if name.isupper() and isinstance(value, str) and re.fullmatch(r"[a-z-]+", value)
    }
    page = _text("load-format.md")
    assert len(codes) > 20 and not [code for code in codes if f"| `{code}` |" not in page]


def test_every_public_name_is_documented() -> None:
    page = _text("python.md")
    assert not [name for name in omnigraph.__all__ if f"`{name}`" not in page and f"omnigraph.{name}" not in page]
    assert not [name for name in vars(Graph) if not name.startswith("_") and f"`graph.{name}`" not in page]


def test_every_variable_of_the_environment_is_documented() -> None:
    places = [*(pages.ROOT / "engine").rglob("*.py"), *(pages.ROOT / "omnigraph_pipelines").rglob("*.py")]
    places += [pages.ROOT / "run", *(pages.ROOT / "tests").rglob("*.py")]
    name = re.compile(r"\bOMNIGRAPH_[A-Z0-9_]*[A-Z0-9]\b")
    read = {found for place in places for found in name.findall(place.read_text(encoding="utf-8"))}
    assert read == set(name.findall(_text("configuration.md"))) and len(read) > 8


def test_every_type_of_the_schema_language_is_documented() -> None:
    page = _text("schema-language.md")
    assert not [kind.value for kind in ScalarKind if f"| `{kind.value}" not in page]


_SAID = re.compile(r"`(omnigraph [^`\n]+)`")


def test_every_command_that_a_sentence_names_can_be_typed() -> None:
    """Blocks are run; this is about what stands between them, like the tables of the runbook."""
    wrong, seen = [], 0
    for page in pages.all_pages():
        prose = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
        for said in _SAID.findall(prose) if page.name not in ("cli.md", "errors.md") else ():
            words = said.split()[1:]
            if words == ["--help"]:
                continue
            command = tree.find(" ".join(words[:2])) or tree.find(words[0])
            options = [word.partition("=")[0] for word in words if word.startswith("--")]
            seen += 1
            if command is None or [option for option in options if option not in help_text(command)]:
                wrong.append(f"{page.name}: {said}")
    assert not wrong and seen > 40


# --- what a merge of two versions of a page leaves behind ---------------------------------------------------------------

_LONG_CHARS = 45
_MADE_FROM_CODE = {"python.md", "cli.md"}


def _twice(text: str) -> list[str]:
    """Lines of prose that stand twice in one page, whatever the case of their first letters."""
    seen: dict[str, str] = {}
    found, in_code = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            in_code = not in_code
        said = line.strip().lower()
        if in_code or said.startswith("|") or len(said) < _LONG_CHARS:
            continue
        if said in seen:
            found.append(line.strip())
        seen[said] = line
    return found


@pytest.mark.parametrize("page", pages.all_pages(), ids=lambda page: page.name)
def test_no_sentence_stands_twice_in_a_page(page: Path) -> None:
    if page.name not in _MADE_FROM_CODE:
        assert _twice(page.read_text(encoding="utf-8")) == []


def test_a_sentence_that_stands_twice_is_found() -> None:
    line = "- **Schemas** are merged too, element by element, as rows are."
    assert _twice(f"{line}\n\n{line.replace('Schemas', 'schemas')}\n") != []
    assert _twice(f"{line}\n```\n{line}\n```\n") == []


# --- guarantees ---------------------------------------------------------------------------------------------------------

_CLAIMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@cache
def _tests_of(path: Path) -> frozenset[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return frozenset(found)


def test_every_test_that_a_page_names_exists() -> None:
    claimed = {(page, path, name) for page in pages.all_pages() for path, name in _CLAIMED.findall(page.read_text())}
    assert len(claimed) > 40
    missing = [
        f"{page.name}: {path}::{name}"
        for page, path, name in sorted(claimed)
        if not (pages.ROOT / path).exists() or name not in _tests_of(pages.ROOT / path)
    ]
    assert not missing


def test_every_guarantee_names_a_test() -> None:
    rows = [line for line in _text("guarantees.md").splitlines() if re.match(r"\| \*\*", line)]
    assert len(rows) > 20
    assert not [row[:60] for row in rows if not _CLAIMED.search(row)]


# --- the storage format -------------------------------------------------------------------------------------------------


def test_the_columns_of_the_manifest_are_documented_in_order() -> None:
    section = _section(_text("storage-format.md"), "Columns of `__manifest`")
    assert re.findall(r"^\| `(\w+)` \|", section, re.M) == ARROW_SCHEMA.names
    assert "`omnigraph:internal_schema_version`" in section


def test_the_columns_of_the_audit_are_documented_in_order() -> None:
    section = _section(_text("storage-format.md"), "Recoveries")
    assert re.findall(r"^\| `(\w+)` \|", section, re.M) == AUDIT_SCHEMA.names


def _shown(name: str) -> list[str]:
    found = [block.text for block in pages.blocks(REFERENCE / "storage-format.md") if block.option("is") == name]
    assert found, name
    return found


def test_the_intents_that_are_shown_are_intents_as_they_are_written() -> None:
    states = []
    for text in _shown("intent"):
        raw = json.loads(text)
        read = decode(raw["op"], canonical(raw))
        states.append(read.state)
        if read.plan is not None:
            assert encode_plan(read.plan) == canonical(raw) and read.plan.head == raw["requests"][-1]["id"]
        else:
            assert read.ticket is not None and encode_ticket(read.ticket) == canonical(raw)
    assert states == [ARMED, WAITING]


def test_every_member_state_and_kind_of_an_intent_is_documented() -> None:
    section = _text("storage-format.md").partition("## Intents")[2].partition("## Staging records")[0]
    words = set(re.findall(r"`(\w+)`", re.sub(r"```.*?```", "", section, flags=re.S)))
    assert {*json.loads(_shown("intent")[0]), *RULES, *STATES} - {"branch", "format"} <= words


def test_an_intent_that_is_shown_and_changed_is_refused() -> None:
    raw = json.loads(_shown("intent")[0])
    with pytest.raises(Corruption):
        decode(raw["op"], canonical({**raw, "durable": True}))


def test_the_fragments_that_are_shown_are_one_version_with_its_digests() -> None:
    [text] = _shown("digests")
    stored = json.loads(text)
    parts = []
    for name in ("schema", "base", "current"):
        [lines] = _shown(f"fragment-{name}")
        parts.append([RawRow(**json.loads(line)) for line in lines.splitlines()])
    assert list(stored.values()) == [digest(part) for part in parts]
    state = join(parts, version=2, ref=None)
    assert state.tables["node:Person"].version == 2 and state.tail[-1].seq == 2


def test_the_records_of_recovery_names_checkpoints_and_cleanups_that_are_shown_are_read(tmp_path: Path) -> None:
    [recovery] = map(json.loads, _shown("recovery"))
    assert decode_recovery(recovery["op"], canonical(recovery)).to_dict() == {
        name: value for name, value in recovery.items() if name != "format"
    }
    [name] = map(json.loads, _shown("name"))
    entry = decode_name(f"{layout.BRANCHES}reviews+2026/00000000", canonical(name))
    assert encode_name(entry) == canonical(name)
    [checkpoint] = map(json.loads, _shown("checkpoint"))
    [cleanup] = map(json.loads, _shown("cleanup"))
    init(tmp_path / "graph", "node A { x: String? }").close()
    with open_graph(str(tmp_path / "graph")) as graph:
        engine = graph._engine
        engine.store.create(layout.checkpoint_key(checkpoint["name"]), canonical(checkpoint))
        engine.store.create(layout.cleanup_key(cleanup["run"]), canonical(cleanup))
        [pinned] = graph.checkpoints.list()
        assert pinned.to_dict() == {name: value for name, value in checkpoint.items() if name != "format"}
        assert read_record(engine, layout.cleanup_key(cleanup["run"]), Meter()) == cleanup


def test_the_lines_of_checksums_that_are_shown_are_read() -> None:
    [text] = _shown("checksums")
    lines = list(decode_lines(text.encode() + b"\n"))
    assert len(lines) == len(text.splitlines()) and None not in lines
    assert all(
        encode_line(*line) == shown.encode() + b"\n"
        for line, shown in zip(lines, text.splitlines(), strict=True)
        if line
    )


def test_the_staging_record_that_is_shown_is_one() -> None:
    [shown] = [b for b in pages.blocks(REFERENCE / "storage-format.md") if b.option("is") == "staging"]
    raw = json.loads(shown.text)
    record = decode_record(raw["id"], canonical(raw))
    assert record.staged and set(json.loads(shown.text)["staged"][0]) == set(StagedFragments.model_fields)


def test_every_place_under_the_root_is_documented() -> None:
    page = _text("storage-format.md")
    places = {value for name, value in vars(layout).items() if name.isupper() and isinstance(value, str)}
    places -= {layout.BOUNDARY_ALL}
    assert len(places) > 8 and not [place for place in places if place not in page]
    assert f"{TAIL_ROLL} rows" in page and f"newest {TAIL_KEEP}" in page


def _section(page: str, title: str) -> str:
    found = re.search(rf"^(#+) {re.escape(title)}$(.*?)(?=^#+ |\Z)", page, re.M | re.S)
    assert found, title
    return found[2]
