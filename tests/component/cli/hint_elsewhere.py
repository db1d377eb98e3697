"""Hints that name a command and have no situation here: those that need a race, another process or a failing store.

``tests`` make the situation. Where there are none, ``why`` says what keeps it from being made; the command of the hint is typed by a
situation all the same, on damage of the same kind.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Elsewhere:
    place: str
    hint: str
    tests: tuple[str, ...] = ()
    why: str = ""


_STORES = "tests/component/hostile/test_bad_stores.py"
_CLEANUP = "tests/component/upkeep/test_cleanup.py"
_RACE = "a cleanup that ends between two requests of one call"
_CONTRADICTION = "durable state that no run of the protocol leaves, searched for by the explorers"
_DEFAULT = "the default of a class; every place of the engine that raises it gives a hint of its own"

ELSEWHERE: tuple[Elsewhere, ...] = (
    Elsewhere("branch/create.py", "make it from a newer commit", why=_RACE),
    Elsewhere(
        "branch/names.py",
        "`omnigraph branch list` shows it if it was",
        ("tests/fault/test_fault_cells.py::test_every_request_may_fail_once_in_every_way",),
    ),
    Elsewhere(
        "cli/call.py",
        "run `omnigraph status`: it tells",
        ("tests/component/cli/test_process.py::test_ctrl_c_ends_with_130_and_leaves_the_graph_as_it_was",),
    ),
    Elsewhere("commit/ancestry_lines.py", "run `omnigraph verify --deep`, which names", why=_CONTRADICTION),
    Elsewhere(
        "commit/engine.py",
        "nothing is written to it; run `omnigraph verify`",
        (
            "tests/component/graph/test_scope_is_not_roots.py::"
            "test_what_this_release_cannot_read_refuses_every_cleanup_and_is_left",
        ),
    ),
    Elsewhere(
        "commit/exclusive.py",
        "look with `omnigraph status`, then open it again",
        ("tests/component/commit/test_exclusive.py::test_a_claim_that_cannot_be_taken_back_is_cleared_by_recovery",),
    ),
    Elsewhere(
        "commit/maintain.py",
        "ask with `omnigraph commit outcome {plan.head}`",
        ("tests/fault/test_fault_cells.py::test_every_request_may_fail_once_in_every_way",),
    ),
    Elsewhere("commit/parents.py", "keep the files and run `omnigraph verify --deep`", why=_CONTRADICTION),
    Elsewhere(
        "commit/pins.py",
        "run `omnigraph optimize --settle --branch NAME`",
        ("tests/component/branch/test_upkeep.py::test_a_chain_of_too_many_bases_is_refused_and_settling_shortens_it",),
    ),
    Elsewhere(
        "commit/protocol/admission.py",
        "check the disk, then open the graph again",
        ("tests/unit/manifest/test_durable.py::test_a_failed_sync_ends_a_write_by_how_far_it_has_come",),
    ),
    Elsewhere(
        "store/durability.py",
        "check the disk, then open the graph again",
        ("tests/component/store/test_durability.py::test_a_failed_sync_is_typed_and_never_repeated",),
    ),
    Elsewhere(
        "commit/protocol/compensate.py",
        "ask with `omnigraph commit outcome {plan.head}`; its intent",
        (f"{_STORES}::test_on_a_full_disk_nothing_waits_for_room",),
    ),
    Elsewhere("commit/protocol/compensate.py", "keep the files and run `omnigraph verify --deep`", why=_CONTRADICTION),
    Elsewhere(
        "commit/protocol/publish.py",
        "a merge may have carried it to another branch",
        why="a deletion and a cleanup inside one swap",
    ),
    Elsewhere("commit/protocol/publish.py", "keep the files and run `omnigraph verify --deep`", why=_CONTRADICTION),
    Elsewhere("commit/recovery/evidence.py", "keep the files and run `omnigraph verify --deep`", why=_CONTRADICTION),
    Elsewhere(
        "commit/protocol/withdraw.py",
        "then recover again",
        ("tests/fault/test_fault_cells.py::test_every_failpoint_on_a_disk_may_raise_once",),
    ),
    Elsewhere(
        "commit/queue/offers.py",
        "do not repeat the write blindly",
        ("tests/component/commit/test_offers.py::test_a_deadline_that_passes_leaves_the_offer_and_says_so",),
    ),
    Elsewhere(
        "core/errors.py",
        "run `omnigraph doctor` and report this",
        ("tests/component/cli/test_exit_codes.py::test_a_fault_of_the_program_ends_with_1_and_no_traceback",),
    ),
    Elsewhere("core/errors.py", "`omnigraph status` lists what the graph holds", why=_DEFAULT),
    Elsewhere("core/errors.py", "use a new key for a new request", why=_DEFAULT),
    Elsewhere("core/errors.py", "ask with `omnigraph commit outcome COMMIT_ID`", why=_DEFAULT),
    Elsewhere("core/errors.py", "run `omnigraph recover`, or wait", why="no release raises it yet"),
    Elsewhere(
        "core/errors.py",
        "check credentials and permissions with",
        (f"{_STORES}::test_a_store_that_refuses_is_refused",),
    ),
    Elsewhere(
        "core/errors.py",
        "run `omnigraph optimize`, then repeat",
        ("tests/unit/upkeep/test_pressure.py::test_a_refusal_carries_metric_bound_and_command",),
    ),
    Elsewhere("core/errors.py", "take a newer snapshot; `omnigraph commit list`", why=_DEFAULT),
    Elsewhere(
        "manifest/fragments.py",
        "run `omnigraph verify --deep`",
        ("tests/unit/manifest/test_fragments.py::test_an_archive_holds_history_and_nothing_else",),
    ),
    Elsewhere(
        "manifest/swap.py",
        "read again; if it stays so",
        ("tests/component/manifest/test_line.py::test_a_version_that_no_swap_makes_is_refused",),
    ),
    Elsewhere(
        "store/s3_errors.py",
        "set the clock of this machine",
        ("tests/component/store/test_s3.py::test_no_fault_is_taken_for_an_absent_object",),
    ),
    Elsewhere(
        "table/dataset.py",
        "nothing of it was published",
        why="a version that is gone between its commit and the next request",
    ),
    Elsewhere(
        "table/errors.py",
        "set credentials in the environment",
        ("tests/component/table/test_errors.py::test_what_stands_in_the_way_of_a_first_connection_is_said_plainly",),
    ),
    Elsewhere("table/errors.py", "free space on the disk", (f"{_STORES}::test_on_a_full_disk_nothing_waits_for_room",)),
    Elsewhere("table/settle.py", "keep the files and run `omnigraph verify --deep`", why=_CONTRADICTION),
    Elsewhere(
        "upkeep/checkpoints.py",
        "pin a newer commit",
        (f"{_CLEANUP}::test_a_checkpoint_overtaken_by_a_cleanup_is_taken_back",),
    ),
    Elsewhere("upkeep/cleanup.py", "then run `omnigraph repair --confirm --force`", why=_CONTRADICTION),
    Elsewhere(
        "upkeep/cleanup.py",
        "`omnigraph repair --confirm` puts the table back",
        (f"{_CLEANUP}::test_drift_that_nothing_explains_refuses_everything",),
    ),
    Elsewhere(
        "upkeep/merge_roots.py",
        "run `omnigraph verify --deep`",
        ("tests/component/branch/test_merge_roots.py::test_what_cannot_be_followed_refuses_the_cleanup",),
    ),
    Elsewhere("wire/documents.py", "What `omnigraph … --json` prints", why="the title of a document"),
    Elsewhere(
        "write/group/member.py",
        "ask with `omnigraph commit outcome {self.commit_id}`",
        ("tests/component/cli/test_documents.py::test_what_a_command_prints_as_json_is_what_is_published",),
    ),
)
