"""The table of the house finds what it looks for; and what it finds of ours: no import cycle."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from bench.house import __main__ as command
from bench.house import page, shape, source, walks
from bench.house.trace import Tracer

# Cycles through imports inside functions or for types only. One that is gone leaves this list; none is added.
LAZY_CYCLES = {
    frozenset({"omnigraph.cli.progress", "omnigraph.cli.render"}),
    frozenset({"omnigraph.commit.engine", "omnigraph.commit.queue.lease"}),
    frozenset(
        {
            "omnigraph.distributed.load",
            "omnigraph.distributed.merge",
            "omnigraph.distributed.parts_report",
            "omnigraph.distributed.placement",
            "omnigraph.distributed.sifted_load",
            "omnigraph.distributed.staged_load",
            "omnigraph.distributed.staging_txn",
        }
    ),
    frozenset({"omnigraph.distributed.part_document", "omnigraph.distributed.staged_part"}),
    frozenset(
        {
            "omnigraph.read.interop",
            "omnigraph.read.networks",
            "omnigraph.read.places",
            "omnigraph.read.relation",
            "omnigraph.read.snapshot",
            "omnigraph.read.sql",
        }
    ),
    frozenset(
        {
            "omnigraph.schema.canonical",
            "omnigraph.schema.catalog",
            "omnigraph.schema.diagram",
            "omnigraph.schema.graphtext",
            "omnigraph.schema.identity",
            "omnigraph.schema.plan",
            "omnigraph.schema.svg",
            "omnigraph.schema.view",
        }
    ),
}

PLANTED = {
    "__init__.py": "",
    "top.py": "from planted.low import one\nfrom planted import low\n\n\nclass Same: ...\n\n\nclass _Hidden: ...\n",
    "low/__init__.py": "",
    "low/one.py": "import planted.low.two\n\n\nclass Same:\n    def method(self, a, b, c, d, e, f, g): ...\n",
    "low/two.py": "from planted.low import one\n\n\ndef wide(a, b, c, d, e, f, g, h): ...\n",
    "lazy/__init__.py": "",
    "lazy/one.py": "def later():\n    from planted.lazy import two\n",
    "lazy/two.py": "from .one import later\n",
    "types/__init__.py": "",
    "types/one.py": "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from planted.types.two import x\n",
    "types/two.py": "from planted.types import one\n",
    "long.py": "def endless():\n" + "    x = 1\n" * 60 + "\n" * 400,
}


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "planted"
    for name, text in PLANTED.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "planted"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def ours() -> source.House:
    return source.read()


# --- the source ----------------------------------------------------------------------------------------------------------


def test_a_planted_cycle_is_found_and_lazy_ones_are_named_apart(planted: Path) -> None:
    found = shape.measure(source.read((planted,)))
    assert found["cycles"] == [["planted.low.one", "planted.low.two"]]
    assert found["cycles_lazy"] == [
        ["planted.lazy.one", "planted.lazy.two"],
        ["planted.types.one", "planted.types.two"],
    ]
    assert found["package_cycles"] == []


def test_a_planted_cycle_of_packages_is_found(planted: Path) -> None:
    (planted / "low" / "up.py").write_text("from planted.lazy.two import later\n")
    (planted / "lazy" / "down.py").write_text("import planted.low.one\n")
    assert shape.measure(source.read((planted,)))["package_cycles"] == [["planted.lazy", "planted.low"]]


def test_planted_sizes_are_found_by_name(planted: Path) -> None:
    found = shape.measure(source.read((planted,)))
    assert found["modules_over"] == [["planted.long", 461]]
    assert [(one["function"], one["lines"], one["parameters"]) for one in found["functions_over"]] == [
        ("planted.long.endless", 61, 0),
        ("planted.low.two.wide", 1, 8),
    ]
    assert found["classes_twice"] == {"Same": ["planted.low.one", "planted.top"]}


def test_packages_count_what_imports_them_and_what_they_import(planted: Path) -> None:
    rows = {row["package"]: row for row in shape.measure(source.read((planted,)))["packages"]}
    assert (rows["planted"]["modules"], rows["planted.low"]["modules"]) == (3, 3)
    assert (rows["planted.low"]["fan_in"], rows["planted.low"]["fan_out"], rows["planted.low"]["inner_edges"]) == (
        1,
        0,
        2,
    )
    assert rows["planted"]["fan_out"] == 2  # the package and its module


def test_the_longest_chain_goes_from_import_to_import() -> None:
    graph = {"a": {"b", "d"}, "b": {"c"}, "c": set(), "d": set()}
    assert shape.longest_chain(graph) == ["a", "b", "c"]


def test_our_packages_have_no_import_cycle(ours: source.House) -> None:
    found = shape.measure(ours)
    assert found["cycles"] == []
    assert found["package_cycles"] == [] and found["package_cycles_lazy"] == []


def test_our_lazy_cycles_are_those_that_are_known_and_each_of_them_is_still_there(ours: source.House) -> None:
    assert {frozenset(group) for group in shape.measure(ours)["cycles_lazy"]} == LAZY_CYCLES


# --- walks -----------------------------------------------------------------------------------------------------------------


def traced(planted: Path, text: dict[str, str], call: str, **facts: Any) -> dict[str, Any]:
    for name, body in text.items():
        (planted / name).write_text(body)
    sys.path.insert(0, str(planted.parent))
    try:
        act = getattr(import_module("planted.a"), call)
        import_module("planted.b")
    finally:
        sys.path.remove(str(planted.parent))
    tracer = Tracer([planted], root=planted.parent, **facts)
    with tracer.installed():
        act()  # not counted
        with tracer.counting():
            act()
        act()
    return tracer.found()


BACK_AND_FORTH = {
    "a.py": "from planted import b\n\n\ndef start():\n    b.middle(back)\n\n\ndef back():\n    return [x for x in (1, 2)]\n",
    "b.py": "def middle(back):\n    back()\n",
}


def test_a_walk_counts_files_calls_switches_and_re_entries(planted: Path) -> None:
    found = traced(planted, BACK_AND_FORTH, "start", evaluators=frozenset({"planted.b:middle"}))
    assert (found["files"], found["lines"], found["calls"]) == (2, 11, 3)
    assert (found["switches"], found["reentries"], found["reentry_kinds"]) == (2, 1, 1)
    assert (found["depth"], found["hops"]) == (3, 3)
    assert found["judged"] == {"planted.b:middle": 1}


def test_a_walk_sees_the_threads_that_it_starts(planted: Path) -> None:
    text = {
        "a.py": "import threading\n\nfrom planted import b\n\n\ndef start():\n"
        "    one = threading.Thread(target=b.work)\n    one.start()\n    one.join()\n",
        "b.py": "def work(): ...\n",
    }
    assert traced(planted, text, "start")["files"] == 2


def test_calls_upwards_are_those_against_the_order_of_the_layers(tmp_path: Path) -> None:
    folder = tmp_path / "engine" / "omnigraph"
    tracer = Tracer([folder], layers=[("upper",), ("lower", "beside")], root=tmp_path)
    stack = ["engine/omnigraph/upper/a.py", "engine/omnigraph/lower/b.py", "engine/omnigraph/upper/c.py"]
    code = (lambda: None).__code__
    tracer._count(code, stack)
    tracer._count(code, stack[1:])
    assert dict(tracer.upwards) == {("omnigraph.lower.b", "omnigraph.upper.a"): 1}


def test_the_layers_are_those_that_lint_enforces() -> None:
    ordered = walks.layers()
    assert ordered[-1] == ("core",) and ("cli",) in ordered
    assert any(len(names) > 1 for names in ordered)


def test_every_evaluator_that_is_counted_exists(ours: source.House) -> None:
    known = {f"{one.module}:{one.name}" for module in ours.modules.values() for one in module.functions}
    assert known >= walks.EVALUATORS


@pytest.mark.parametrize("name", ["load", "mutate", "read"])
def test_a_walk_of_the_engine_has_figures(name: str) -> None:
    found = walks.run(frozenset({name}))[name]
    assert 10 < found["files"] < 200 and found["calls"] > found["switches"] > found["files"] / 2
    assert sum(found["judged"].values()) == (0 if name == "read" else 1)


def test_a_walk_that_lacks_something_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "needs_spark", lambda: "needs java")
    assert walks.run(frozenset({"batch"})) == {"batch": {"not_run": "needs java"}}


# --- the page -----------------------------------------------------------------------------------------------------------


def test_the_page_keeps_what_stands_around_the_table(tmp_path: Path, ours: source.House) -> None:
    now = {
        "command": "x",
        "commit": "y",
        "python": "z",
        "shape": shape.measure(ours),
        "walks": {"load": {"not_run": "needs y"}},
    }
    target = tmp_path / "page.md"
    target.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    page.write(now, target)
    text = target.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "not run: needs y" in text and "`omnigraph.commit`" in text
    page.write(now, target)
    assert target.read_text() == text


def test_a_page_without_markers_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "page.md"
    target.write_text("text\n")
    with pytest.raises(ValueError, match="no markers"):
        page.write({}, target)
    assert target.read_text() == "text\n"


def test_the_architecture_page_has_the_table_and_the_figures_before() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert text.count(page.BEGIN) == text.count(page.END) == 1
    then = page.before()
    assert then is not None and f"at {then['commit']}" in text


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--json", "--only", "read"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["walks"]) == ["read"] and found["shape"]["modules"] > 100
