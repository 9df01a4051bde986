"""The tables that `make store` and `make ledger` write from what notebooks printed: of the ledger and the claims."""

import re
import tomllib
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from helpers import ledger

CLAIMS = Path(__file__).parent / "claims.toml"
BEGIN, END = "<!-- claims, written by make store -->", "<!-- end of claims -->"


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
    """The error that stopped it, or how many of its cells never ran; an empty text when it ran to its end."""
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


def ledger_page(folder: Path) -> str:
    """The ledger as a page to read, from the outputs that are stored in the notebooks."""
    lines = ledger_lines({path.stem: nbformat.read(path, as_version=4) for path in folder.glob("[0-9]*.ipynb")})
    done = sum(line[3].startswith("reproduced") for line in lines)
    rows = [
        f"| {source} | `{id}` | {f'[{stage}]({stage}.ipynb)' if (folder / f'{stage}.ipynb').exists() else stage} "
        f"| {status} |"
        for source, id, stage, status in lines
    ]
    return (
        "# The ledger\n\n"
        "Every number that the sources print, and every place where one of them is wrong, with the notebook that "
        "prints it again and the assertion that holds it. The numbers themselves are in "
        "[ledger.toml](../helpers/assets/ledger.toml). This page is generated from the stored outputs by "
        "`make store`; `make ledger` runs the notebooks and prints the same table anew.\n\n"
        f"{done} of {len(lines)} rows are reproduced.\n\n"
        "| source | row | notebook | status |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )


# ---------------------------------------------------------------- the scoreboard
def scoreboard_table(folder: Path) -> str:
    """The learned task's results so far, as CSV: what the cells tagged "scoreboard" printed."""
    from helpers import scoreboard  # late: it draws as well, and the ledger needs no matplotlib

    notebooks = [nbformat.read(path, as_version=4) for path in sorted(folder.glob("[0-9]*.ipynb"))]
    lines = "".join(printed(notebook, "scoreboard") for notebook in notebooks).splitlines()
    return scoreboard.to_csv([scoreboard.read_line(line) for line in lines if " | " in line])


# ---------------------------------------------------------------- claims
def claim_cells(folder: Path) -> dict[int, list[tuple[str, NotebookNode]]]:
    """For each claim the cells that measure it, with the names of their notebooks: those tagged claim-<number>."""
    found = {}
    for path in sorted(folder.glob("[0-9]*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            for tag in cell.metadata.get("tags", []):
                if number := re.fullmatch(r"claim-(\d+)", tag):
                    found.setdefault(int(number[1]), []).append((path.stem, cell))
    return found


def with_claims(readme: str, folder: Path) -> str:
    """The README with a new table of claims between its two marks."""
    claims = tomllib.loads(CLAIMS.read_text(encoding="utf-8"))["claim"]
    cells = claim_cells(folder)
    rows = [
        "| {number} | {text} | {by} | {cells} | **{verdict}**: {finding} |".format(
            **claim,
            cells=", ".join(
                f"[{name[:2]}/{cell.id.removeprefix('cell-')}](notebooks/{name}.ipynb#cell-id={cell.id})"
                for name, cell in cells.get(claim["number"], [])
            ),
        )
        for claim in claims
    ]
    table = "\n".join(["| | claim | by | cells | what came out |", "|---|---|---|---|---|", *rows])
    before, rest = readme.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.split(END)[1]}"
