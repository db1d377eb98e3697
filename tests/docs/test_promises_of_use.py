"""What somebody who comes from a neighbouring tool looks for, each with the tests or the page that it rests on.

A row is a promise of the comparison with other tools. One that loses its test or its page is found here, not by a reader.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Promise:
    """``tests``: file and function. ``pages``: a page of the manual and words that it has."""

    says: str
    tests: tuple[str, ...] = ()
    pages: tuple[tuple[str, str], ...] = ()


PROMISES = (
    Promise(
        "a change over several tables is atomic",
        (
            "tests/component/commit/test_run.py::test_a_write_to_two_tables_is_one_commit_with_one_version_each",
            "tests/component/write/test_load.py::test_one_load_of_several_tables_is_one_commit",
        ),
    ),
    Promise(
        "a process may be killed at any point, and the cells that show it are published",
        ("tests/crash/test_crash_cells.py::test_a_write_killed_at_any_failpoint_on_a_disk_is_whole_or_absent",),
        (("docs/reference/reliability.md", "ledger"),),
    ),
    Promise(
        "pending work is listed and ended by a command",
        (
            "tests/component/upkeep/test_recover.py::test_pending_intents_say_what_stands_and_what_would_be_done",
            "tests/component/cli/test_hints_followed.py::test_a_hint_that_is_followed_changes_what_printed_it",
        ),
        (("docs/howto/recover-after-a-crash.md", "omnigraph recover"),),
    ),
    Promise(
        "an unknown outcome is a type, and can be asked for again",
        (
            "tests/component/commit/test_run.py::"
            "test_an_unexpected_failure_after_a_table_commit_is_an_unknown_outcome_that_can_be_asked_for",
        ),
        (("docs/howto/recover-after-a-crash.md", "commit outcome"),),
    ),
    Promise(
        "a load takes an idempotency key, and a key that is used again is told",
        (
            "tests/component/commit/test_idempotency_content.py::test_a_replay_warns_and_names_the_commit_that_it_comes_from",
            "tests/component/cli/test_replays.py::test_a_replay_is_told_in_the_text_and_in_the_document",
        ),
    ),
    Promise(
        "all tables are read at one commit, by its id, a checkpoint, a branch or a time",
        (
            "tests/component/read/test_at.py::test_each_commit_opens_as_it_was",
            "tests/component/read/test_snapshot.py::test_a_snapshot_never_changes",
        ),
        (("docs/reference/python.md", "checkpoint:"),),
    ),
    Promise(
        "branches, checkpoints, diff and log",
        (
            "tests/component/cli/test_branches.py::test_a_branch_is_made_listed_and_deleted",
            "tests/component/cli/test_branch_merge.py::test_a_branch_is_merged",
            "tests/component/upkeep/test_cleanup.py::test_checkpoints_are_listed_by_name_and_names_are_taken_once",
            "tests/component/read/test_at.py::test_commits_are_listed_newest_first",
        ),
        (("docs/howto/merge-a-branch.md", "omnigraph branch merge"),),
    ),
    Promise(
        "nodes and edges have types, and the ends of an edge exist",
        (
            "tests/unit/write/test_oracle.py::test_the_validator_finds_what_the_rules_say",
            "tests/component/write/test_skew.py::test_a_node_that_goes_meanwhile_leaves_no_dangling_edge",
        ),
    ),
    Promise(
        "a key stands once, whoever writes at the same time",
        (
            "tests/component/commit/test_run.py::test_two_writes_with_one_key_that_race_on_different_tables_commit_once",
            "tests/processes/test_processes.py::test_8_processes_write_25_rows_each_into_one_table_and_all_land",
        ),
    ),
    Promise(
        "bad rows are set aside with reasons, short rows of a CSV file included",
        (
            "tests/component/cli/test_writes.py::test_bad_rows_are_set_aside_with_reasons_and_the_rest_is_loaded",
            "tests/unit/write/test_csv.py::test_rows_of_another_length_are_set_aside_as_rows",
        ),
    ),
    Promise(
        "the schema is a contract: it evolves by a plan, freezes, or sets aside what does not fit",
        (
            "tests/component/schema/test_apply.py::test_a_change_of_columns_is_one_commit_and_old_commits_keep_theirs",
            "tests/component/cli/test_writes.py::test_bad_rows_are_set_aside_with_reasons_and_the_rest_is_loaded",
        ),
        (("docs/reference/graph-file.md", "schema_changes"),),
    ),
    Promise(
        "a plan comes before it is applied, of the schema and of upkeep",
        (
            "tests/component/cli/test_schema.py::test_an_apply_is_what_its_plan_said_or_nothing",
            "tests/component/upkeep/test_cleanup.py::test_exactly_the_versions_of_the_plan_are_deleted",
        ),
    ),
    Promise(
        "a cleanup only shows what it would delete, unless it is confirmed",
        ("tests/component/upkeep/test_cleanup.py::test_a_plan_writes_nothing_and_without_confirm_nothing_is_deleted",),
    ),
    Promise(
        "a cleanup leaves what a checkpoint, a pending write or a young snapshot needs",
        (
            "tests/component/upkeep/test_cleanup.py::test_a_checkpoint_keeps_its_commit_until_it_is_deleted",
            "tests/component/upkeep/test_cleanup.py::test_a_pending_write_exempts_its_tables_and_its_base",
            "tests/component/upkeep/test_cleanup.py::test_a_snapshot_that_somebody_may_still_hold_stays_whole",
        ),
    ),
    Promise(
        "a compaction can be resumed, stays within its memory, and does nothing on what is compact",
        (
            "tests/component/upkeep/test_optimize.py::test_a_run_that_stops_anywhere_is_undone_or_done_and_can_be_repeated",
            "tests/component/upkeep/test_optimize.py::test_a_memory_budget_is_enough",
            "tests/component/upkeep/test_optimize.py::test_a_second_run_does_nothing_and_writes_nothing",
        ),
    ),
    Promise(
        "a deep look finds damage, and repair puts right what can be",
        (
            "tests/component/table/test_checksums.py::test_deep_verification_names_the_file_of_every_flipped_bit",
            "tests/component/upkeep/test_torn_files.py::test_a_torn_newest_version_is_named_and_repaired_and_no_byte_is_lost",
        ),
    ),
    Promise(
        "every command prints JSON, of a published form",
        ("tests/component/cli/test_documents.py::test_what_a_command_prints_as_json_is_what_is_published",),
    ),
    Promise(
        "exit codes are documented",
        ("tests/docs/test_docs_reference.py::test_every_error_code_is_documented",),
        (("docs/reference/errors.md", "exit"),),
    ),
    Promise(
        "an error has a code, a hint and facts, and the hint has been followed",
        (
            "tests/component/cli/test_hints_followed.py::test_a_hint_that_is_followed_changes_what_printed_it",
            "tests/component/cli/test_hints_followed.py::test_every_hint_that_names_a_command_has_a_situation",
            "tests/component/cli/test_bad_inputs.py::test_wrong_inputs_are_answered_with_place_remedy_and_exit_code",
        ),
    ),
    Promise(
        "a bar on a terminal, lines in a log, and neither where it is to be quiet",
        (
            "tests/component/graph/test_progress.py::test_a_terminal_gets_a_bar_that_leaves_nothing_behind",
            "tests/component/graph/test_progress.py::test_a_pipe_gets_lines_and_the_result_stays_alone_on_standard_output",
            "tests/component/graph/test_progress.py::test_quiet_shows_no_progress",
        ),
    ),
    Promise(
        "what is shown in a notebook is HTML, the graph included",
        (
            "tests/component/graph/test_notebook.py::test_a_graph_is_shown_with_its_state_and_its_schema",
            "tests/component/graph/test_notebook.py::test_what_a_call_returns_is_shown_as_html",
        ),
    ),
    Promise(
        "Arrow, pandas, polars and DuckDB read a snapshot",
        (
            "tests/component/read/test_interop.py::test_sql_reads_every_kind",
            "tests/component/read/test_interop.py::test_pandas_keeps_integers_beside_nulls",
            "tests/component/read/test_interop.py::test_polars_keeps_every_kind",
        ),
    ),
    Promise(
        "Spark reads and writes",
        (
            "tests/spark/test_read.py::test_a_commit_has_the_columns_of_then_whatever_the_schema_has_become",
            "tests/spark/test_load.py::test_frames_become_one_commit",
        ),
    ),
    Promise(
        "lineage and checks of assets are seen in Dagster's interface",
        ("tests/e2e/test_live.py::test_a_browser_shows_what_people_look_for",),
        (("docs/howto/run-in-dagster.md", "asset"),),
    ),
    Promise(
        "freshness, retention and upkeep are scheduled assets",
        (
            "tests/pipelines/test_upkeep_assets.py::test_the_definitions_load_and_have_their_fixed_names",
            "tests/pipelines/test_upkeep_assets.py::test_the_steps_of_a_night_go_in_its_order",
        ),
    ),
    Promise(
        "metrics and traces go to OpenTelemetry, and nowhere without it",
        (
            "tests/component/graph/test_metrics.py::test_the_figure_of_a_write_is_the_receipt_s_and_that_on_the_wire",
            "tests/component/graph/test_metrics.py::"
            "test_an_operation_is_one_span_with_the_times_and_figures_of_its_receipt",
            "tests/component/graph/test_metrics.py::test_without_opentelemetry_nothing_is_missed",
        ),
    ),
    Promise(
        "a setting says where it comes from, and an unknown key is refused with its line",
        (
            "tests/component/cli/test_reads.py::test_doctor_shows_each_setting_with_where_it_comes_from",
            "tests/pipelines/test_graph_file.py::test_what_is_wrong_is_said_with_its_line",
        ),
    ),
    Promise(
        "nothing is sent to anybody by default",
        ("tests/security/test_no_telemetry.py::test_work_on_a_local_graph_opens_no_connection",),
    ),
    Promise(
        "the first steps take minutes, and no network once it is installed",
        (
            "tests/docs/test_wheel.py::test_the_commands_of_the_readme_work_from_the_wheel_in_an_empty_folder",
            "tests/docs/test_wheel.py::test_a_page_copied_into_an_empty_folder_works_in_a_fresh_environment_from_the_wheel",
            "tests/docs/test_wheel.py::test_a_fresh_environment_stays_small_and_takes_what_is_added_later",
        ),
        (("README.md", "MB"),),
    ),
    Promise(
        "the code of the manual is run",
        ("tests/docs/test_docs_pages.py::test_a_page_runs_from_an_empty_folder_and_prints_what_it_shows",),
    ),
    Promise("a threat model is written", pages=(("docs/reference/security.md", "trusted"),)),
    Promise(
        "an import and a help text load nothing that they do not need",
        (
            "tests/unit/test_import_hygiene.py::test_importing_the_engine_loads_no_heavy_package",
            "tests/unit/test_import_hygiene.py::test_a_command_that_reads_loads_nothing_that_only_others_need",
        ),
    ),
)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda one: one.says)
def test_a_promise_has_its_tests_and_pages(promise: Promise) -> None:
    assert promise.tests or promise.pages
    for name in promise.tests:
        path, _, function = name.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^def {function}\(", text, re.M), name
    for page, words in promise.pages:
        assert words in (ROOT / page).read_text(encoding="utf-8"), (page, words)


def test_none_of_them_is_left_out() -> None:
    assert len({one.says for one in PROMISES}) == 32
