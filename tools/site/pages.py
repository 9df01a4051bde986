"""What Sphinx makes the site of: notebooks, solutions and pages, with links on the site.

The site's root is notebooks/: 03_….ipynb, beyond/….ipynb, ledger.md, solutions/….py and
measured/….csv become .html at the same place.
"""

import ast
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
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import nbformat
from nbformat import NotebookNode

from helpers.course import Head, head_of
from pictures import host
from tools import ledger, publish
from tools.lessons import lessons, named, short, solutions, sources
from tools.site.captions import CAPTIONS

LEAD = (
    "Write a small GPT yourself, the kind of network behind ChatGPT, and train it on Shakespeare. "
    "A little Python and school algebra are enough."
)


@dataclass
class LessonRun:
    """What is known of the last run of a lesson; `notebook` is None when there is none."""

    notebook: NotebookNode | None
    status: str  # "ok", or why the run does not count
    when: str = ""
    seconds: float | None = None
    result: str = ""  # what its cells tagged "result" printed

    def __str__(self) -> str:
        if self.notebook is None:
            return "not run yet"
        failed = f'<span class="failed">{html.escape(self.status)}</span>'
        took = "" if self.seconds is None else f", {self.seconds:.0f} s"
        when = f", {self.when}" if self.when else ""
        return f"{'ok' if self.status == 'ok' else failed}{took}{when}"


