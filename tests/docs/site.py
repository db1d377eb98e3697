"""The manual as a site: what mkdocs is told beside ``mkdocs.yml``.

Pages are written for who reads them as files. Owns the differences: the order of the pages is that of ``docs/README.md``, the
words behind a fence's language go, headings have the names that links use, and a link to a file outside the manual becomes its
name. Nothing is fetched from anywhere.

``python -m tests.docs.site VERSION FOLDER`` adds the manual of a version to a folder that may hold those of others.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^( *```)(\S+)(?: [^\n`]*)?$", re.M)
_LINK = re.compile(r"(?<!!)\[([^\]\n]*)\]\(([^)\s]+)\)")
HISTORY = "## Kept for history"
_ITEM = re.compile(r"^- +\[([^\]]+)\]\(([^)\s]+\.md)\)", re.M)


def slug(title: str, separator: str = "-") -> str:
    """The name of a heading, as where the files are read."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "")
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", separator)


def on_config(config: Any) -> Any:
    config["nav"] = navigation(Path(config["docs_dir"]))
    config["mdx_configs"].setdefault("toc", {})["slugify"] = slug
    return config


def navigation(docs: Path) -> list[Any]:
    """Sections and pages in the order of the front page; a page that it does not name stands with those of its folder,
    unless it is kept for history."""
    text = (docs / "README.md").read_text(encoding="utf-8")
    history = of_history(docs)
    found: list[Any] = [{"Home": "README.md"}]
    named = {"README.md"}
    for section in re.split(r"^## +", text, flags=re.M)[1:]:
        title, _, body = section.partition("\n")
        pages = [{name.replace("`", ""): path} for name, path in _ITEM.findall(body)]
        named |= {path for page in pages for path in page.values()}
        if pages:
            found.append({title.strip(): pages})
    rest = sorted(
        str(page.relative_to(docs)) for page in docs.rglob("*.md") if str(page.relative_to(docs)) not in named | history
    )
    for path in rest:
        folder = path.rpartition("/")[0]
        section = next((pages for one in found for pages in one.values() if _is_of(folder, pages)), None)
        if section is None:
            found.append({folder.capitalize() or "More": [path]})
        else:
            section.append(path)
    return found


def of_history(docs: Path) -> set[str]:
    """Return the decision pages that are listed as kept for history: they are in the site, and not in its navigation."""
    text = (docs / "decisions" / "README.md").read_text(encoding="utf-8")
    return {f"decisions/{path}" for _, path in _ITEM.findall(text.partition(HISTORY)[2])}


def _is_of(folder: str, pages: Any) -> bool:
    """Whether a section holds pages of the folder. (The first entry is a page, not a section.)"""
    paths = [
        page if isinstance(page, str) else next(iter(page.values())) for page in pages if not isinstance(pages, str)
    ]
    return any(path.rpartition("/")[0] == folder for path in paths)


# What a reader searches for is a page that says how, before one that says why.
_BOOSTS = {"tutorial": 4, "howto": 4, "answers": 4, "reference": 2, "decisions": 0.2, "changelog.md": 0.2}


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    page.meta.setdefault("search", {"boost": _BOOSTS.get(page.file.src_uri.partition("/")[0], 1)})
    docs = Path(config["docs_dir"]).resolve()
    here = docs / page.file.src_uri
    parts = re.split(r"(^ *```.*?^ *```$)", markdown, flags=re.S | re.M)
    return "".join(
        _FENCE.sub(lambda m: f"{m[1]}{'text' if m[2] == 'output' else m[2]}", part)
        if part.lstrip().startswith("```")
        else _LINK.sub(lambda m: _inside(m, here.parent, docs), part)
        for part in parts
    )


def _inside(link: re.Match[str], here: Path, docs: Path) -> str:
    target = link[2].partition("#")[0]
    if not target or re.match(r"[a-z]+:", target):
        return link[0]
    path = Path(os.path.normpath(here / target))
    return link[0] if path.is_relative_to(docs) else link[1]


# --- versions --------------------------------------------------------------------------------------------------------------

_FRONT = '<!doctype html><meta charset="utf-8"><title>Manual</title><meta http-equiv="refresh" content="0; url={}/index.html">\n'


def publish(version: str, folder: Path, root: Path = ROOT) -> None:
    """Build the manual into the folder of its version, put it first in the list that the selector of every page reads, and let
    the front page lead to it. What other versions have in the folder stays."""
    if not re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z.+-]*", version):
        raise SystemExit(f"a version is like 0.1.0, not {version!r}")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "--config-file", str(root / "mkdocs.yml")]
    subprocess.run([*command, "--site-dir", str((folder / version).resolve())], cwd=root, check=True)
    path = folder / "versions.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    others = [{**one, "aliases": []} for one in before if one["version"] != version]
    listed = [{"version": version, "title": version, "aliases": ["latest"]}, *others]
    path.write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    (folder / "index.html").write_text(_FRONT.format(version), encoding="utf-8")


if __name__ == "__main__":
    publish(sys.argv[1], Path(sys.argv[2]))
