"""What Java and Spark write on the error output of a command: kept in a file, shown where Spark does not start.

Java names modules, Spark its host and its log settings, at every start and above the one line that the command has to say. No
setting turns all of it off. A process inherits the output that there is when it starts, so this one's is swapped meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import omnigraph as og

_SHOWN_MAX: Final = 20
_ERROR_OUTPUT: Final = 2


class JavaOutput:
    """The file. It is deleted at the end, unless ``keep`` is called."""

    def __init__(self) -> None:
        number, name = tempfile.mkstemp(prefix="omnigraph-spark-", suffix=".log")
        os.close(number)
        self.file = Path(name)
        self._kept = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._kept:
            self.file.unlink(missing_ok=True)

    def keep(self) -> Path:
        self._kept = True
        return self.file

    def start(self, spark: Callable[[], Any], say: Callable[[str], None]) -> None:
        """Start Spark with its output in the file. Where that fails, pass its last lines to ``say``."""
        try:
            with _error_output_to(self.file):
                spark()
        except og.errors.OmnigraphError:
            raise
        except Exception as error:
            lines = self.file.read_text(encoding="utf-8", errors="replace").splitlines()
            for line in lines[-_SHOWN_MAX:]:
                say(line)
            reason = " ".join(str(error).split())[:300]
            raise og.errors.OmnigraphError(
                f"Spark did not start: {reason}",
                hint=f"the lines above are what Java said, all of it is in {self.keep()}; "
                "`omnigraph-pipelines doctor` says which Java this is",
            ) from error


@contextlib.contextmanager
def _error_output_to(file: Path) -> Iterator[None]:
    sys.stderr.flush()
    before = os.dup(_ERROR_OUTPUT)
    try:
        with file.open("ab") as out:
            os.dup2(out.fileno(), _ERROR_OUTPUT)
        yield
    finally:
        os.dup2(before, _ERROR_OUTPUT)
        os.close(before)
