"""The verdict on the pinned packages does not mistake silence for health."""

from __future__ import annotations

import subprocess

import pytest

from tests.security import audit
from tests.security.audit import CLEAN, NOT_DONE, VULNERABLE, verdict

GOOD = {"name": "good", "version": "1", "vulns": []}
BAD = {"name": "bad", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}
SKIPPED = {"name": "unknown", "skip_reason": "not found"}


def test_packages_that_were_all_looked_up_are_clean() -> None:
    assert verdict({"dependencies": [GOOD, GOOD]}) == (CLEAN, ["no known vulnerability in 2 packages"])


def test_an_audit_that_could_look_nothing_up_is_no_clean_bill() -> None:
    code, lines = verdict({"dependencies": [SKIPPED]})
    assert code == NOT_DONE and "not audited: 1 of 1 packages" in lines[0] and "no clean bill" in lines[-1]
    assert verdict({"dependencies": [GOOD, SKIPPED]})[0] == NOT_DONE


def test_a_known_vulnerability_is_named_with_its_fix() -> None:
    code, lines = verdict({"dependencies": [GOOD, BAD, SKIPPED]})
    assert code == VULNERABLE and lines[0] == "bad 2: CVE-1, fixed in 3"


@pytest.mark.parametrize(("printed", "said"), [("", "could not be reached: Connection refused"), (None, "no answer")])
def test_an_audit_without_an_answer_says_so_and_does_not_end_well(
    printed: str | None, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def without_network(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if printed is None:
            raise subprocess.TimeoutExpired(command, 1)
        return subprocess.CompletedProcess(command, 1, stdout=printed, stderr="ERROR: x\nConnection refused\n")

    monkeypatch.setattr(audit.subprocess, "run", without_network)
    assert audit.main() == NOT_DONE
    out = capsys.readouterr().out
    assert out.startswith("audit: not done: ") and said in out
