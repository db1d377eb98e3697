"""``omnigraph version``."""

from __future__ import annotations

from omnigraph.cli.call import Answer, Call
from omnigraph.cli.render import Screen
from omnigraph.wire.program import Version


def run(call: Call) -> Answer:
    """Print the release and the storage version.

    The storage version is also the number of the internal schema.
    """
    from omnigraph import STORAGE_VERSION, __version__

    def show(screen: Screen) -> None:
        screen.line(f"omnigraph {__version__}")
        screen.line(f"storage-version {STORAGE_VERSION}")
        screen.line(f"internal-schema {STORAGE_VERSION}")

    return Answer(Version(__version__, STORAGE_VERSION), show)
