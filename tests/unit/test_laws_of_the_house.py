"""The laws of ``docs/explanation/architecture.md`` that the text of the code can show, and that each check can fail."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from omnigraph.commit import advance, effects, steps, upkeep_steps
from omnigraph.commit.builder import Work
from omnigraph.commit.deadline import Deadline
from omnigraph.core.clock import ManualClock

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "engine" / "omnigraph"
PIPELINES = ROOT / "omnigraph_pipelines"


def code(*packages: Path) -> Iterable[tuple[str, str]]:
    for package in packages:
        for path in sorted(package.rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


# --- effects are data ---------------------------------------------------------------------------------------------------


def callables_in(kind: type) -> list[str]:
    """Fields of a dataclass that hold a function: then it could be neither printed nor compared."""
    return [item.name for item in dataclasses.fields(kind) if "Callable" in str(item.type)]  # type: ignore[arg-type]


def kinds_of(module: object) -> list[type]:
    return [one for one in vars(module).values() if isinstance(one, type) and dataclasses.is_dataclass(one)]


VALUES = [
    *(one for one in kinds_of(steps) if issubclass(one, steps.Step)),
    *kinds_of(effects),
    *(getattr(upkeep_steps, name) for name in ("StripSettings", "CommitRewrites", "RewriteNow", "AddIndices")),
    Work,
]


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
def test_what_a_plan_is_made_of_holds_no_function(kind: type) -> None:
    assert callables_in(kind) == []


def test_a_step_that_held_a_function_would_be_found() -> None:
    @dataclasses.dataclass(frozen=True)
    class Closure:
        stage: Callable[[], None]

    assert callables_in(Closure) == ["stage"]


def test_every_kind_of_effect_has_a_rule_and_a_step() -> None:
    stepped = {one.kind for one in kinds_of(steps) if issubclass(one, steps.Step) and hasattr(one, "kind")}
    assert stepped == set(effects.RULES)


# --- one way to publish -------------------------------------------------------------------------------------------------

SWAP = re.compile(r"\bmanifest\.swap(_archives)?\(")
THE_LOOP = "engine/omnigraph/commit/advance.py"


def swapping(files: Iterable[tuple[str, str]]) -> set[str]:
    return {name for name, text in files if SWAP.search(text)}


def test_the_loop_alone_swaps_the_manifest() -> None:
    assert swapping((name, text) for name, text in code(ENGINE) if "/testing/" not in name) == {THE_LOOP}


def test_a_second_loop_would_be_found() -> None:
    assert swapping([("mine.py", "after = engine.manifest.swap(held, written)")]) == {"mine.py"}


LOOPS = ("advance", "edit_head")


def bounds_of_callers(files: Iterable[tuple[str, str]]) -> list[str]:
    """Callers of the loop that name none of its policies, make one, or loop around it."""
    found = []
    for name, text in files:
        if re.search(r"from omnigraph\.commit import [^\n]*\badvance\b", text):
            found.append(f"{name}: hides what it calls of the loop")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.For | ast.While):
                called = [one for one in ast.walk(node) if isinstance(one, ast.Call) and called_name(one) in LOOPS]
                found += [f"{name}: loops around {called_name(one)}" for one in called]
            elif isinstance(node, ast.Call) and called_name(node) == "SwapPolicy":
                found.append(f"{name}: makes a policy")
            elif isinstance(node, ast.Call) and called_name(node) == "Terms" and imports_the_loop(text):
                policy = node.args[0] if node.args else None
                if not (
                    isinstance(policy, ast.Name) and isinstance(getattr(advance, policy.id, None), advance.SwapPolicy)
                ):
                    found.append(f"{name}: names no policy")
    return found


def called_name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def imports_the_loop(text: str) -> bool:
    return "from omnigraph.commit.advance import" in text


# A round of healing follows one that has published: what it meets is new.
HEALS_ON = "engine/omnigraph/commit/recovery/drift.py: loops around advance"


def test_a_caller_of_the_loop_names_a_policy_and_brings_no_bound() -> None:
    files = [(name, text) for name, text in code(ENGINE) if name != THE_LOOP]
    assert len([name for name, text in files if imports_the_loop(text)]) > 8
    assert bounds_of_callers(files) == [HEALS_ON]


@pytest.mark.parametrize(
    "line",
    [
        "advance(engine, branch, propose, Terms(24))",
        "advance(engine, branch, propose, Terms(ATTEMPTS_MAX))",
        "advance(engine, branch, propose, Terms(replace(PUBLISH, attempts=60)))",
        "mine = SwapPolicy(24, 60.0)",
        "for _ in range(24): advance(engine, branch, propose, Terms(PUBLISH))",
        "from omnigraph.commit import advance",
        "while True: edit_head(engine, branch, edit, Terms(ONE_ROW))",
    ],
)
def test_a_bound_of_a_callers_own_would_be_found(line: str) -> None:
    assert len(bounds_of_callers([("mine.py", f"from omnigraph.commit.advance import Terms\n{line}\n")])) == 1


def test_every_policy_has_a_bound_and_says_whose_time_it_is() -> None:
    policies = {name: one for name, one in vars(advance).items() if isinstance(one, advance.SwapPolicy)}
    assert len(policies) == 5
    for name, one in policies.items():
        assert one.attempts > 1, name
        assert isinstance(one.lasts, advance.Ends) or one.lasts > 0, name


def test_a_deadline_goes_with_the_policy_that_ends_with_it_and_with_no_other() -> None:
    deadline = Deadline(ManualClock(), 1)
    assert advance.Terms(advance.TO_THE_DEADLINE, deadline).deadline is deadline
    with pytest.raises(AssertionError):
        advance.Terms(advance.TO_THE_DEADLINE)
    with pytest.raises(AssertionError):
        advance.Terms(advance.ONE_ROW, deadline)


# Modules of the protocol that wait by themselves, and what for: none of them waits to swap again.
PAUSES = {
    "engine/omnigraph/commit/advance.py": "the one loop",
    "engine/omnigraph/commit/maintain.py": "for the plans of others to end, before a turn and after it",
    "engine/omnigraph/commit/protocol/admission.py": "back-pressure, once a write",
    "engine/omnigraph/commit/queue/combine.py": "for another writer, whose swap takes the plan along",
    "engine/omnigraph/commit/queue/line.py": "for those ahead in the queue",
    "engine/omnigraph/commit/recovery/recover.py": "for the operation that stands in the way",
    "engine/omnigraph/commit/recovery/torn.py": "for the lock of another process that moves files",
}


def pausing(files: Iterable[tuple[str, str]]) -> set[str]:
    return {name for name, text in files if "clock.sleep(" in text}


def test_the_loop_alone_waits_to_swap_again() -> None:
    assert pausing(code(ENGINE / "commit")) == set(PAUSES)


def test_a_pause_elsewhere_would_be_found() -> None:
    assert pausing([("mine.py", "self.engine.clock.sleep(0.1)")]) == {"mine.py"}


# --- a solo write reads as one page ---------------------------------------------------------------------------------------

QUEUE_WORDS = frozenset(
    (
        "turn",
        "ticket",
        "lease",
        "heartbeat",
        "grace",
        "fair",
        "fairness",
        "queue",
        "queueing",
        "front",
        "company",
        "combining",
    )
)
THE_ONE_NAME = "from omnigraph.commit.queue.arming import Arming\n"


def test_the_page_of_one_write_is_short_and_says_nothing_of_the_queue() -> None:
    text = (ENGINE / "commit" / "protocol" / "run.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 350
    assert text.count(THE_ONE_NAME) == 1
    assert queue_words(text.replace(THE_ONE_NAME, "")) == set()


def queue_words(text: str) -> set[str]:
    """Also as parts of names."""
    words = {found.lower() for found in re.findall(r"[A-Z]?[a-z]+", text)}
    return {word for word in QUEUE_WORDS if words & {word, word + "s"}}


def test_a_page_that_waits_in_the_queue_would_be_found() -> None:
    assert queue_words("while not ticket.is_first(): heartbeat.beat()  # our turn") == {"ticket", "heartbeat", "turn"}
    assert queue_words("if arming.queue_if_contended(state): keep_lease(Front())") == {"queue", "lease", "front"}
    assert queue_words("watch = FrontWatch(engine.timing)") == {"front"}


# --- a test does not depend on the speed of its machine -------------------------------------------------------------------

A_TIME_TAKEN = re.compile(r"assert [^\n]*\btime\.(?:monotonic|perf_counter|process_time|time)(?:_ns)?\(\) - \w+ <")


def bounding(files: Iterable[tuple[str, str]]) -> list[str]:
    """Tests that fail where a machine is slow. ``bench`` prints how long things take."""
    return [name for name, text in files if A_TIME_TAKEN.search(text)]


def test_no_test_says_how_long_something_may_take() -> None:
    assert bounding(code(ROOT / "tests")) == []


def test_a_bound_of_seconds_would_be_found() -> None:
    assert bounding([("mine.py", "    assert time" + ".monotonic() - started < 2")]) == ["mine.py"]


# --- one canonical JSON ---------------------------------------------------------------------------------------------------


def encoding(files: Iterable[tuple[str, str]]) -> list[str]:
    """Modules with an encoder of their own: what they write would one day differ from what the others read."""
    return [name for name, text in files if "sort_keys=True" in text and "separators=" in text]


def test_one_module_writes_canonical_json() -> None:
    assert encoding((name, text) for name, text in code(ENGINE) if "/testing/" not in name) == [
        "engine/omnigraph/core/canonical_json.py"
    ]


def test_a_second_encoder_would_be_found() -> None:
    assert encoding([("mine.py", 'json.dumps(body, sort_keys=True, separators=(",", ":"))')]) == ["mine.py"]


# --- no name of a module is durable ---------------------------------------------------------------------------------------


def pickling(files: Iterable[tuple[str, str]]) -> list[str]:
    found = []
    for name, text in files:
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            found += [name for one in names if one.partition(".")[0] in ("pickle", "cloudpickle", "shelve", "marshal")]
    return found


# What the tasks of one running Spark job hand to its driver: both run the same code, and nothing of it is kept.
WITHIN_A_JOB = "omnigraph_pipelines/spark/workers.py"


def test_nothing_that_outlives_a_process_is_pickled() -> None:
    assert pickling((name, text) for name, text in code(ENGINE, PIPELINES) if "/testing/" not in name) == [WITHIN_A_JOB]


def test_a_pickle_would_be_found() -> None:
    assert pickling([("mine.py", "import pickle"), ("yours.py", "from pickle import dumps")]) == ["mine.py", "yours.py"]
