"""What is installed from a wheel works without this repository: the first lines of the README, and every entry point."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs import pages

README = pages.ROOT / "README.md"
TUTORIAL = pages.DOCS / "tutorial" / "first-graph.md"
INSTALLED_MAX_MB = 700
# A finder that has none of the packages of an extra.
_WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""
PIPELINES = ("dagster", "yaml", "pyspark")


def _run(command: list[str] | str, **more: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command if isinstance(command, list) else ["sh", "-ec", command],
        capture_output=True,
        text=True,
        **more,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this tree, built by the pinned build backend."""
    folder = tmp_path_factory.mktemp("wheel")
    _run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            str(folder),
            str(pages.ROOT),
        ]
    )
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def _inside(unpacked: Path) -> dict[str, str]:
    """An environment in which the packages are those of the wheel."""
    return os.environ | {"PYTHONPATH": str(unpacked), "PYTHONUTF8": "1"}


def test_a_wheel_has_both_packages_and_nothing_of_the_repository(unpacked: Path) -> None:
    top = {path.name for path in unpacked.iterdir() if path.suffix != ".dist-info"}
    assert top == {"omnigraph", "omnigraph_pipelines"}
    assert (unpacked / "omnigraph" / "py.typed").exists() and (unpacked / "omnigraph_pipelines" / "py.typed").exists()


@pytest.mark.timeout(300)
def test_the_commands_of_the_readme_work_from_the_wheel_in_an_empty_folder(unpacked: Path, tmp_path: Path) -> None:
    bin_, here = tmp_path / "bin", tmp_path / "here"
    bin_.mkdir()
    here.mkdir()
    (bin_ / "omnigraph").write_text(f'#!/bin/sh\nexec {sys.executable} -m omnigraph.cli "$@"\n')
    (bin_ / "omnigraph").chmod(0o755)
    env = _inside(unpacked) | {"PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}"}
    found = _run(
        [sys.executable, "-c", "import omnigraph; print(omnigraph.__file__)"], cwd=here, env=env
    ).stdout.strip()
    assert found.startswith(str(unpacked))
    ran = 0
    for step in pages.steps(README):
        if step.kind == "file":
            (here / str(step.block.option("file"))).write_text(step.block.text + "\n")
        elif step.kind == "sh":
            done = subprocess.run(["sh", "-c", step.block.text], cwd=here, env=env, capture_output=True, text=True)
            code = done.returncode if done.returncode >= 0 else 128 - done.returncode
            assert code == step.exits, done.stderr
            ran += 1
        else:
            _run([sys.executable, "-c", step.block.text], cwd=here, env=env)
            ran += 1
    assert ran >= 3


def test_the_graph_file_of_the_readme_is_good(tmp_path: Path) -> None:
    from omnigraph_pipelines import load_graph_file

    shell = next(step.block.text for step in pages.steps(README) if step.kind == "sh")
    (tmp_path / "social.pg").write_text(shell.partition("<<'END'\n")[2].partition("END")[0])
    block = next(block for block in pages.blocks(README) if block.option("file") == "graph.yaml")
    (tmp_path / "graph.yaml").write_text(block.text)
    assert load_graph_file(tmp_path / "graph.yaml").settings.graph.name == "social"


@pytest.mark.parametrize("as_json", [False, True], ids=["people", "json"])
def test_the_pipelines_without_their_extra_say_what_to_install(as_json: bool, unpacked: Path, tmp_path: Path) -> None:
    hide = "import importlib.util as u\nfind = u.find_spec\n"
    hide += f"u.find_spec = lambda name, *more: None if name in {PIPELINES!r} else find(name, *more)\n"
    program = hide + "from omnigraph_pipelines.cli import main\nraise SystemExit(main())"
    words = ["--json", "plan"] if as_json else ["--help"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=tmp_path, env=_inside(unpacked), capture_output=True, text=True
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "pip install 'omnigraph-pipelines[cli,pipelines]'" in done.stderr
    assert not as_json or json.loads(done.stdout)["error"]["code"] == "missing-extra"


@pytest.mark.parametrize("name", ["build_definitions", "load_graph_file", "OmniGraphResource"])
def test_a_name_of_the_pipelines_without_their_extra_says_what_to_install(
    name: str, unpacked: Path, tmp_path: Path
) -> None:
    program = _WITHOUT.format(packages=PIPELINES) + (
        "import omnigraph as og, omnigraph_pipelines\n"
        f"try:\n    value = omnigraph_pipelines.{name}\n"
        "except og.errors.MissingExtra as error:\n    assert 'omnigraph-pipelines[' in error.hint\n"
        "else:\n    raise AssertionError(value)\n"
    )
    _run([sys.executable, "-c", program], cwd=tmp_path, env=_inside(unpacked))


def test_the_front_page_of_the_manual_installs_as_the_readme_does() -> None:
    """Only the block of the README is run."""
    readme, front = (
        [block.text for block in pages.blocks(page) if block.option("install") is not None]
        for page in (README, pages.DOCS / "README.md")
    )
    assert readme and readme == front


# --- environments of their own: these need a package index -------------------------------------------------------------------


class Fresh(NamedTuple):
    """A copy of what is under version control, and the environment that the install block of the README made from it."""

    clone: Path
    venv: Path
    env: dict[str, str]

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"


def _copied(folder: Path) -> Path:
    for name in filter(None, _run(["git", "ls-files", "-z"], cwd=pages.ROOT).stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(pages.ROOT / name, folder / name)
    return folder


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


def _installed(what: str, folder: Path, command: str, venv: Path, env: dict[str, str]) -> None:
    """Run a command that makes an environment, and print how long that took and how large it is."""
    begun = time.monotonic()
    _run(command, cwd=folder, env=env)
    took = time.monotonic() - begun
    sys.__stdout__ and sys.__stdout__.write(f"\n{what}: {took:.0f} s, {_megabytes(venv):.0f} MB\n")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    home = tmp_path_factory.mktemp("home")
    clone = _copied(tmp_path_factory.mktemp("clone"))
    cache = {"PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip"))}
    env = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "VIRTUAL_ENV")} | cache | {"HOME": str(home)}
    install = "\n".join(b.text for b in pages.blocks(README) if b.option("install") is not None)
    _installed("the install block of the README", clone, install, home / "og", env)
    return Fresh(clone, home / "og", env)


