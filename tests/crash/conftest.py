"""Cells run on a local disk and on an emulated store, each on a graph of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from omnigraph.testing.cells import Matrix, Verdict
from omnigraph.testing.emulator import S3Emulator
from tests.conftest import reach


@pytest.fixture(scope="session")
def _matrix(s3_emulator: S3Emulator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    with Matrix(s3_emulator, Path(tmp_path_factory.mktemp("cells"))) as matrix:
        yield matrix


@pytest.fixture
def syncing_matrix(
    s3_emulator: S3Emulator, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Matrix]:
    """Cells as a graph is opened by default: the suite runs relaxed, and a matrix keeps the failpoints that it has learned."""
    monkeypatch.setenv("OMNIGRAPH_DURABILITY", "commit")
    with Matrix(s3_emulator, Path(tmp_path_factory.mktemp("syncing-cells"))) as matrix:
        yield matrix


@pytest.fixture
def matrix(_matrix: Matrix, s3_emulator: S3Emulator, monkeypatch: pytest.MonkeyPatch) -> Matrix:
    reach(s3_emulator.endpoint, monkeypatch)
    return _matrix


@pytest.fixture
def all_clean() -> Callable[[Iterable[Verdict]], list[Verdict]]:
    """Asserts that no cell has a finding; a failure names the line that repeats it."""

    def judge(verdicts: Iterable[Verdict]) -> list[Verdict]:
        seen = list(verdicts)
        bad = [f"{'; '.join(v.findings)}\n    repeat with: ./run crash {v.cell}" for v in seen if v.findings]
        assert not bad, "\n" + "\n".join(bad)
        assert seen, "no cell was run"
        return seen

    return judge