class Stage:
    """The folder `source` for Sphinx, from the project in `root`; with `runs`, as they ended."""

    def __init__(self, root: Path, source: Path, runs: dict[str, LessonRun] | None = None):
        self.root, self.notebooks, self.source, self.runs = root, root / "notebooks", source, runs
        self.extra = source / "_extra"  # goes to the site as it is
        self.lessons, self.sources = lessons(self.notebooks), sources(self.notebooks)
        self.solutions = solutions(self.notebooks)
        self.repository, self.play = publish.repository(root), False

    def write(self, name: str, text: str) -> None:
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def page_of(self, path: Path) -> str:
        """The page of a file in notebooks/, from the site's root and without its ending."""
        return path.relative_to(self.notebooks).with_suffix("").as_posix()

    def everything(self) -> None:
        self.extra.mkdir(parents=True)
        self.play = add_play(self.extra)
        lessons = {path: self.lesson(path) for path in self.lessons}
        behind = []
        articles = self.notebooks.glob("*.md")
        order = {"ledger": 0, "glossary": 2}
        for path in sorted(articles, key=lambda path: (order.get(path.stem, 1), path.stem)):
            self.article(path, path.read_text(encoding="utf-8"))
            behind.append(path.stem)
        for path in self.sources:
            self.lesson(path)
            behind.append(self.page_of(path))
        measured = [self.table(path) for path in sorted(self.notebooks.glob("measured/*.csv"))]
        says = "What the long experiments have measured, run by run, as the notebooks read it."
        behind += self.contents("measured", "The studies' tables", says, measured)
        answers = [self.solution(path) for path in self.solutions]
        says = "Every notebook with exercises has answers that run."
        behind += self.contents("solutions", "Solutions", says, answers)
        self.write("index.md", self.home(lessons, behind))

    def contents(self, folder: str, title: str, says: str, pages: list[str]) -> list[str]:
        """Write a folder's table of contents and return its name; nothing if it has no pages."""
        if not pages:
            return []
        self.write(f"{folder}/index.md", f"# {title}\n\n{says}\n\n{toctree(pages)}")
        return [f"{folder}/index"]

    # ------------------------------------------------------------ links
    def relinked(self, markdown: str, here: Path) -> str:
        """The text of the file `here` with links that lead on the site; code stays as it is."""

        def change(match: re.Match) -> str:
            return match["code"] or f"]({self.address(match['link'], here)})"

        code, link = r"(?P<code>```.*?```|`[^`]*`)", r"\]\((?P<link>[^)\s]+)\)"
        return re.sub(f"{code}|{link}", change, markdown, flags=re.S)

    def address(self, link: str, here: Path) -> str:
        """Where a link in the file `here` leads on the site. Files that are no pages come along."""
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            return link
        anchor = f"#{anchor_of(anchor)}" if anchor else ""
        if not path:
            return anchor
        target = Path(os.path.normpath(here.parent / unquote(path)))
        pages = (".ipynb", ".md", ".csv")
        if target == self.root / "README.md":
            page = PurePosixPath("index.html")
        elif target == self.notebooks / "solutions":
            page = PurePosixPath("solutions/index.html")
        elif target in self.solutions or (target.is_relative_to(self.notebooks) and target.suffix in pages):
            page = PurePosixPath(f"{self.page_of(target)}.html")
        elif target.is_relative_to(self.root) and target.is_file():
            page = PurePosixPath("files") / target.relative_to(self.root).as_posix()
            (self.extra / page).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target, self.extra / page)
            anchor = ""  # a file is no page
        else:
            return link  # leads nowhere: the check of all links will say so
        folder = here.parent.relative_to(self.notebooks)
        return PurePosixPath(os.path.relpath(page, folder)).as_posix() + anchor

    # ------------------------------------------------------------ notebooks
    def lesson(self, path: Path) -> NotebookNode:
        """Write the page of a lesson, from its last run or as it is stored; return what it shows."""
        run = (self.runs or {}).get(path.stem)
        try:
            notebook = (run.notebook if run else None) or nbformat.read(path, as_version=4)
        except Exception:  # nbformat raises whatever JSON, its schema and the file system raise
            text = f"# {path.stem}\n\nThis notebook can't be read."
            notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])
        cells = joined([part for cell in notebook.cells for part in self.cell(cell, path)])
        cells.append(markdown(self.run_box(path, run)))
        self.write_cells(path, cells + [markdown(script) for script in mountings(notebook)])
        return notebook

    def write_cells(self, path: Path, cells: list[dict]) -> None:
        language = {"name": "python", "pygments_lexer": "ipython3"}
        page = {"nbformat": 4, "nbformat_minor": 4, "cells": cells}
        page["metadata"] = {"language_info": language}
        self.write(f"{self.page_of(path)}.ipynb", json.dumps(page))

    def cell(self, cell: NotebookNode, path: Path) -> list[dict]:
        """What stands for a cell on the page, with the flags by which conf.py folds it."""
        if cell.cell_type == "code":
            outputs = [self.output(output, path) for output in cell.get("outputs", [])]
            tags = cell.metadata.get("tags", [])
            flags = {
                "source_hidden": fold_of(cell),
                "covered": "covered" in tags,
                "answers": "answers" in tags,
            }
            return [code(cell.source, cell.get("id", ""), flags, list(filter(None, outputs)))]
        if cell.cell_type != "markdown":
            return []
        # The site has its own way around.
        text = re.sub(r"^\[All notebooks\]\(.*\n?", "", cell.source, flags=re.M)
        first, _, rest = self.relinked(text, path).partition("\n")
        anchor = f'<div id="{html.escape(cell.get("id", ""))}"></div>'
        if not re.match(r"#{1,6} ", first):
            return [markdown(f"{anchor}\n\n{first}\n{rest}")]
        return [markdown(f"{first}\n\n{anchor}\n\n{rest}")]

    def output(self, output: NotebookNode, path: Path) -> dict | None:
        """An output that needs no kernel: of a picture the PNG, with its text; explorers play."""
        if "data" not in output:
            return dict(output)
        data = {kind: value for kind, value in output.data.items() if not kind.startswith("application/")}
        if picture := output.data.get("image/png"):
            facts = output.get("metadata", {}).get("image/png", {})
            data = {"text/html": self.picture(base64.b64decode(picture), path, **facts)}
        if "explore" in output.get("metadata", {}):
            data = {"text/html": host.page(output)}
        return {"output_type": "display_data", "metadata": {}, "data": data} if data else None

    def picture(self, png: bytes, page: Path, alt: str = "", width: object = None, **_: object) -> str:
        """The tag of a picture, whose file goes to pictures/ under a name made of its bytes."""
        name = hashlib.sha256(png).hexdigest()[:16] + ".png"
        (self.extra / "pictures").mkdir(exist_ok=True)
        (self.extra / "pictures" / name).write_bytes(png)
        wide, high = struct.unpack(">2I", png[16:24]) if len(png) >= 24 else (0, 0)
        # A figure of twice the pixels says how wide it is shown.
        match = re.match(r"[1-9]\d*", str(width))
        css_width = int(match[0]) if match else wide
        size = f'width="{css_width}" height="{round(high * css_width / wide)}"' if wide else ""
        address = os.path.relpath(self.notebooks / "pictures" / name, page.parent)
        image = (
            f'<img class="figure-card" src="{address.replace(os.sep, "/")}" '
            f'alt="{html.escape(alt)}" {size} loading="lazy">'
        )
        if css_width <= 700:
            return image
        # Where there is little room its letters would be too small: it keeps most of its width, and is drawn aside.
        wide = f'class="wide-figure" style="--drawn: {css_width}px"'
        return f'<div {wide} tabindex="0" role="group" aria-label="a wide picture">{image}</div>'

    def run_box(self, path: Path, run: LessonRun | None) -> str:
        """How to run the lesson, where its outputs come from, and where it opens elsewhere."""
        name = path.relative_to(self.root).as_posix()
        lines = [
            f"<b>Run it yourself.</b> <code>make lab</code> opens JupyterLab; there, take <code>{name}</code>.",
            f"Without a browser: <code>make run NB={path.stem}</code>, or "
            f"<code>papermill {name} out.ipynb</code> with any settings.",
        ]
        if self.runs is not None:
            ran = run is not None and run.notebook is not None
            stored = "Not run here yet: these are the stored results."
            lines.append(f"Its last run: {run}." if ran else stored)
        if self.repository:
            elsewhere = publish.open_links(self.repository, name).items()
            links = [f'<a href="{url}">open in {place}</a>' for place, url in elsewhere]
            lines.append(f"Elsewhere: {', '.join(links)}.")
        paragraphs = "\n".join(f"<p>{line}</p>" for line in lines)
        return f'<div class="run-this">\n{paragraphs}\n</div>'

    # ------------------------------------------------------------ the other pages
    def solution(self, path: Path) -> str:
        """Write the page of a script whose cells begin with `# %%`; return its name."""
        cells = []
        text = path.read_text(encoding="utf-8")
        for part in re.split(r"^# %%", text, flags=re.M)[1:]:
            kind, _, source = part.partition("\n")
            if "[markdown]" in kind:
                prose = re.sub(r"^# ?", "", source.strip(), flags=re.M)
                cells.append(markdown(self.relinked(prose, path)))
            else:
                cells.append(code(source.strip()))
        self.write_cells(path, cells)
        return path.stem

    def article(self, path: Path, text: str) -> None:
        """A page of text, whose tables a phone shows row by row."""
        text = self.relinked(text, path)
        if path.stem != "glossary":  # its table is narrow enough
            rows = r'<div class="rows">\n\n\g<0>\n</div>\n'
            text = re.sub(r"(?:^\|.*\n)+", rows, text, flags=re.M)
        self.write(path.name, text)

    def table(self, path: Path) -> str:
        """Write the page of a CSV table; return its name."""
        lines = path.read_text(encoding="utf-8").splitlines()
        comments = "".join(f"- {line.lstrip('# ')}\n" for line in lines if line.startswith("#"))
        head, *rows = csv.reader(line for line in lines if not line.startswith("#")) or [[]]
        title, says, reader = CAPTIONS.get(path.stem, (path.stem, "", ""))
        if reader:
            lesson = named(reader, self.notebooks)
            says += f" [{short(lesson.stem)}](../{self.page_of(lesson)}.html) reads this table."
        names = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in head)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(value)}</td>' for value in row)}</tr>\n" for row in rows)
        name = path.relative_to(self.root).as_posix()
        self.write(
            f"{self.page_of(path)}.md",
            f"# {title}\n\n{says}\n\n{comments}\n{len(rows)} rows, as they stand in `{name}`.\n\n"
            '<div class="table-wrapper"><table class="measured">\n'
            f"<thead><tr>{names}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n",
        )
        return path.stem

    def home(self, lessons: dict[Path, NotebookNode], behind: list[str]) -> str:
        """The first page: what this is, the lessons, and after a run how they fared."""
        pages = {path: self.page_of(path) for path in lessons}
        readme = self.root / "README.md"
        text = readme.read_text(encoding="utf-8") if readme.exists() else ""
        commands = re.search(r"^```\n(git clone .+?)\n```\n\n(.+?)\n\n", text, re.M | re.S)
        results = [run.result for run in (self.runs or {}).values() if run.result]
        first = list(lessons)[:1]
        buttons = [f'<a href="{pages[path]}.html">Start with lesson {short(path.stem)}</a>' for path in first]
        buttons += [
            '<a href="learn.html">Teach one your own text</a>',
            '<a href="play.html">See inside the model</a>',
        ] * self.play
        buttons += ['<a href="#run-it">Run it yourself</a>'] if commands else []
        parts = ["# From dot products to nanoGPT", f'<p class="lead">{LEAD}</p>']
        if self.play:
            says = "A small GPT writes, and a button takes one of its habits away."
            parts.append(f'<iframe class="play-head" src="play.html?head" title="{says}"></iframe>')
        parts.append(f'<p class="buttons">{" ".join(buttons)}</p>')
        if lessons:
            parts.append(f'## The lessons\n\n<div class="rows lessons">\n\n{self.lesson_table(lessons)}\n\n</div>')
        if commands:
            needed = self.relinked(commands[2].replace("](", "](../"), self.notebooks / "index.md")
            parts.append(f"## Run it\n\n```text\n{commands[1]}\n```\n\n{needed}")
        if results:
            printed = "\n\n".join(f"````text\n{text.rstrip()}\n````" for text in results)
            parts.append(f"## What they printed\n\n{printed}")
        parts.append(toctree([page for page in pages.values() if "/" not in page], "Lessons", hidden=True))
        parts.append(toctree([page for page in pages.values() if "/" in page], "Beyond", hidden=True))
        parts.append(toctree(behind, "Behind the lessons", hidden=True))
        return "\n\n".join(parts) + "\n"

    def lesson_table(self, lessons: dict[Path, NotebookNode]) -> str:
        head = ["", "lesson", "to read"] + (["last run"] if self.runs is not None else [])
        lines, beyond = [head, ["---"] * len(head)], ["", "**Beyond**", *[""] * (len(head) - 2)]
        for path, notebook in lessons.items():
            if path.parent.name == "beyond" and beyond not in lines:
                lines.append(beyond)
            lines.append(self.row(path, notebook))
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def row(self, path: Path, notebook: NotebookNode) -> list[str]:
        """A lesson in the table of the first page: its number, title and question, how long."""
        text = "\n\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
        head = head_of(text) or Head("", path.stem, "")
        number = head.number or (path.stem.partition("_")[0] if path.stem[0].isdigit() else "")
        question = re.search(r"\*\*The question\.\*\* (.+)", text)
        asks = f"<br>{self.relinked(question[1], path)}" if question else ""
        cells = [number, f"[{ledger.escaped(head.title)}]({self.page_of(path)}.html){asks}", head.time]
        if self.runs is not None:
            cells.append(str(self.runs.get(path.stem) or "not run yet"))
        return [cell.replace("|", "\\|") for cell in cells]


