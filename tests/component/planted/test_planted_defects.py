"""The instruments themselves: a scene that the engine passes, and defects planted in the engine that the scene must notice.

Each defect is one that an engineer could write in good faith. Those of the pure decisions are in ``tests/model``.
"""

from __future__ import annotations

import pytest

from omnigraph.core.errors import OmnigraphError
from tests.component.planted import (
    branches,
    cleaned,
    combined,
    damage,
    deleted,
    feeds,
    grouped,
    lines,
    merged,
    newest,
    offered,
    publishing,
    recovery,
    roots,
    stored,
    told,
)
from tests.component.planted.scenes import Defect, Engines, Scene

DEFECTS = {
    **recovery.DEFECTS,
    **publishing.DEFECTS,
    **stored.DEFECTS,
    **lines.DEFECTS,
    **grouped.DEFECTS,
    **combined.DEFECTS,
    **offered.DEFECTS,
    **feeds.DEFECTS,
    **branches.DEFECTS,
    **cleaned.DEFECTS,
    **deleted.DEFECTS,
    **merged.DEFECTS,
    **newest.DEFECTS,
    **roots.DEFECTS,
    **damage.DEFECTS,
    **told.DEFECTS,
}
SCENES = {defect.scene.__name__: defect.scene for defect in DEFECTS.values()}


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_the_engine_passes_the_scene(engines: Engines, scene: Scene) -> None:
    assert scene(engines) == []


@pytest.mark.parametrize("defect", DEFECTS.values(), ids=DEFECTS.keys())
def test_a_planted_defect_is_noticed(engines: Engines, monkeypatch: pytest.MonkeyPatch, defect: Defect) -> None:
    defect.plant(monkeypatch)
    try:
        found = defect.scene(engines)
    except (OmnigraphError, KeyError, AssertionError) as error:
        found = [repr(error)]
    assert found, "the scene did not notice it"


def test_there_are_as_many_defects_as_are_owed() -> None:
    assert len(DEFECTS) >= 60
