"""Which calls of Lance lend a handle out exclusively, so that every other thread's call on it raises."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

ROUNDS = 20_000


@pytest.fixture
def handle(tmp_path: Path) -> Any:
    lance.write_dataset(pa.table({"a": [1, 2, 3]}), str(tmp_path / "t.lance"))
    return lance.dataset(str(tmp_path / "t.lance"))


def _errors_beside(busy: Any, other: Any) -> int:
    """How often ``other`` raised while another thread made its calls."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            try:
                busy()
            except RuntimeError:
                continue

    thread = threading.Thread(target=work)
    thread.start()
    errors = 0
    try:
        for _ in range(ROUNDS):
            try:
                other()
            except RuntimeError:
                errors += 1
    finally:
        over.set()
        thread.join()
    return errors


def test_reading_a_transaction_borrows_the_handle_and_a_copy_is_another(handle: Any) -> None:
    assert _errors_beside(lambda: handle.read_transaction(1), handle.io_stats_incremental) > 0
    own = handle.checkout_version(handle.version)
    assert _errors_beside(lambda: own.read_transaction(1), handle.io_stats_incremental) == 0


def test_asking_for_versions_and_files_does_not_borrow_it(handle: Any) -> None:
    for busy in (lambda: handle.latest_version, handle.describe_indices, handle.to_table):
        assert _errors_beside(busy, handle.io_stats_incremental) == 0
