"""What Sphinx makes the site of: the notebooks and pages of the project, copied, with links that lead on the site.

The site's root is notebooks/: NN.ipynb, NN.md and measured/NN.csv become NN.html at the same place. Nothing is run.
"""

import base64
import csv
import hashlib
import html
import importlib.util
import json
import os
import re
import shutil
import struct
import tomllib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import nbformat
from nbformat import NotebookNode

from tools import tables

FOLDED = "jp-MarkdownHeadingCollapsed"
ANSWER = "the answer:\n"  # what a notebook prints above the output that decides a prediction
FOLD_HERE = '<div class="fold-here"></div>'  # site/conf.py folds the section in which it stands
LEAD = (
    "Start from a single dot product and end with a small GPT that you have trained on Shakespeare yourself, in "
    "executable notebooks."
)


@dataclass
class Run:
    """What is known of the last run of a notebook in build/; `notebook` is None when there is none."""

    notebook: NotebookNode | None
    status: str  # "ok", or why the run does not count
    when: str = ""
    seconds: float | None = None
    result: str = ""  # what its cells tagged "result" printed


def title_of(notebook: NotebookNode) -> str:
    """The notebook's first heading, without its signs."""
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    heading = re.search(r"^# +(.+)$", "\n\n".join(texts), re.M)
    return heading[1].strip() if heading else ""