def mountings(notebook: NotebookNode) -> list[str]:
    """The scripts of its explorers, each once."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    outputs = [output for output in outputs if "explore" in output.get("metadata", {})]
    explored = [output.metadata.explore for output in outputs]
    if not explored:
        return []
    return [host.mounting(name) for name in sorted({explore.front_end for explore in explored})]


def fold_of(cell: NotebookNode) -> str:
    """What stands on the fold over a cell's code; nothing if it isn't folded."""
    if is_plumbing(cell):
        return "show imports and settings"
    return "show how it is drawn" if draws(cell) else ""


def is_plumbing(cell: NotebookNode) -> bool:
    """Parameters, the guard and imports: a reader of the site needs none of them."""
    if cell.get("id") == "helpers" or "parameters" in cell.metadata.get("tags", []):
        return True
    try:
        body = ast.parse(cell.source).body
    except SyntaxError:  # a reader's own
        return False
    return bool(body) and all(isinstance(node, (ast.Import, ast.ImportFrom)) for node in body)


def draws(cell: NotebookNode) -> bool:
    """Whether a cell is there for its picture: it has one, and defines nothing."""
    pictures = [output for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]
    return bool(pictures) and not re.search(r"^(?:class|def|@)", cell.source, re.M)


def markdown(text: str) -> dict:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def code(source: str, anchor: str = "", flags: dict | None = None, outputs: list | None = None) -> dict:
    """A cell of code: `anchor` is where links find it, `flags` are source_hidden (the words on its fold),
    covered and answers."""
    metadata = {"anchor": [anchor] if anchor else [], **(flags or {})}
    return {
        "cell_type": "code",
        "metadata": metadata,
        "source": source,
        "outputs": outputs or [],
        "execution_count": None,
    }


def joined(cells: list[dict]) -> list[dict]:
    """Folded code that shows nothing joins the folded code below it, or else above it."""

    def folded(cell: dict) -> bool:
        return cell["cell_type"] == "code" and bool(cell["metadata"].get("source_hidden"))

    result: list[dict] = []
    for cell in cells:
        above = result[-1] if result else None
        if above and folded(above) and folded(cell) and not (above["outputs"] and cell["outputs"]):
            shows = above if above["outputs"] else cell
            anchors = above["metadata"]["anchor"] + cell["metadata"]["anchor"]
            source = f"{above['source']}\n\n\n{cell['source']}"
            cell = shows | {"source": source, "metadata": shows["metadata"] | {"anchor": anchors}}
            result.pop()
        result.append(cell)
    return result


def toctree(pages: list[str], caption: str = "", hidden: bool = False) -> str:
    options = [f":caption: {caption}"] * bool(caption) + [":hidden:"] * hidden + [":maxdepth: 1"]
    return "\n".join(["```{toctree}", *options, "", *pages, "```"]) if pages else ""


def anchor_of(anchor: str) -> str:
    """JupyterLab's anchor on the site: a cell's by its name, a heading's as in Sphinx."""
    if anchor.startswith("cell-id="):
        return anchor.removeprefix("cell-id=")
    from docutils.nodes import make_id  # late: whoever runs notebooks need not have Sphinx

    return make_id(unquote(anchor))


def add_play(folder: Path) -> bool:
    """Add the pages on which a trained model plays and another one learns, where this project has them."""
    if importlib.util.find_spec("tools.play") is None:
        return False
    importlib.import_module("tools.play").write(folder)
    importlib.import_module("tools.learn").write(folder)
    return (folder / "play.html").exists()
