"""Pages of the manual: their blocks, how a page is run, and what of an output may differ from run to run.

A fence says what is to be done with it by the words behind its language:

    sh                      run by ``sh`` where the page is run; fails unless it ends with 0 (or ``exits=N``)
    sh verbs                lines of ``./run VERB …``: the verb and every path named must exist
    sh install              ``pip install`` lines: every extra named must exist
    python                  run; all blocks of a page share one namespace
    output                  what the block before it printed, up to what differs from run to run; a line ``…`` stands for
                            any lines
    LANGUAGE file=NAME      written to NAME, for the blocks that follow
    pg, gq                  must parse (``refused``: must not)
    json, ndjson            must parse (``shape``: shows a shape, with … in it)
    text                    neither code nor output: a picture, a grammar, a path

``python -m tests.docs.pages PAGE...`` runs pages and writes what came out into their output blocks.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TIMEOUT_S = 280
HOME = "/home/ada/graphs"  # how the folder in which a page was run is called on it
HOST = "workshop"

_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^`\n]*)$")


@dataclass(frozen=True)
class Block:
    """One fenced block. ``line`` is that of its fence, from 1."""

    page: Path
    line: int
    language: str
    words: tuple[str, ...]
    text: str
    end: int
    indent: str = ""

    def option(self, name: str) -> str | None:
        for word in self.words:
            key, equals, value = word.partition("=")
            if key == name:
                return value if equals else ""
        return None

    @property
    def place(self) -> str:
        name = self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page
        return f"{name}:{self.line}"


@dataclass
class Step:
    """Something to be done, in the order of the page. ``output`` is the block that shows what comes out."""

    block: Block
    kind: str  # sh, python, file
    output: Block | None = None
    exits: int = 0


@dataclass
class Ran:
    printed: list[str] = field(default_factory=list)
    failure: str | None = None


def all_pages() -> list[Path]:
    return sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    start: tuple[int, str, str] | None = None
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if start is None:
            start = (number, fence["info"].strip(), fence["indent"])
        else:
            first, info, indent = start
            words = info.split()
            body = "\n".join(one.removeprefix(indent) for one in lines[first : number - 1])
            found.append(Block(page, first, words[0] if words else "", tuple(words[1:]), body, number, indent))
            start = None
    assert start is None, f"{page}: a fence is not closed: line {start and start[0]}"
    return found


def steps(page: Path) -> list[Step]:
    found: list[Step] = []
    for block in blocks(page):
        if block.option("file"):
            found.append(Step(block, "file"))
        elif block.language == "sh" and block.option("verbs") is None and block.option("install") is None:
            found.append(Step(block, "sh", exits=int(block.option("exits") or 0)))
        elif block.language == "python":
            found.append(Step(block, "python"))
        elif block.language == "output":
            assert found and found[-1].output is None, f"{block.place}: an output follows what made it"
            found[-1].output = block
    return found


# --- running ------------------------------------------------------------------------------------------------------------

# Runs in a process of its own: one namespace for python, one environment for sh, everything printed is returned.
_DRIVER = r"""
import contextlib, io, json, os, subprocess, sys, traceback

def shell(text, state):
    before = f'[ ! -f "{state}" ] || . "{state}"\n'
    script = before + 'trap \'export -p >"' + state + '"\' EXIT\n' + text
    done = subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return (done.returncode if done.returncode >= 0 else 128 - done.returncode), done.stdout

def main():
    work = json.load(sys.stdin)
    namespace, answers = {"__name__": "__main__"}, []
    for kind, text, name in work["steps"]:
        code, printed = 0, ""
        if kind == "file":
            os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
            with open(name, "w", encoding="utf-8") as file:
                file.write(text + "\n")
        elif kind == "sh":
            code, printed = shell(text, work["state"])
        else:
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                try:
                    exec(compile(text, name, "exec"), namespace)
                except BaseException:
                    code = 1
                    traceback.print_exc()
            printed = out.getvalue()
        answers.append([code, printed])
        if code != (work["exits"][len(answers) - 1]):
            break
    with open(work["answer"], "w", encoding="utf-8") as file:
        json.dump(answers, file)