class Stage:
    """The folder `source` for Sphinx, from the project in `root`; with `runs`, notebooks show their last runs."""

    def __init__(self, root: Path, source: Path, runs: dict[str, Run] | None = None):
        self.root, self.notebooks, self.source, self.runs = root, root / "notebooks", source, runs
        self.extra = source / "_extra"  # goes to the site as it is
        self.lessons = sorted(path for path in self.notebooks.glob("[0-9]*.ipynb"))
        self.repository, self.play = repository(root), False

    def write(self, name: str, text: str) -> None:
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def everything(self) -> None:
        self.extra.mkdir(parents=True)
        self.play = add_play(self.extra)
        shown = {path.stem: self.notebook(path) for path in self.lessons}
        solutions = sorted((self.notebooks / "solutions").glob("*.ipynb"))
        for path in solutions:
            self.notebook(path)
        behind = []
        if self.lessons:
            self.article(self.notebooks / "claims.md", claims(shown))
            behind.append("claims")
        for path in sorted(
            self.notebooks.glob("*.md"), key=lambda path: (path.stem == "glossary", path.stem != "ledger")
        ):
            self.article(path, path.read_text(encoding="utf-8"))
            behind.append(path.stem)
        for folder, title, pages in (
            ("measured", "The studies' tables", [self.table(path) for path in self.csvs()]),
            ("solutions", "Solutions", [path.stem for path in solutions]),
        ):
            if pages:
                says = "Every notebook with exercises has answers that run." if folder == "solutions" else (
                    "What the long experiments have measured, run by run, as the notebooks read it.")  # fmt: skip
                self.write(f"{folder}/index.md", f"# {title}\n\n{says}\n\n{toctree(pages)}")
                behind.append(f"{folder}/index")
        self.write("index.md", self.home(shown, behind))

    def article(self, path: Path, text: str) -> None:
        """A page of text, whose tables a phone shows row by row."""
        text = self.relinked(text, path)
        if path.stem != "glossary":  # its table is narrow enough
            text = re.sub(r"(?:^\|.*\n)+", r'<div class="rows">\n\n\g<0>\n</div>\n', text, flags=re.M)
        self.write(path.name, text)

    def csvs(self) -> list[Path]:
        return sorted((self.notebooks / "measured").glob("*.csv"))

    # ---------------------------------------------------------------- links
    def relinked(self, markdown: str, here: Path) -> str:
        """The text of the file `here` with links that lead on the site; code stays as it is."""

        def change(match: re.Match) -> str:
            return match["code"] or f"]({self.address(match['link'], here)})"

        return re.sub(r"(?P<code>```.*?```|`[^`]*`)|\]\((?P<link>[^)\s]+)\)", change, markdown, flags=re.S)

    def address(self, link: str, here: Path) -> str:
        """Where a link in the file `here` leads on the site. Files that are no pages come along."""
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            return link
        anchor = f"#{anchor_of(anchor)}" if anchor else ""
        if not path:
            return anchor
        target = Path(os.path.normpath(here.parent / unquote(path)))
        if target.suffix == ".py" and target.with_suffix(".ipynb").exists():  # a notebook's other form
            target = target.with_suffix(".ipynb")
        if target == self.root / "README.md":
            page = PurePosixPath("index.html")
        elif target == self.root / "docs" / "claims.md":
            page = PurePosixPath("claims.html")
        elif target.is_relative_to(self.notebooks) and target.suffix in (".ipynb", ".md", ".csv"):
            page = PurePosixPath(target.relative_to(self.notebooks).with_suffix(".html").as_posix())
        elif target.is_relative_to(self.root) and target.is_file():
            page = PurePosixPath("files") / target.relative_to(self.root).as_posix()
            (self.extra / page).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target, self.extra / page)
        else:
            return link  # leads nowhere: the check of all links will say so
        return PurePosixPath(os.path.relpath(page, here.parent.relative_to(self.notebooks))).as_posix() + anchor

    # ---------------------------------------------------------------- notebooks
    def notebook(self, path: Path) -> NotebookNode:
        """Write the page of a notebook, from its last run or as it is stored; return what it shows."""
        run = (self.runs or {}).get(path.stem)
        try:
            notebook = (run.notebook if run else None) or nbformat.read(path, as_version=4)
        except Exception:  # nbformat raises whatever JSON, its schema and the file system raise
            fresh = "`python -m tools.notebooks fresh`"
            text = f"# {path.stem}\n\nThis notebook can't be read. {fresh} brings back the one that was committed."
            notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])
        cells = joined([part for cell in notebook.cells for part in self.cell(cell, path)])
        cells.insert(1 if cells else 0, markdown(self.run_box(path, run)))
        cells += [markdown(script) for script in mountings(notebook)]
        page = {"nbformat": 4, "nbformat_minor": 4, "cells": cells, "metadata": {
            "language_info": {"name": "python", "pygments_lexer": "ipython3"}}}  # fmt: skip
        self.write(path.relative_to(self.notebooks).as_posix(), json.dumps(page))
        return notebook

    def cell(self, cell: NotebookNode, path: Path) -> list[dict]:
        """What stands for a cell on the page; JupyterLab's flags of folding stay with it."""
        if cell.cell_type == "code":
            outputs = [shown for output in cell.get("outputs", []) if (shown := self.output(output, path))]
            metadata = {"anchor": [cell.get("id", "")], "jupyter": cell.metadata.get("jupyter", {})}
            return [{"cell_type": "code", "metadata": metadata, "source": cell.source, "outputs": outputs,
                     "execution_count": cell.execution_count}]  # fmt: skip
        if cell.cell_type != "markdown":
            return []
        text = re.sub(r"^\[All notebooks\]\(.*\n?", "", cell.source, flags=re.M)  # the site has its own way around
        first, _, rest = self.relinked(text, path).partition("\n")
        anchor = f'<div id="{html.escape(cell.get("id", ""))}"></div>'
        if not re.match(r"#{1,6} ", first):
            return [markdown(f"{anchor}\n\n{first}\n{rest}")]
        folded = f"{FOLD_HERE}\n\n" if cell.metadata.get(FOLDED) else ""
        return [markdown(f"{first}\n\n{folded}{anchor}\n\n{rest}")]

    def output(self, output: NotebookNode, path: Path) -> dict | None:
        """An output that needs no kernel: of several forms the picture, with its text; explorers play on the page."""
        if "data" not in output:
            if output.get("text") == ANSWER:
                return None
            told = {"text": output.text.removeprefix(ANSWER)} if "text" in output else {}  # the fold says so already
            return dict(output) | told
        data = {kind: value for kind, value in output.data.items() if not kind.startswith("application/")}
        if picture := output.data.get("image/png"):
            facts = output.get("metadata", {}).get("image/png", {})
            data = {"text/html": self.picture(base64.b64decode(picture), path, **facts)}
        if "explore" in output.get("metadata", {}):
            from helpers.widgets import host  # slow, as it brings PyTorch; and few notebooks need it

            data = {"text/html": host.page(output)}
        return {"output_type": "display_data", "metadata": {}, "data": data} if data else None

    def picture(self, png: bytes, page: Path, alt: str = "", width: object = None, **_) -> str:
        name = hashlib.sha256(png).hexdigest()[:16] + ".png"
        (self.extra / "pictures").mkdir(exist_ok=True)
        (self.extra / "pictures" / name).write_bytes(png)
        wide, high = struct.unpack(">2I", png[16:24]) if len(png) >= 24 else (0, 0)
        given = re.match(r"[1-9]\d*", str(width))  # a figure of twice the pixels says how wide it is shown
        shown = int(given[0]) if given else wide
        size = f'width="{shown}" height="{round(high * shown / wide)}"' if wide else ""
        address = os.path.relpath(self.notebooks / "pictures" / name, page.parent).replace(os.sep, "/")
        return f'<img class="figure-card" src="{address}" alt="{html.escape(alt)}" {size} loading="lazy">'

    def run_box(self, path: Path, run: Run | None) -> str:
        """How to run the notebook, where its outputs come from, and buttons where the project has an address."""
        name = path.relative_to(self.root).as_posix()
        lines = [f"<b>Run it yourself.</b> <code>make lab</code> opens JupyterLab; there, take <code>{name}</code>."]
        papermill = f"<code>papermill {name} out.ipynb</code>"
        if path in self.lessons:
            lines.append(f"Without a browser: <code>make run NB={path.stem}</code>, or {papermill} with any settings.")
        else:
            lines.append(f"Without a browser: {papermill}.")
        if self.runs is not None and path in self.lessons:
            ran = run is not None and run.notebook is not None
            lines.append(f"Its last run: {told(run)}." if ran else "Not run here yet: these are the stored results.")
        if self.repository:
            owner = self.repository
            lines.append(
                f'Elsewhere: <a href="https://mybinder.org/v2/gh/{owner}/HEAD?labpath={name}">open in Binder</a>, '
                f'<a href="https://colab.research.google.com/github/{owner}/blob/main/{name}">open in Colab</a>.'
            )
        return '<div class="run-this">\n' + "\n".join(f"<p>{line}</p>" for line in lines) + "\n</div>"

    # ---------------------------------------------------------------- the other pages
    def table(self, path: Path) -> str:
        """Write the page of a CSV table; return its name."""
        lines = path.read_text(encoding="utf-8").splitlines()
        made = [line.lstrip("# ") for line in lines if line.startswith("#")]
        head, *rows = csv.reader(line for line in lines if not line.startswith("#")) or [[]]
        title, says = tables.CAPTIONS.get(path.stem, (path.stem, ""))
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(value)}</td>' for value in row)}</tr>\n" for row in rows)
        names = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in head)
        self.write(f"measured/{path.stem}.md", (
            f"# {title}\n\n{self.relinked(says, path)}\n\n" + "".join(f"- {line}\n" for line in made) +
            f"\n{len(rows)} rows, as they stand in `{path.relative_to(self.root).as_posix()}`.\n\n"
            f'<div class="table-wrapper"><table class="measured">\n<thead><tr>{names}</tr></thead>\n<tbody>\n{body}'
            "</tbody></table></div>\n"))  # fmt: skip
        return path.stem

    def home(self, shown: dict[str, NotebookNode], behind: list[str]) -> str:
        """The first page: what this is, the table of lessons, and after `make run` how the notebooks fared."""
        readme = self.root / "README.md"
        parts = ["# From dot products to nanoGPT", f'<p class="lead">{LEAD}</p>']
        doors = [f'<a href="{name}.html">Start with {name[:2]}</a>' for name in list(shown)[:1]]
        doors += ['<a href="play.html">Play with the model</a>'] if self.play else []
        parts.append(f'<p class="doors">{" ".join(doors)}</p>')
        figure = re.search(r"!\[([^\]]+)\]\((docs/[^)\s]+)\)", readme.read_text("utf-8") if readme.exists() else "")
        if figure and (self.root / figure[2]).is_file():
            address = self.address(f"../{figure[2]}", self.notebooks / "index.md")
            parts.append(f'<img class="figure-card door-picture" src="{address}" alt="{html.escape(figure[1])}">')
        head = ["", "lesson", "to read"] + (["last run"] if self.runs is not None else [])
        rows = [self.lesson(name, notebook) for name, notebook in shown.items()]
        if rows:
            grid = "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])
            parts.append(f'## The lessons\n\n<div class="rows lessons">\n\n{grid}\n\n</div>')
        results = [run.result for run in (self.runs or {}).values() if run.result]
        if results:
            parts.append(
                "## What they printed\n\n" + "\n\n".join(f"````text\n{text.rstrip()}\n````" for text in results)
            )
        parts += [toctree(list(shown), "Lessons", hidden=True), toctree(behind, "Behind the lessons", hidden=True)]
        return "\n\n".join(parts) + "\n"

    def lesson(self, name: str, notebook: NotebookNode) -> list[str]:
        number, _, title = (title_of(notebook) or name).rpartition(" · ")
        text = notebook.cells[0].source if notebook.cells else ""
        question, long = (re.search(rf"\*\*{words}\*\* (.+)", text) for words in (r"The question\.", r"How long\."))
        long = re.split(r",|\.| to read| for the story", long[1])[0] if long else ""
        asks = f"<br>{self.relinked(question[1], self.notebooks / name)}" if question else ""
        cells = [number or name[:2], f"[{tables.escaped(title)}]({name}.html){asks}", long]
        if self.runs is not None:
            cells.append(told(self.runs.get(name)))
        return [cell.replace("|", "\\|") for cell in cells]


