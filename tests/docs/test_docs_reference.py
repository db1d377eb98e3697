"""Reference pages say what the code does: what can be derived is compared, what is claimed has a test that exists."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cli import tree
from omnigraph.cli.reference import help_text
from omnigraph.commit.intent import decode
from omnigraph.commit.recovery.audit import SCHEMA as AUDIT_SCHEMA
from omnigraph.core.documents import canonical
from omnigraph.core.errors import all_errors
from omnigraph.distributed.fragments import StagedFragments
from omnigraph.distributed.staging_record import decode as decode_record
from omnigraph.graph import Graph
from omnigraph.manifest.rows import ARROW_SCHEMA
from omnigraph.manifest.state import TAIL_KEEP, TAIL_ROLL
from omnigraph.schema.catalog import ScalarKind
from omnigraph.store import layout
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
            command = tree.find(" ".join(words[:2])) or tree.find(words[0])
            options = [word.partition("=")[0] for word in words if word.startswith("--")]
            seen += 1
            if command is None or [option for option in options if option not in help_text(command)]:
                wrong.append(f"{page.name}: {said}")
    assert not wrong and seen > 40


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


def test_the_intent_that_is_shown_is_one() -> None:
    [shown] = [b for b in pages.blocks(REFERENCE / "storage-format.md") if b.option("is") == "intent"]
    raw = json.loads(shown.text)
    data = json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    read = decode(raw["op"], data)
    assert read.plan is not None and read.plan.head == raw["commit"]["id"]


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
