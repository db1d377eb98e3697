"""Known vulnerabilities among the pinned packages: ``./run audit``.

Owns the verdict. pip-audit ends well where it could look nothing up; here that is no answer, and is said.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 600

CLEAN, VULNERABLE, NOT_DONE = 0, 1, 2
_SHOWN = 5


def verdict(report: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Exit code and lines for a report of pip-audit (``--format json``)."""
    packages = report["dependencies"]
    left = [one["name"] for one in packages if "skip_reason" in one]
    found = [
        f"{one['name']} {one['version']}: {flaw['id']}, fixed in {', '.join(flaw['fix_versions']) or 'no release'}"
        for one in packages
        for flaw in one.get("vulns", ())
    ]
    looked = len(packages) - len(left)
    lines = [*found]
    if left:
        more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        lines.append(
            f"not audited: {len(left)} of {len(packages)} packages, for which the vulnerability data could not be "
            f"reached or has no entry: {', '.join(left[:_SHOWN])}{more}"
        )
    if found:
        return VULNERABLE, [*lines, f"{len(found)} known vulnerabilities in {looked} packages"]
    if left:
        return NOT_DONE, [*lines, "this is no clean bill of health: repeat it where the data can be reached"]
    return CLEAN, [f"no known vulnerability in {looked} packages"]


def main() -> int:
    command = [sys.executable, "-m", "pip_audit", "-r", str(ROOT / "constraints.txt"), "--no-deps", "--disable-pip"]
    try:
        done = subprocess.run(
            [*command, "--format", "json", "--progress-spinner", "off"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        report = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        print(f"audit: not done: no answer within {TIMEOUT_S} s")
        return NOT_DONE
    except json.JSONDecodeError:
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        print(f"audit: not done: the vulnerability data could not be reached: {last[:300]}")
        return NOT_DONE
    code, lines = verdict(report)
    print("\n".join(f"audit: {line}" for line in lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
