"""Which file of a manifest line is damaged, asked once a read of its fragments has failed: Lance's error seldom says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from omnigraph.core.errors import Corruption, OmnigraphError
from omnigraph.table import new_file_checks
from omnigraph.table.errors import Fate, panics_raised, translate
from omnigraph.table.files import data_file_name

if TYPE_CHECKING:
    from lance import LanceDataset

_EXPLAINED: Final = frozenset(fate.value for fate in (Fate.MISSING_VERSION, Fate.REFUSED, Fate.UNAVAILABLE))


def with_file(handle: LanceDataset, fragments: Sequence[Any], error: OmnigraphError) -> OmnigraphError:
    """The error, or ``Corruption`` with the file where one of these fragments does not read. ``whole``: False where a file
    was cut or is missing, as a power cut leaves it."""
    if error.facts.get("fate") in _EXPLAINED:
        return error
    not_whole = new_file_checks.damaged(handle)
    for fragment in fragments:
        if fragment.fragment_id in not_whole:
            path, _, problem = not_whole[fragment.fragment_id].partition(": ")
            return _damaged(handle, path, problem, whole=False)
    for fragment in fragments:
        said = _problem(handle, fragment)
        if said is not None:
            return _damaged(handle, f"data/{data_file_name(fragment.metadata.files[0])}", said)
    return error


def _problem(handle: LanceDataset, fragment: Any) -> str | None:
    try:
        with panics_raised():
            handle.scanner(fragments=[fragment]).to_table()
    except Exception as error:  # noqa: BLE001 - bytes that are wrong may raise anything
        found = translate(error, "read it")
        return None if found.facts.get("fate") in _EXPLAINED else found.message
    return None


def _damaged(handle: LanceDataset, path: str, problem: str, **facts: bool) -> Corruption:
    root = handle.uri.partition("/__manifest")[0]
    return Corruption(
        f"a file of __manifest is damaged: {problem}: version={handle.version} file={path}",
        hint=f"`omnigraph repair {root}` shows what can be put right; `omnigraph repair {root} --confirm` moves what is torn aside",
        object="__manifest",
        version=handle.version,
        file=path,
        fate=Fate.MISSING_FILE.value,
        **facts,
    )
