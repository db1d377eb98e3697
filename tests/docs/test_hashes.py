"""``requirements-cli.txt`` is what ``constraints.txt`` says, with a digest for each file and no address."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def names(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def test_each_requirement_has_the_version_of_the_constraints_and_a_digest() -> None:
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M))
    wanted = {names(name): version for name, version in pinned.items()}
    lines = [line for line in (ROOT / "requirements-cli.txt").read_text().splitlines() if not line.startswith("#")]
    found = [re.fullmatch(r"([\w.-]+)==(\S+) --hash=sha256:[0-9a-f]{64}", line) for line in lines]
    assert all(found), "a line has no digest, or more than one"
    told = {names(one[1]): one[2] for one in found if one is not None}
    assert told == {name: wanted.get(name) for name in told}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["cli"]]
    assert {names(re.split(r"[\[><=!~ ]", one)[0]) for one in asked} <= told.keys()
