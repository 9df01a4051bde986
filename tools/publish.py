"""Write the project's address on GitHub wherever it belongs: python -m tools.publish owner/name.

It stands once, in pyproject.toml; from it come the README's badges and clone command, the links at
the head of each notebook, and the cell with which one that was opened alone, in Colab, fetches the
others' things: the clone has the measured tables, and pip adds the packages that are missing.
Another address replaces the first.
"""

import argparse
import re
import sys
import tomllib
from pathlib import Path

import nbformat

from helpers import ROOT
from helpers.commands import command, say
from helpers.errors import ConfigError
from helpers.files import write
from tools.lessons import everyone, lessons

GUARD = """import importlib.util

# This notebook was opened without its project
if not importlib.util.find_spec("helpers"):
"""
ALONE = """    raise SystemExit(
        "helpers is missing: clone the project, and open this notebook with `make lab`"
    )"""
FETCH = """    import sys

    !git clone --quiet --depth 1 https://github.com/{repo}
    %pip install --quiet --editable ./{name}
    sys.path.insert(0, "{name}")"""
MARK = "<!-- badges, written by tools.publish -->"
OPEN_LINKS = "<!-- links to open it, written by tools.publish -->"


def repository(root: Path) -> str:
    """owner/name of the project on GitHub, from pyproject.toml; "" as long as it has no address."""
    path = root / "pyproject.toml"
    project = tomllib.loads(path.read_text("utf-8"))["project"] if path.is_file() else {}
    urls = {name.lower(): address for name, address in project.get("urls", {}).items()}
    address = r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?"
    match = re.fullmatch(address, urls.get("repository", ""))
    return match[1] if match else ""


def home_page(repo: str) -> str:
    """Where GitHub publishes the site, without a slash at its end; "" as long as it has no address."""
    owner, _, name = repo.partition("/")
    return f"https://{owner.lower()}.github.io/{name}" if repo else ""


def guard(repo: str) -> str:
    """The cell that sees to it that `helpers` is there, or says in a sentence how to get it."""
    return GUARD + (FETCH.format(repo=repo, name=repo.split("/")[1]) if repo else ALONE)


def open_links(repo: str, name: str) -> dict[str, str]:
    """Where a notebook of the project can be opened without installing anything."""
    return {
        "Colab": f"https://colab.research.google.com/github/{repo}/blob/main/{name}",
        "Binder": f"https://mybinder.org/v2/gh/{repo}/HEAD?labpath={name}",
    }


def notebook(text: str, name: str, repo: str) -> str:
    """A notebook's file with the address in its guard and, in a lesson, at its head."""
    content = nbformat.reads(text, as_version=4)
    for cell in content.cells:
        if cell.id == "helpers":
            cell.source = guard(repo)
    first = content.cells[0]
    links = "".join(f" · [{label}]({address})" for label, address in open_links(repo, name).items())
    links += f" · [figures to touch]({home_page(repo)}/{name.removeprefix('notebooks/').removesuffix('.ipynb')}.html)"
    way = re.compile(r"^(\[All notebooks\].*?)(?: · \[Colab\]\(.*)?$", re.M)
    first.source = way.sub(lambda match: match[1] + links, first.source)
    return nbformat.writes(content) + "\n"


def pyproject(text: str, repo: str) -> str:
    text = re.sub(r"^\[project\.urls\]\n(?:.+\n)*\n", "", text, flags=re.M)
    lines = f'[project.urls]\nRepository = "https://github.com/{repo}"\n\n'
    return text.replace("[project.optional-dependencies]", lines + "[project.optional-dependencies]", 1)


def readme(text: str, repo: str) -> str:
    home = f"https://github.com/{repo}"
    badges = [f"[![tests]({home}/actions/workflows/ci.yml/badge.svg)]({home}/actions)"]
    for label, address in open_links(repo, lessons()[0].relative_to(ROOT).as_posix()).items():
        badges.append(f"[![open in {label}](https://img.shields.io/badge/open%20in-{label}-blue)]({address})")
    text = re.sub(rf"{re.escape(MARK)}\n.*\n\n", "", text)
    head, _, rest = text.partition("\n\n")
    text = f"{head}\n\n{MARK}\n{' '.join(badges)}\n\n{rest}"
    name, site = repo.split("/")[1], home_page(repo)
    play = f"**[Play with it]({site}/play.html)** · **[read it]({site}/)** · **[run it](#run-it)**"
    text = re.sub(rf"({re.escape(OPEN_LINKS)}\n).*", rf"\g<1>{play}", text)
    return re.sub(r"^git clone .*$", f"git clone {home} && cd {name}", text, count=1, flags=re.M)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.publish", description=__doc__)
    parser.add_argument("repository", help="owner/name, as GitHub has it")
    repo = parser.parse_args(arguments).repository
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+", repo):
        raise ConfigError("the repository must be owner/name, as GitHub has it")
    texts = {}
    for name, change in (("pyproject.toml", pyproject), ("README.md", readme)):
        texts[ROOT / name] = change((ROOT / name).read_text(encoding="utf-8"), repo)
    for path in everyone():
        name = path.relative_to(ROOT).as_posix()
        texts[path] = notebook(path.read_text(encoding="utf-8"), name, repo)
    for path, text in texts.items():  # all are ready, now they are written
        write(path, text)
    say(f"{len(texts)} files name {repository(ROOT)}: look at them with git diff, then commit")


if __name__ == "__main__":
    sys.exit(command(main))
