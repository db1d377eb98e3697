"""Anybody's Dagster project takes a component in YAML, with nothing of ours but the installed wheel."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster.components.scaffold.scaffold import NoParams, ScaffoldRequest, get_scaffolder
from jsonschema import Draft202012Validator
from pydantic import ValidationError

import omnigraph as og
from omnigraph_pipelines.components import OmniGraphIngestComponent, OmniGraphUpkeepComponent
from omnigraph_pipelines.components.attributes import check
from omnigraph_pipelines.components.scaffold import IngestScaffolder, UpkeepScaffolder

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


# --- the schema of the attributes ---------------------------------------------------------------------------------------


def attributes(**changed: Any) -> dict[str, Any]:
    table = {"node": "Person", "files": "people*.csv"}
    source = {"name": "crm", "batches": "landing/*/", "mode": "merge", "tables": [table]}
    found = {"graph": {"name": "one", "uri": "one.omni", "schema": "people.pg"}, "sources": [source]}
    return {**found, **changed}


def complaints(values: dict[str, Any], component: Any = OmniGraphIngestComponent) -> list[str]:
    """The places that a check of the YAML names, with the model that ``dg check yaml`` and editors have."""
    try:
        component.model().model_validate(values)
    except ValidationError as error:
        return [".".join(str(one) for one in found["loc"]) for found in error.errors()]
    return []


def source(**changed: Any) -> dict[str, Any]:
    found: dict[str, Any] = attributes()["sources"][0]
    return attributes(sources=[{**found, **changed}])


@pytest.mark.parametrize(
    ("values", "place"),
    [
        (source(tables=[{"node": "Person", "fils": "x"}]), "sources.0.tables.0.fils"),
        (source(mode="merg"), "sources.0.mode"),
        (source(interval_s="20"), "sources.0.interval_s"),
        (source(interval_s=1), "sources.0.interval_s"),
        (source(after=[7]), "sources.0.after.0"),
        (source(freshness={"fail_after": "soon"}), "sources.0.freshness.fail_after"),
        (attributes(graph={"name": "one", "uri": "x"}), "graph.schema"),
        (attributes(checks={"bad_rows": 1}), "checks.bad_rows"),
    ],
)
def test_a_wrong_key_or_value_is_found_in_the_yaml_at_its_place(values: dict[str, Any], place: str) -> None:
    found = complaints(values)
    assert found and all(one.startswith(place) for one in found), found
    schema = json.dumps(OmniGraphIngestComponent.model().model_json_schema())
    for part in ("TableSettings", "SourceSettings", "GraphSettings", "CheckSettings", "SparkSettings", "AlertSettings"):
        assert f'"anyOf": [{{"$ref": "#/$defs/{part}' not in schema, "a choice hides the line of what is in it"


def test_every_setting_is_described_where_an_editor_looks() -> None:
    for component in (OmniGraphIngestComponent, OmniGraphUpkeepComponent):
        schema = component.model().model_json_schema()
        for part in (schema, *schema["$defs"].values()):
            for name, field in part.get("properties", {}).items():
                referred = schema["$defs"].get(field.get("$ref", "").rpartition("/")[2], {})
                assert field.get("description") or referred.get("description"), f"{part.get('title')}.{name}"


def test_a_template_may_stand_for_any_value_and_keeps_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_ID", "123456789")
    monkeypatch.setenv("SECONDS", "30")
    values = source(
        interval_s="{{ env.SECONDS | int }}",
        description="every {{ env.SECONDS }} seconds",
        owners=["{{ 'ada@example.com' }}"],
    )
    values["graph"]["storage_options"] = {"aws_access_key_id": "{{ env.KEY_ID }}", "aws_secret_access_key": "987654321"}
    values["graph"]["actor"] = "42"
    loaded, file = load(tmp_path, values)
    found = file.settings.sources[0]
    assert (found.interval_s, found.description, found.owners) == (30, "every 30 seconds", ("ada@example.com",))
    assert file.settings.graph.storage_options == {
        "aws_access_key_id": "123456789",
        "aws_secret_access_key": "987654321",
    }
    assert file.settings.graph.actor == "42" and loaded is not None


SECRET = "987654321"


@pytest.mark.parametrize(
    "graph",
    [
        {"storage_options": SECRET},
        {"storage_options": [SECRET]},
        {"storage_options": {"key": int(SECRET)}},
        {"storage_options": {"key": [SECRET]}},
        {"storage_option": SECRET},
        {"storage_option": {"key": SECRET}},
        {"storage_options": {"key": SECRET}, "name": 7},
        {"storage_options": {"key": SECRET}, "uri": None},
    ],
)
def test_no_error_prints_the_value_of_a_storage_option(tmp_path: Path, graph: dict[str, Any]) -> None:
    values = attributes(graph={**attributes()["graph"], **graph})
    if graph.get("uri", "") is None:
        del values["graph"]["uri"]  # what is missing is complained of with what stands beside it
    at = source(**graph)
    said = []
    for given in (values, at, {**attributes(), "graph": [graph]}, {**attributes(), "sources": graph}):
        with pytest.raises((og.errors.InvalidInput, ValidationError)) as refused:
            load(tmp_path, given)  # as Dagster loads it
        said.append(str(refused.value) + str(getattr(refused.value, "facts", "")))
        schema = OmniGraphIngestComponent.model().model_json_schema()
        if given in (values, at):  # as `dg check yaml` checks it, which has a place for nothing but the whole document
            said += [one.message for one in Draft202012Validator(schema).iter_errors(given)]
    assert SECRET not in "".join(said)


def load(folder: Path, values: dict[str, Any]) -> tuple[dg.Definitions, Any]:
    """The component of a YAML with these attributes, loaded as Dagster does."""
    (folder / "people.pg").write_text(PG)
    (folder / "defs.yaml").write_text(yaml.safe_dump({"type": "x", "attributes": values}, sort_keys=False))
    component = OmniGraphIngestComponent.resolve_from_yaml(yaml.safe_dump(values, sort_keys=False))
    context: Any = Folder(folder)
    names = ("graph", "sources", "checks", "alerts")
    return component.build_defs(context), check(context, {name: getattr(component, name) for name in names})


def test_what_only_loading_finds_has_its_line_too(tmp_path: Path) -> None:
    values = source(tables=[{"node": "Persn", "files": "x"}])
    with pytest.raises(og.errors.InvalidInput) as refused:
        load(tmp_path, values)
    lines = yaml.safe_dump(values, sort_keys=False).splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "Persn" in text)
    assert f"defs.yaml:{line}:" in refused.value.message
    assert "the schema has no node type 'Persn'; did you mean 'Person'?" in refused.value.message
    assert refused.value.facts["line"] == line


def test_dagsters_own_settings_reach_the_assets(tmp_path: Path) -> None:
    values = source(
        deps=["raw/crm"],
        group_name="customers",
        tags={"tier": "gold"},
        owners=["ada@example.com"],
        freshness={"fail_after": "26h", "warn_after": "24h"},
        automation_condition="eager",
    )
    defs, _ = load(tmp_path, {**values, "alerts": {"hook": "json:dumps"}})
    repository = defs.get_repository_def()
    graph = repository.asset_graph
    person, commit = (graph.get(dg.AssetKey(["one", "crm", name])) for name in ("Person", "commit"))
    assert dg.AssetKey(["raw", "crm"]) in person.parent_keys
    assert (person.group_name, commit.group_name) == ("customers", "customers")
    assert person.tags["tier"] == commit.tags["tier"] == "gold"
    assert commit.owners == ["ada@example.com"]
    policy = commit.freshness_policy
    assert policy is not None and policy.fail_window.to_timedelta() == timedelta(hours=26)
    assert person.automation_condition is not None and commit.automation_condition is not None
    assert {"run_failures", "automation_one"} <= {one.name for one in repository.sensor_defs}
    on = {one.name for one in repository.sensor_defs if one.default_status is dg.DefaultSensorStatus.RUNNING}
    assert "automation_one" in on

    @dg.asset(deps=[dg.AssetKey(["one", "crm", "commit"])])
    def downstream() -> None:
        pass

    merged = dg.Definitions.merge(defs, dg.Definitions(assets=[downstream]))
    dg.Definitions.validate_loadable(merged)


@pytest.mark.parametrize("component", [OmniGraphIngestComponent, OmniGraphUpkeepComponent])
def test_a_scaffolded_component_is_a_commented_example_that_loads(tmp_path: Path, component: Any) -> None:
    scaffolder: Any = get_scaffolder(component)
    request: Any = ScaffoldRequest(f"omnigraph_pipelines.{component.__name__}", tmp_path, "yaml", tmp_path, NoParams())
    scaffolder.scaffold(request)
    text = (tmp_path / "defs.yaml").read_text()
    values = yaml.safe_load(text)["attributes"]
    assert complaints(values, component) == []
    made = component.resolve_from_yaml(yaml.safe_dump(values)).build_defs(Folder(tmp_path))
    dg.Definitions.validate_loadable(made)
    every = yaml.safe_load("\n".join(uncommented(text)))["attributes"]
    given = {name: value for name, value in every.items() if value is not None and name != "sources"}
    assert len(given) > 1 and complaints({**values, **given}, component) == []


def test_the_comments_of_a_scaffolded_example_are_whole_sentences() -> None:
    for made in (IngestScaffolder(), UpkeepScaffolder()):
        said = [line.rsplit("  # ", 1)[-1] for line in made.lines() if re.search(r"\S  +# ", line)]
        assert len(said) > 20 and [one for one in said if not one.endswith(".")] == []


def uncommented(text: str) -> list[str]:
    """The example with every setting in it; what has no value of its own is left out."""
    lines = [re.sub(r"^( *)# ", r"\1", line) for line in text.splitlines()]
    return [line for line in lines if not re.search(r": null( |$)", line)]


def test_components_are_found_by_their_short_names() -> None:
    import omnigraph_pipelines

    for name in ("OmniGraphIngestComponent", "OmniGraphUpkeepComponent"):
        assert issubclass(getattr(omnigraph_pipelines, name), dg.Component)
        assert name in dir(omnigraph_pipelines)
