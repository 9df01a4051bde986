"""Tables of what notebooks have printed: the sources' page and the scoreboard, by `make store`."""

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from helpers.errors import HelpersError
from tools.lessons import lessons, sources


# ---------------------------------------------------------------- what a notebook has printed
def printed(notebook: NotebookNode, tag: str | None = None) -> str:
    """Everything that its cells printed, or those with the tag."""
    cells = [cell for cell in notebook.cells if tag is None or tag in cell.metadata.get("tags", [])]
    return "".join(out.text for cell in cells for out in cell.get("outputs", []) if out.output_type == "stream")


def stored_error(notebook: NotebookNode) -> str:
    """The first error that a cell raised, as "name: message", or an empty text."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                return f"{output.ename}: {output.evalue}"
    return ""


def why_incomplete(notebook: NotebookNode) -> str:
    """The error that stopped it, or how many cells never ran; "" when it ran to its end."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    remaining = sum(cell.execution_count is None for cell in code)
    return stored_error(notebook) or (f"{remaining} of {len(code)} cells were not run" if remaining else "")


# ---------------------------------------------------------------- the sources' page
LEDGER = """# The sources: their numbers, their slips, their claims

Each source has a notebook that goes through it in its own order: {links}. \
This page is drawn from them by `make store`. \
Its links lead to the cells in JupyterLab and on the site; elsewhere they open the notebook.

## What they print

Every number is compared where it is computed again, and the cell fails when one differs beyond rounding. \
Of a table you see how many numbers it has; they stand side by side in the cell.

| section | what | printed | cell |
|---|---|---|---|
{numbers}

## Where they slip

If your numbers differ from your book's, look here before you look for a mistake of yours.

| | section | what is wrong, why, and what is right | cell |
|---|---|---|---|
{slips}

## What they claim

R is Raschka's book, H HackTricks, J the Chinese note, G Gralinski's lecture, K the write-up of Karpathy's.

| | claim | by | what came out | cell |
|---|---|---|---|---|
{claims}

## How complete this is

Counted in the notebooks: headings that are the source's, its numbers as the notebook's last line has them, \
slips and claims by their cells.

| source | headings | numbers printed | made here | that nobody can make | missing | slips | claims |
|---|---|---|---|---|---|---|---|
{counts}
"""


def ledger_page(folder: Path) -> str:
    """What the sources print, where they slip, what they claim: three tables of links to the cells.

    All of it stands in the sources' notebooks: numbers in the outputs of `same` and `slip`, slips
    and claims in their cells tagged "slip" and "claim".
    """
    notebooks = {path: nbformat.read(path, as_version=4) for path in sources(folder)}
    links = ", ".join(f"[{title(notebook)}](sources/{path.name})" for path, notebook in notebooks.items())
    numbers = [number_row(*place) for place in comparisons(notebooks, folder)]
    slips = [slip_row(*place) for place in tagged("slip", notebooks, folder)]
    claims = [claim_row(*place) for place in tagged("claim", notebooks, folder)]
    return LEDGER.format(
        links=links,
        numbers="\n".join(numbers),
        slips="\n".join(f"| {i} {row}" for i, row in enumerate(slips, start=1)),
        claims="\n".join(f"| {i} {row}" for i, row in enumerate(claims, start=1)),
        counts="\n".join(count_row(notebook) for notebook in notebooks.values()),
    )


def count_row(notebook: NotebookNode) -> str:
    """How much of a source its notebook has: headings, numbers, slips, claims."""
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    headings = len(re.findall(r"^##+ ", prose, re.M))
    numbers = re.search(
        r"^numbers: (\d+) printed, (\d+) made here, (\d+) [a-z ]+, (\d+) missing", printed(notebook), re.M
    )
    if numbers is None:
        raise HelpersError(f"{title(notebook)} doesn't end with a tally of its numbers")
    tags = [tag for cell in notebook.cells for tag in cell.metadata.get("tags", [])]
    cells = [title(notebook), headings, *numbers.groups(), tags.count("slip"), tags.count("claim")]
    return f"| {' | '.join(map(str, cells))} |"