main()
"""


def run(page: Path, work: Path, environment: Mapping[str, str] | None = None, *, python: Path | None = None) -> Ran:
    """Run all steps of a page in the folder ``work``, which is empty but for the data of the tutorial on the front page.
    ``python``: that of an environment into which the package was installed; then the folder is empty, and nothing of this
    repository is found."""
    todo = steps(page)
    (work / "here").mkdir(parents=True)
    (work / "home").mkdir()
    if page.parent == ROOT and python is None:
        # The pages at the top are read by somebody who stands in a clone.
        (work / "here" / "docs").symlink_to(DOCS)
    answer = work / "answer.json"
    request = {
        "steps": [[s.kind, s.block.text, s.block.option("file") or s.block.place] for s in todo],
        "exits": [s.exits for s in todo],
        "state": str(work / "state.sh"),
        "answer": str(answer),
    }
    here_only = ("AWS_", "OMNIGRAPH_", "PYTHONPATH", "VIRTUAL_ENV")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(here_only)}
    interpreter = python or Path(sys.executable)
    env = {
        **inherited,
        **({"PYTHONPATH": str(ROOT / "engine")} if python is None else {}),
        "PATH": f"{interpreter.parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONUTF8": "1",
        "HOME": str(work / "home"),
        "COLUMNS": "120",
        "NO_COLOR": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
        **(environment or {}),
    }
    done = subprocess.run(
        [str(interpreter), "-c", _DRIVER],
        input=json.dumps(request),
        cwd=work / "here",
        env=env,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    ran = Ran()
    if not answer.exists():
        ran.failure = f"the page was not run to its end: {done.stderr[-2000:]}"
        return ran
    for step, (code, printed) in zip(todo, json.loads(answer.read_text(encoding="utf-8")), strict=False):
        ran.printed.append(_named(printed, work / "here"))
        if code != step.exits:
            ran.failure = f"{step.block.place}: ended with {code}, not {step.exits}:\n{printed[-3000:]}"
    return ran


def _named(text: str, here: Path) -> str:
    """What was printed, with the names of the machine replaced and without the shell's own remark about a kill."""
    text = (
        text.replace(str(here.resolve()), HOME).replace(str(here), HOME).replace(socket.gethostname() + "/", HOST + "/")
    )
    text = re.sub(rf'("host": ){json.dumps(socket.gethostname())}', rf'\1"{HOST}"', text)
    lines = [line.rstrip() for line in text.splitlines() if not re.search(r"\bKilled\b", line)]
    return "\n".join(lines).strip("\n")


# --- comparing ----------------------------------------------------------------------------------------------------------

_MASKS = [
    (re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b"), "<ulid>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"\b[0-9a-f]{40,}\b"), "<hex>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?"), "<time>"),
    (re.compile(r'("(?:pid|started|created_at_us|recovered_at_us|modified_us|age_s)": )[\d.]+'), r"\1<number>"),
    (re.compile(r"\b[\w.-]+/\d{2,}\b"), "<owner>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:µs|us|ms|s|min|h)\b"), "<duration>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:B|kB|KB|MB|GB|KiB|MiB|GiB|bytes)\b"), "<size>"),
    (re.compile(r"[-─━]{3,}"), "---"),
    (re.compile(r"[ \t]+"), " "),
]


def masked(line: str) -> str:
    for pattern, name in _MASKS:
        line = pattern.sub(name, line)
    return line.strip()


def agrees(shown: str, printed: str) -> bool:
    """Whether a block shows what came out. A line ``…`` stands for any number of lines."""
    wanted = [masked(line) for line in shown.strip("\n").splitlines()]
    found = [masked(line) for line in printed.strip("\n").splitlines()]
    return _match(wanted, found)


def _match(wanted: list[str], found: list[str]) -> bool:
    if not wanted:
        return not found
    if wanted[0] == "…":
        return any(_match(wanted[1:], found[skip:]) for skip in range(len(found) + 1))
    return bool(found) and wanted[0] == found[0] and _match(wanted[1:], found[1:])


def differences(page: Path, ran: Ran) -> Iterator[str]:
    for step, printed in zip(steps(page), ran.printed, strict=False):
        if step.output is not None and not agrees(step.output.text, printed):
            yield f"{step.output.place} shows\n{step.output.text}\n--- but this came out ---\n{printed}\n"


# --- writing ------------------------------------------------------------------------------------------------------------


def rewrite(page: Path, ran: Ran) -> int:
    """Put what came out into the output blocks that differ from it; returns how many there were."""
    lines = page.read_text(encoding="utf-8").splitlines()
    changed = 0
    for step, printed in reversed(list(zip(steps(page), ran.printed, strict=False))):
        out = step.output
        if out is not None and not agrees(out.text, printed):
            lines[out.line : out.end - 1] = [out.indent + line for line in printed.splitlines()]
            changed += 1
    if changed:
        page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return changed


def environment_of(page: Path, endpoint: str) -> dict[str, str]:
    """What a page that says ``<!-- runs on: s3 -->`` needs to reach the emulator."""
    from omnigraph.testing.emulator import environment

    return environment(endpoint)


def wants_store(page: Path) -> bool:
    return "<!-- runs on: s3 -->" in page.read_text(encoding="utf-8")


def main(names: list[str]) -> int:
    from omnigraph.testing.emulator import S3Emulator

    failed = 0
    for name in names:
        page = Path(name).resolve()
        work = Path(tempfile.mkdtemp())
        try:
            if wants_store(page):
                with S3Emulator() as store:
                    store.create_bucket("my-bucket")
                    ran = run(page, work, environment_of(page, store.endpoint))
            else:
                ran = run(page, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        failed += ran.failure is not None
        print(f"{name}: {ran.failure or f'ran; {rewrite(page, ran)} outputs written'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
