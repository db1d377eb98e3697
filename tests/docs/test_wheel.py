"""What is installed from a wheel works without this repository: the first lines of the README, and every entry point."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.docs import pages

README = pages.ROOT / "README.md"
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


@pytest.mark.system
@pytest.mark.timeout(600)
def test_a_fresh_environment_from_the_wheel_runs_the_readme_and_stays_small(tmp_path: Path) -> None:
    """Runs the install block of the README as typed, in a copy of what is under version control. Needs a package index."""
    clone, home, here = tmp_path / "clone", tmp_path / "home", tmp_path / "here"
    for folder in (clone, home, here):
        folder.mkdir()
    names = _run(["git", "ls-files", "-z"], cwd=pages.ROOT).stdout.split("\0")
    for name in filter(None, names):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(pages.ROOT / name, clone / name)
    env = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "VIRTUAL_ENV")} | {"HOME": str(home)}
    install = "\n".join(b.text for b in pages.blocks(README) if b.option("install") is not None)
    _run(install, cwd=clone, env=env)
    venv = home / "og"
    size = sum(path.stat().st_size for path in venv.rglob("*") if path.is_file() and not path.is_symlink())
    assert size / 1e6 <= INSTALLED_MAX_MB
    script = [f". {venv}/bin/activate"]
    for step in pages.steps(README):
        if step.kind == "file":
            (here / str(step.block.option("file"))).write_text(step.block.text + "\n")
        elif step.kind == "sh" and not step.exits:
            script.append(step.block.text)
        elif step.kind == "sh":
            script.append(f"( {step.block.text} ) || true")
        else:
            script.append(f"python - <<'END'\n{step.block.text}\nEND")
    _run("\n".join(script), cwd=here, env=env)
    # The hint of a missing extra works: what is installed already is not looked up.
    _run(f". {venv}/bin/activate\npip install -q 'omnigraph-pipelines[otel]'", cwd=here, env=env)