def title(notebook: NotebookNode) -> str:
    return notebook.cells[0].source.splitlines()[0].removeprefix("# ").partition(":")[0]


def places(notebooks: dict[Path, NotebookNode], folder: Path) -> Iterator[tuple[NotebookNode, str, str]]:
    """Each cell of the sources' notebooks, with the heading above it and a link to it."""
    for path, notebook in notebooks.items():
        heading = ""
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                headings = re.findall(r"^##+ (.+)$", cell.source, re.M)
                heading = headings[-1] if headings else heading
            address = f"{path.relative_to(folder).as_posix()}#cell-id={cell.id}"
            yield cell, f"{title(notebook)}: {heading}", f"[here]({address})"


def comparisons(notebooks: dict[Path, NotebookNode], folder: Path) -> Iterator[tuple[str, str, list[str], str]]:
    """What each `same` and `slip` has shown: section, what, its lines of numbers, a link."""
    for cell, section, link in places(notebooks, folder):
        text = "".join(out.text for out in cell.get("outputs", []) if "text" in out)
        for label, lines in re.findall(r"^(\S.*)\n((?:  .*\n?)+)", text, re.M):
            if lines.startswith("  printed"):
                yield section, label, lines.splitlines(), link


def number_row(section: str, label: str, lines: list[str], link: str) -> str:
    first = lines[0].removeprefix("  printed").strip()
    if first.startswith(("here", "right")):  # the head of two tables side by side
        printed = f"{sum(len(line.split()) for line in lines[1:]) // 2} numbers"
    else:
        printed = f"`{first}`"
    slipped = " (see below)" if re.search(r"\bright\b", "".join(lines)) else ""
    return f"| {escaped(section)} | {escaped(label)} | {printed}{slipped} | {link} |"


def tagged(tag: str, notebooks: dict[Path, NotebookNode], folder: Path) -> Iterator[tuple[str, str, str]]:
    """The text of each cell with the tag, its section, a link to it."""
    for cell, section, link in places(notebooks, folder):
        if tag in cell.metadata.get("tags", []):
            yield cell.source, section, link


def slip_row(text: str, section: str, link: str) -> str:
    return f"| {escaped(section)} | {on_the_page(text)} | {link} |"


def claim_row(text: str, section: str, link: str) -> str:
    """A claim's cell begins with *Claimed* (R, H): what; its verdict is the next paragraph."""
    claimed, _, verdict = text.partition("\n\n")
    parts = re.fullmatch(r"\*Claimed\* \(([RHJGK, ]+)\): (.+)", claimed)
    if parts is None:
        raise HelpersError(f"a cell tagged claim begins with no claim: {claimed!r}")
    return f"| {on_the_page(parts[2])} | {parts[1]} | {on_the_page(verdict)} | {link} |"


def on_the_page(text: str) -> str:
    """Prose of a source's notebook in a row of the page above it: one line, its links from here."""
    text = re.sub(r"\]\(\.\./", "](", text)
    text = re.sub(r"\]\((\w+\.ipynb)", r"](sources/\1", text)
    text = re.sub(r"\]\(sources/(\d\d_)", r"](\1", text)
    return " ".join(text.split()).replace("|", "\\|")


def escaped(text: str) -> str:
    """Markdown that shows this text as it is."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)


# ---------------------------------------------------------------- the scoreboard
def stored(folder: Path) -> dict[str, NotebookNode]:
    return {path.stem: nbformat.read(path, as_version=4) for path in lessons(folder)}


def scoreboard_table(folder: Path) -> str:
    """The learned task's results so far, as CSV: what the cells tagged "scoreboard" printed."""
    from pictures import scoreboard  # late: it draws

    lines = "".join(printed(n, "scoreboard") for n in stored(folder).values()).splitlines()
    return scoreboard.to_csv([scoreboard.read_line(line) for line in lines if " | " in line])
