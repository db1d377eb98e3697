"""The verdict on the pinned packages does not mistake silence for health."""

from __future__ import annotations

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
