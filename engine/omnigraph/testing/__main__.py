"""``python -m omnigraph.testing crash|fault|pause|soak|share|evolve|team|rot``: the long forms of the reliability suites, as commands."""

from __future__ import annotations

import sys
from typing import Final

USAGE: Final = """\
usage: python -m omnigraph.testing COMMAND [arguments]

  crash   kill every write at every request and failpoint, recover, judge
  fault   every request of every write fails in every way
  pause   stop every write at every place, recover and write on, let it go on, judge
  rot     flip a bit of a file, see that it is named and that nothing is published from it
  soak    many processes beside each other, killed and stopped, for as long as wanted
  share   processes that carry out and take along each other's commits, killed beside upkeep, with requests that are refused
  evolve  schemas that change beside loaders and a compactor, all of them killed at random
  team    a day of a team: branches, merges, a bad batch and a feed, beside upkeep, all of them killed at random

COMMAND --help says more.
"""
WRONG_USAGE: Final = 2


def main(arguments: list[str]) -> int:
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if command in ("crash", "fault", "pause"):
        from omnigraph.testing import matrix

        return matrix.main(command, rest)
    if command == "rot":
        from omnigraph.testing import rot

        return rot.main(rest)
    if command == "soak":
        from omnigraph.testing import soak

        return soak.main(rest)
    if command == "share":
        from omnigraph.testing import shared_swaps

        return shared_swaps.main(rest)
    if command == "evolve":
        from omnigraph.testing import evolution

        return evolution.main(rest)
    if command == "team":
        from omnigraph.testing import team

        return team.main(rest)
    asked = command in ("-h", "--help", "help")
    print(USAGE, end="", file=sys.stdout if asked else sys.stderr)
    return 0 if asked else WRONG_USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
