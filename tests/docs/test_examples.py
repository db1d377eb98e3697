"""Every example is complete: it runs in an empty folder that holds nothing but its files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import pages

EXAMPLES = pages.ROOT / "examples"
NAMES = ("library", "dagster", "notebook")


def _run(folder: Path, *words: str, code: int = 0) -> str:
    paths = os.pathsep.join([str(pages.ROOT / "engine"), str(pages.ROOT)])
    env = os.environ | {"PYTHONPATH": paths, "PYTHONUTF8": "1", "DAGSTER_HOME": str(folder)}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the example that the test names."""
    return Path(shutil.copytree(EXAMPLES / request.param, tmp_path / request.param))


def test_every_example_is_run_here() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} == set(NAMES)


@pytest.mark.parametrize("folder", ["library"], indirect=True)
def test_the_library_example_runs_and_may_be_run_again(folder: Path) -> None:
    wanted = ["3 people; 2 rows set aside", "ada and bob follow each other"]
    for _ in range(2):
        lines = _run(folder, "follow.py").splitlines()
        assert [lines[0], lines[-1]] == wanted
        assert any("joined" in line for line in lines)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("folder", ["dagster"], indirect=True)
def test_the_dagster_example_loads_and_ingests_its_batch(folder: Path) -> None:
    _run(folder, "-m", "omnigraph_pipelines.cli", "validate", "graph.yaml")
    _run(folder, "-c", "from definitions import defs; assert list(defs.resolve_all_asset_specs())")
    _run(folder, "-m", "omnigraph_pipelines.cli", "run", "graph.yaml")
    found = _run(folder, "-m", "omnigraph.cli", "query", "social.omni", "--sql", "select * from Follows", "--json")
    assert [(row["src"], row["dst"]) for row in json.loads(found)["result"]["rows"]] == [("Ada", "Mary")]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("folder", ["dagster"], indirect=True)
def test_the_asset_of_the_dagster_example_applies_what_is_new_and_nothing_twice(folder: Path) -> None:
    _run(folder, "-m", "omnigraph_pipelines.cli", "run", "graph.yaml")

    def index(first: str = "", code: int = 0) -> tuple[int, dict[str, str | None]]:
        script = (
            f"{first}\nfrom definitions import defs, city_index; import dagster as dg\n"
            "done = dg.materialize([city_index], instance=dg.DagsterInstance.get(), resources={'graph': defs.resources['graph']})\n"
            "[made] = done.asset_materializations_for_node('city_index')\n"
            "print('changed', made.metadata['changed'].value)"
        )
        lines = _run(folder, "-c", script, code=code).splitlines()
        changed = next((line for line in lines if line.startswith("changed ")), "changed -1")
        return int(changed.split()[1]), json.loads((folder / "city_index.json").read_text(encoding="utf-8"))

    def mutate(body: str) -> None:
        _run(folder, "-m", "omnigraph.cli", "mutate", "social.omni", "-e", body)

    people = index()
    assert people[0] == len(people[1]) > 1 and "Ada" in people[1]
    mutate('update Person set { city: "Turin" } where name = "Ada"')
    mutate('insert Person { name: "Zoe", city: "Rome" }')
    changed, now = index()
    assert (changed, now) == (2, people[1] | {"Ada": "Turin", "Zoe": "Rome"})
    mutate('delete Person where name = "Zoe"')
    # It dies when the file is written and before Dagster knows: the next run applies the same changes again.
    dies = "import os; move = os.replace; os.replace = lambda a, b: (move(a, b), str(b).endswith('index.json') and os._exit(9))"
    killed = index(dies, code=9)
    assert killed == (-1, people[1] | {"Ada": "Turin"})
    mutate('insert Person { name: "Zoe", city: "Bari" }')
    assert index() == (2, people[1] | {"Ada": "Turin", "Zoe": "Bari"})
    _run(folder, "-m", "omnigraph.cli", "cleanup", "social.omni", "--keep", "1", "--min-age", "0s", "--confirm")
    assert index() == (0, people[1] | {"Ada": "Turin", "Zoe": "Bari"})


@pytest.mark.parametrize("folder", ["notebook"], indirect=True)
def test_the_cells_of_the_notebook_run_in_order(folder: Path) -> None:
    notebook = json.loads((folder / "explore.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) == 6
    assert not any(cell.get("outputs") for cell in notebook["cells"])
    (folder / "cells.py").write_text("\n".join(cells), encoding="utf-8")
    _run(folder, "cells.py")
