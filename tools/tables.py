"""The tables of the ledger and the claims, from what notebooks printed.

`make store` and `python -m tools.notebooks ledger` write them.
"""

import re
import tomllib
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from helpers import ledger
from tools.lessons import lessons, short

CLAIMS = Path(__file__).parent / "claims.toml"
BEGIN, END = "<!-- claims, written by make store -->", "<!-- end of claims -->"


# ---------------------------------------------------------------- what a notebook has printed
def printed(notebook: NotebookNode, tag: str | None = None) -> str:
    """Everything that its cells printed, or those with the tag."""
    cells = [cell for cell in notebook.cells if tag is None or tag in cell.metadata.get("tags", [])]
    return "".join(
        out.text for cell in cells for out in cell.get("outputs", []) if out.output_type == "stream"
    )


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
    left = sum(cell.execution_count is None for cell in code)
    return stored_error(notebook) or (f"{left} of {len(code)} cells were not run" if left else "")


# ---------------------------------------------------------------- ledger
def ledger_lines(found: dict[str, NotebookNode]) -> list[tuple[str, str, str, str]]:
    """Source, row, notebook and status of every row, as the outputs of the notebooks have it."""
    lines = []
    for row in ledger.rows():
        notebook = found.get(row["notebook"])
        status = "notebook not written yet" if notebook is None else status_of(row, notebook)
        lines.append((ledger.source_of(row), row["id"], row["notebook"], status))
    return lines


def status_of(row: dict, notebook: NotebookNode) -> str:
    text, error = printed(notebook), stored_error(notebook).splitlines()
    id = re.escape(row["id"])
    if error and re.search(rf"\b{id}: ", error[0]):
        return f"FAILED: {error[0][:80]}"
    if re.search(rf"(^|: )reproduced: {id} \(", text, re.M):
        return "reproduced, an erratum" if row["kind"] == "erratum" else "reproduced"
    if reason := re.search(rf"^skipped: {id}(?![-.\w])(.*)", text, re.M):
        return f"skipped{reason[1]}"
    return f"FAILED: {error[0][:80]}" if error else "MISSING"


def reproduced_in(row: dict, notebook: NotebookNode | None) -> tuple[NotebookNode | None, str]:
    """The first cell that reproduced the row, and the numbers it printed as ours."""
    found = re.compile(rf"(?:^|: )reproduced: {re.escape(row['id'])} \(.*(?:\n  ours: (.+))?", re.M)
    for cell in notebook.cells if notebook else []:
        for output in cell.get("outputs", []):
            if output.output_type == "stream" and (match := found.search(output.text)):
                return cell, match[1] or ""
    return None, ""


def cell_link(stage: str, cell: NotebookNode | None, folder: Path, prefix: str = "") -> str:
    """A link to a lesson's cell from a page in the lessons' `folder`; `prefix` leads there."""
    paths = {path.stem: path.relative_to(folder).as_posix() for path in lessons(folder)}
    address = f"{prefix}{paths.get(stage, f'{stage}.ipynb')}"
    if cell is None:
        return f"[{short(stage)}]({address})"
    return f"[{short(stage)}/{cell.id.removeprefix('cell-')}]({address}#cell-id={cell.id})"


def stored(folder: Path) -> dict[str, NotebookNode]:
    return {path.stem: nbformat.read(path, as_version=4) for path in lessons(folder)}


def ledger_page(folder: Path) -> str:
    """The ledger as a page to read, from the outputs that are stored in the notebooks."""
    found, rows = stored(folder), ledger.rows()
    status = {id: status for _, id, _, status in ledger_lines(found)}
    done = sum(words.startswith("reproduced") for words in status.values())
    parts = [
        "# The ledger\n\n"
        "Every number that the sources print, and every place where one of them is wrong, with the notebook cell that "
        "computes it again and asserts that it is the same.\n\n"
        "The upper line of numbers is what the source prints, and the lower one what our cell computes, rounded in "
        "the same way: hold your copy of the source beside it. Of a table, you see the shape and the last row; all its "
        "numbers are compared, and stand in [ledger.toml](../helpers/ledger.toml). Where the source is wrong, "
        "the lower line is what is right, and of a table you see the first row that is wrong: the errata have "
        "[a page of their own](errata.md).\n\n"
        "This page is generated from the stored outputs by `make store`; "
        "`python -m tools.notebooks ledger` runs the notebooks and says "
        f"where each row stands.\n\n{done} of {len(rows)} rows are reproduced."
    ]
    for source in dict.fromkeys(map(ledger.source_of, rows)):
        own = [row for row in rows if ledger.source_of(row) == source]
        lines = [ledger_row(row, found, status[row["id"]], folder) for row in own]
        table = ["| row | printed, and ours | cell |", "|---|---|---|", *lines]
        parts.append(f"## {ledger.source_of(own[0], whole=True)}\n\n" + "\n".join(table))
    return "\n\n".join(parts) + "\n"


def ledger_row(row: dict, found: dict[str, NotebookNode], status: str, folder: Path) -> str:
    cell, ours = reproduced_in(row, found.get(row["notebook"]))
    link = cell_link(row["notebook"], cell, folder)
    if row["kind"] == "erratum":
        printed, ours = ledger.where_they_differ(row)
    else:
        printed = ledger.excerpt(row, row["printed"])
    place, _, printed = printed.rpartition(": ")
    numbers = [
        f"`{line}`".replace(" ", "\N{NO-BREAK SPACE}")
        for line in (printed, ours.rpartition(": ")[2])
        if line
    ]
    lines = "<br>".join(filter(None, [place, *numbers]))
    return f"| **`{row['id']}`**<br>{escaped(row['what'])} | {lines} | {link}<br>{status} |"