def mountings(notebook: NotebookNode) -> list[str]:
    """The scripts of its explorers, each once."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    names = {output.metadata.explore.front_end for output in outputs if "explore" in output.get("metadata", {})}
    if not names:
        return []
    from helpers.widgets import host  # slow, as it brings PyTorch; and few notebooks need it

    return [host.mounting(name) for name in sorted(names)]


def markdown(text: str) -> dict:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def joined(cells: list[dict]) -> list[dict]:
    """Folded code that shows nothing goes into one fold with the folded code below it, or else above it."""
    kept: list[dict] = []
    for cell in cells:
        above = kept[-1] if kept else None
        if above and folded(above) and folded(cell) and not (above["outputs"] and cell["outputs"]):
            shows = above if above["outputs"] else cell
            anchors = above["metadata"]["anchor"] + cell["metadata"]["anchor"]
            source = f"{above['source']}\n\n\n{cell['source']}"
            cell = shows | {"source": source, "metadata": shows["metadata"] | {"anchor": anchors}}
            kept.pop()
        kept.append(cell)
    return kept


def folded(cell: dict) -> bool:
    return cell["cell_type"] == "code" and bool(cell["metadata"]["jupyter"].get("source_hidden"))


def toctree(pages: list[str], caption: str = "", hidden: bool = False) -> str:
    options = [f":caption: {caption}"] * bool(caption) + [":hidden:"] * hidden + [":maxdepth: 1"]
    return "\n".join(["```{toctree}", *options, "", *pages, "```"]) if pages else ""


def anchor_of(anchor: str) -> str:
    """Where JupyterLab's anchor stands on the site: a cell's under its name, a heading's under Sphinx's."""
    from docutils.nodes import make_id  # late: only the site needs it

    return anchor.removeprefix("cell-id=") if anchor.startswith("cell-id=") else make_id(unquote(anchor))


def told(run: Run | None) -> str:
    """How the last run of a notebook ended, how long it took, and when it was."""
    if run is None or run.notebook is None:
        return "not run yet"
    took = "" if run.seconds is None else f", {run.seconds:.0f} s"
    ended = "ok" if run.status == "ok" else f'<span class="failed">{html.escape(run.status)}</span>'
    return f"{ended}{took}{f', {run.when}' if run.when else ''}"


def claims(notebooks: dict[str, NotebookNode]) -> str:
    return (
        "# Thirty claims, measured\n\nWhat the tutorials (R Raschka, H HackTricks, J juejin, G Gralinski, K a write-up "
        "of Karpathy's lecture) say without showing it, each with the cells that measure it and assert the result.\n\n"
        + tables.claims_table(notebooks, "")
        + "\n"
    )


def repository(root: Path) -> str:
    """owner/name of the project on GitHub, from pyproject.toml; empty as long as it has no address."""
    path = root / "pyproject.toml"
    urls = tomllib.loads(path.read_text("utf-8"))["project"].get("urls", {}) if path.is_file() else {}
    address = {name.lower(): value for name, value in urls.items()}.get("repository", "")
    found = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?", address)
    return found[1] if found else ""


def add_play(folder: Path) -> bool:
    """The page that plays with a trained model, where this project has one."""
    if importlib.util.find_spec("play") is None:
        return False
    importlib.import_module("play").write(folder)
    return (folder / "play.html").exists()
