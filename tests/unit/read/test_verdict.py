"""When a version of the manifest may be served as a commit."""

from __future__ import annotations

import subprocess
import sys

import pytest

from omnigraph.read.at import Verdict, judge


@pytest.mark.parametrize(
    ("found", "version", "boundary", "verdict"),
    [
        ("A", 7, 0, Verdict.SERVE),
        ("A", 7, 9, Verdict.SERVE),  # retained below the boundary: it opens and says its id
        (None, 7, 7, Verdict.RECLAIMED),
        (None, 7, 9, Verdict.RECLAIMED),
        ("B", 7, 9, Verdict.RECLAIMED),  # a late writer took the number of a version that was cleaned up
        (None, 7, 6, Verdict.CORRUPT),
        ("B", 7, 6, Verdict.CORRUPT),
    ],
)
def test_a_version_is_believed_only_if_its_head_is_the_commit_asked_for(
    found: str | None, version: int, boundary: int, verdict: Verdict
) -> None:
    assert judge(asked="A", found=found, version=version, boundary=boundary) is verdict


def test_reading_loads_no_other_library_before_it_is_asked_to() -> None:
    program = (
        "import sys, omnigraph.read.snapshot, omnigraph.read.interop, omnigraph.read.export\n"
        "print({'duckdb', 'polars', 'boto3'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