def escaped(text: str) -> str:
    """Markdown that shows this text as it is."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)


# ---------------------------------------------------------------- errata
def errata_page(folder: Path) -> str:
    """Every erratum on a page: its place, the wrong and right numbers, the cause, the cell."""
    found, linked = stored(folder), []
    for row in [row for row in ledger.rows() if row["kind"] == "erratum"]:
        cell, _ = reproduced_in(row, found.get(row["notebook"]))
        linked.append((row, cell, cell_link(row["notebook"], cell, folder)))
    return (
        "# What the sources got wrong\n\n"
        "We rerun what the sources print, and check every number. Most of them come out the same: see "
        "[the ledger](ledger.md). The ones below are wrong, or were made in another way than the source says. If your "
        "own numbers differ from your book's, look here before you look for a mistake of yours.\n\n"
        '"It prints" stands before numbers of the source, "it gives" before what its formula or code gives where it '
        "prints none. The notebook cell that is named computes these and the right ones, and asserts both. This page "
        "is generated by `make store`.\n\n"
        "| | source | place | what is wrong | cell |\n|---|---|---|---|---|\n"
        + "\n".join(
            f"| {number} | {ledger.source_of(row)} | {escaped(row['where'])} | {escaped(row['title'])} | {link} |"
            for number, (row, _, link) in enumerate(linked, start=1)
        )
        + "\n\n"
        + "\n\n".join(erratum_section(n, *told) for n, told in enumerate(linked, start=1))
        + "\n"
    )


def erratum_section(number: int, row: dict, cell: NotebookNode | None, link: str) -> str:
    shown = "computed in notebook" if cell else "not reproduced yet in notebook"
    parts = [
        f"## {number}. {escaped(row['title'])}",
        f"{ledger.source_of(row)}, {escaped(row['where'])}; {shown} {link} (`{row['id']}`)",
        f"**What stands there.** {sentence(row['what'])}",
        f"```\n{side_by_side(row)}\n```" if "printed" in row else "",
        f"**The cause.** {sentence(row['why'])}",
        f"**What is right.** {sentence(row['correct_in_words'])}"
        if "correct_in_words" in row
        else "",
    ]
    return "\n\n".join(filter(None, parts))


def side_by_side(row: dict) -> str:
    """The source's numbers and the right ones: tables beside each other, rows one above the other."""
    gives = "it gives" if row.get("derived") else "it prints"
    wrong, right = (ledger.numerals(row, row[field]) for field in ("printed", "correct"))
    width = max(len(number) for line in wrong + right for number in line)
    wrong, right = (
        [" ".join(number.rjust(width) for number in line) for line in table]
        for table in (wrong, right)
    )
    if len(wrong) == 1:
        return f"{gives:9}  {wrong[0]}\n{'right':9}  {right[0]}"
    room = max(len(gives), *map(len, wrong)) + 4
    pairs = zip([gives, *wrong], ["right", *right], strict=True)
    return "\n".join(f"{one:{room}}{other}" for one, other in pairs)


def sentence(text: str) -> str:
    return escaped(text[:1].upper() + text[1:]) + ("" if text.endswith((".", ".)")) else ".")


# ---------------------------------------------------------------- the scoreboard
def scoreboard_table(folder: Path) -> str:
    """The learned task's results so far, as CSV: what the cells tagged "scoreboard" printed."""
    from pictures import scoreboard  # late: it draws, and the ledger needs no matplotlib

    lines = "".join(printed(n, "scoreboard") for n in stored(folder).values()).splitlines()
    return scoreboard.to_csv([scoreboard.read_line(line) for line in lines if " | " in line])


# ---------------------------------------------------------------- claims
def claim_cells(notebooks: dict[str, NotebookNode]) -> dict[int, list[tuple[str, NotebookNode]]]:
    """For each claim the cells tagged claim-<number>, which measure it, with their lessons' names."""
    found = {}
    for name, notebook in notebooks.items():
        for cell in notebook.cells:
            for tag in cell.metadata.get("tags", []):
                if number := re.fullmatch(r"claim-(\d+)", tag):
                    found.setdefault(int(number[1]), []).append((name, cell))
    return found


def claims_table(notebooks: dict[str, NotebookNode], folder: Path, prefix: str) -> str:
    """The claims, what came of them, and links to the cells in the lessons' `folder`.

    `prefix` leads there from the table's page.
    """
    lines = ["| | claim | by | cells | what came out |", "|---|---|---|---|---|"]
    cells = claim_cells(notebooks)
    for claim in tomllib.loads(CLAIMS.read_text(encoding="utf-8"))["claim"]:
        measured = cells.get(claim["number"], [])
        links = ", ".join(cell_link(name, cell, folder, prefix) for name, cell in measured)
        lines.append(
            f"| {claim['number']} | {claim['text']} | {claim['by']} | {links} "
            f"| **{claim['verdict']}**: {claim['finding']} |"
        )
    return "\n".join(lines)


def with_claims(page: str, folder: Path) -> str:
    """The page of claims with a new table of claims between its two marks."""
    before, rest = page.split(BEGIN)
    table = claims_table(stored(folder), folder, "../notebooks/")
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.split(END)[1]}"
