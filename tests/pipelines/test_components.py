"""Anybody's Dagster project takes a component in YAML, with nothing of ours but the installed wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import omnigraph as og
from omnigraph_pipelines.components.attributes import check

REPOSITORY = Path(__file__).parents[2]
PG = "node Person { name: String @key }\nedge Knows: Person -> Person { since: Date? }\n"
INGEST = """\
type: omnigraph_pipelines.OmniGraphIngestComponent
attributes:
  prefix: {prefix}
  graph: {{name: {name}, uri: "{{{{ env.GRAPHS }}}}/{name}.omni", schema: people.pg}}
  sources:
    - name: crm
      batches: landing/*/
      mode: merge
      tables:
        - {{node: Person, files: people*.csv}}
        - {{edge: Knows, files: knows*.csv, from: a, to: b, optional: true}}
---
type: omnigraph_pipelines.OmniGraphUpkeepComponent
attributes:
  prefix: {prefix}
  graph: {{name: {name}, uri: "{{{{ env.GRAPHS }}}}/{name}.omni", schema: people.pg}}
  upkeep: {{cleanup: {{keep: 5}}}}
"""
CHILD = """
import json, sys
from pathlib import Path
import dagster as dg
import omnigraph, omnigraph_pipelines

defs = dg.load_from_defs_folder(path_within_project=Path("foreign").absolute())
dg.Definitions.validate_loadable(defs)
loaded = [name for name in ("pyspark", "lance", "duckdb", "pandas") if name in sys.modules]
repository = defs.get_repository_def()
with dg.DagsterInstance.ephemeral() as instance:
    run = defs.resolve_job_def("one_compaction").execute_in_process(instance=instance, raise_on_error=False)
print(json.dumps({
    "ours": [omnigraph.__file__, omnigraph_pipelines.__file__],
    "assets": sorted("/".join(key.path) for key in repository.asset_graph.get_all_asset_keys()),
    "jobs": sorted(job.name for job in repository.get_all_jobs() if not job.name.startswith("__")),
    "sensors": sorted(sensor.name for sensor in repository.sensor_defs),
    "loaded": loaded,
    "ran": run.success,
}))
"""


def make_project(folder: Path) -> None:
    """What create-dagster makes, with two graphs in it."""
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "foreign"\nversion = "0"\n[tool.dg]\ndirectory_type = "project"\n'
        '[tool.dg.project]\nroot_module = "foreign"\n'
    )
    package = folder / "foreign"
    for name in ("one", "two"):
        place = package / "defs" / name
        place.mkdir(parents=True)
        (place / "defs.yaml").write_text(INGEST.format(name=name, prefix=f"{name}_"))
        (place / "people.pg").write_text(PG)
    (package / "__init__.py").touch()
    (package / "defs" / "__init__.py").touch()


@pytest.mark.timeout(300)
def test_a_foreign_project_needs_the_wheel_and_yaml_and_nothing_else(tmp_path: Path) -> None:
    site, project = tmp_path / "site", tmp_path / "project"
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
    )
    (wheel,) = (tmp_path / "dist").iterdir()
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(site), str(wheel)],
        check=True,
        capture_output=True,
    )
    project.mkdir()
    make_project(project)
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(site), "GRAPHS": str(tmp_path), "DAGSTER_DISABLE_TELEMETRY": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert all(path.startswith(str(site)) for path in found["ours"])
    for name in ("one", "two"):
        assert {f"{name}/crm/Person", f"{name}/crm/Knows", f"{name}/crm/commit", f"{name}/upkeep/optimize"} <= {
            *found["assets"]
        }
        assert {f"{name}_ingest_crm", f"{name}_nightly_upkeep", f"{name}_reconcile"} <= {*found["jobs"]}
        assert {f"{name}_new_batches_crm", f"{name}_pending_intents"} <= {*found["sensors"]}
    assert found["loaded"] == []
    assert found["ran"] and (tmp_path / "one.omni").is_dir()


class Folder:
    """As much of a load context as a component asks for."""

    def __init__(self, path: Path) -> None:
        self.path = path


def test_attributes_are_checked_as_strictly_as_a_graph_file(tmp_path: Path) -> None:
    (tmp_path / "people.pg").write_text(PG)
    (tmp_path / "defs.yaml").write_text("type: x")
    context: Any = Folder(tmp_path)
    graph = {"name": "one", "uri": "one.omni", "schema": "people.pg"}
    good = check(context, {"graph": graph, "sources": None})
    assert good.settings.graph.uri == str(tmp_path / "one.omni")
    with pytest.raises(og.errors.InvalidInput, match=r"defs\.yaml: upkeep\.clenup: unknown key 'clenup'; did you mean"):
        check(context, {"graph": graph, "upkeep": {"clenup": {}}})
    with pytest.raises(og.errors.InvalidInput, match="'schema' is missing"):
        check(context, {"graph": {"name": "one", "uri": "x"}})


def test_components_are_found_by_their_short_names() -> None:
    import omnigraph_pipelines

    for name in ("OmniGraphIngestComponent", "OmniGraphUpkeepComponent"):
        assert issubclass(getattr(omnigraph_pipelines, name), dg.Component)
        assert name in dir(omnigraph_pipelines)