@pytest.mark.system
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", [README, TUTORIAL], ids=["readme", "tutorial"])
def test_a_page_copied_into_an_empty_folder_works_in_a_fresh_environment_from_the_wheel(
    page: Path, fresh: Fresh, tmp_path: Path
) -> None:
    ran = pages.run(page, tmp_path / "work", python=fresh.python)
    assert ran.failure is None
    assert list(pages.differences(page, ran)) == []


@pytest.mark.system
@pytest.mark.timeout(900)
def test_a_fresh_environment_stays_small_and_takes_what_is_added_later(fresh: Fresh) -> None:
    assert _megabytes(fresh.venv) <= INSTALLED_MAX_MB
    # The hint of a missing extra works: what is installed already is not looked up.
    _run([str(fresh.python), "-m", "pip", "install", "-q", "omnigraph-pipelines[otel]"], cwd=fresh.venv, env=fresh.env)


@pytest.mark.system
@pytest.mark.timeout(900)
def test_what_setup_installs_stays_small(fresh: Fresh) -> None:
    _installed("./run setup", fresh.clone, "./run setup", fresh.clone / ".venv", fresh.env)
    assert _megabytes(fresh.clone / ".venv") <= INSTALLED_MAX_MB
    _run(". .venv/bin/activate && omnigraph version", cwd=fresh.clone, env=fresh.env)


@pytest.mark.system
@pytest.mark.timeout(900)
def test_the_library_and_the_notebook_example_run_in_an_environment_from_the_wheel(
    fresh: Fresh, tmp_path: Path
) -> None:
    _run([str(fresh.python), "-m", "pip", "install", "-q", "omnigraph-pipelines[frames]"], cwd=tmp_path, env=fresh.env)
    library = shutil.copytree(pages.ROOT / "examples" / "library", tmp_path / "library")
    found = _run([str(fresh.python), "follow.py"], cwd=library, env=fresh.env).stdout.splitlines()
    assert found[0] == "3 people; 2 rows set aside"
    notebook = shutil.copytree(pages.ROOT / "examples" / "notebook", tmp_path / "notebook")
    cells = json.loads((notebook / "explore.ipynb").read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    _run([str(fresh.python), "-c", code], cwd=notebook, env=fresh.env)


@pytest.mark.system
@pytest.mark.timeout(1800)
def test_the_dagster_example_runs_in_an_environment_from_the_wheel(fresh: Fresh, tmp_path: Path) -> None:
    venv, constraints = tmp_path / "dg", fresh.clone / "constraints.txt"
    wheel = next((fresh.clone / "dist").glob("*.whl"))
    install = f"{fresh.python} -m venv {venv} && {venv}/bin/pip install -q -c {constraints} '{wheel}[cli,pipelines]'"
    _installed("the wheel with its pipelines", tmp_path, install, venv, fresh.env)
    folder = shutil.copytree(pages.ROOT / "examples" / "dagster", tmp_path / "dagster")
    env = fresh.env | {"DAGSTER_HOME": str(folder), "PATH": f"{venv}/bin{os.pathsep}{fresh.env['PATH']}"}
    _run("omnigraph-pipelines validate graph.yaml && omnigraph-pipelines run graph.yaml", cwd=folder, env=env)
    asked = ["omnigraph", "query", "social.omni", "--sql", "select src, dst from Follows", "--json"]
    assert json.loads(_run(asked, cwd=folder, env=env).stdout)["result"]["rows"] == [{"src": "Ada", "dst": "Mary"}]
    _run([f"{venv}/bin/python", "-c", "from definitions import defs; assert defs"], cwd=folder, env=env)
