"""Run the notebooks: `run` with papermill into build/, `store` in place, with outputs that git can compare.

`ledger` says where each number of the sources stands, after running what has changed.
"""

import argparse
import base64
import copy
import html
import re
import shlex
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

import nbformat
import papermill
from bs4 import BeautifulSoup
from latex2mathml.converter import convert as latex_to_mathml
from nbclient import NotebookClient
from nbconvert import HTMLExporter

from helpers import ledger
from helpers.console import table

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS, BUILD = ROOT / "notebooks", ROOT / "build"
CLAIMS = Path(__file__).parent / "claims.toml"


@dataclass
class Outcome:
    name: str
    seconds: float
    error: str  # empty when all went well
    result: str  # what its cell tagged "result" printed


def find_notebooks(only: str | None) -> list[Path]:
    paths = sorted(NOTEBOOKS.glob("[0-9]*.ipynb"))
    if only is None:
        return paths
    chosen = [path for path in paths if path.stem == only.removesuffix(".ipynb")]
    if not chosen:
        sys.exit(f"error: no notebook {only!r}: choose one of {', '.join(path.stem for path in paths)}")
    return chosen


# ---------------------------------------------------------------- run
def run(only: str | None, parameters: list[str]) -> int:
    """Papermill each notebook on a fresh kernel, render it, and say at the end which failed; 1 when one did."""
    paths = find_notebooks(only)
    if parameters and only is None:
        sys.exit('error: parameters need a notebook: make run NB=08_nanogpt_shakespeare P="-p preset smoke"')
    if only:
        check_parameters(paths[0], parameters)
    for folder in ("notebooks", "html"):
        (BUILD / folder).mkdir(parents=True, exist_ok=True)
    outcomes = []
    for number, path in enumerate(paths, start=1):
        print(f"[{number}/{len(paths)}] {path.stem}", flush=True)
        outcomes.append(execute(path, parameters))
        last = outcomes[-1]
        print(f"      {'FAILED: ' + last.error if last.error else 'ok'}, {last.seconds:.0f} s", flush=True)
    if only is None or not (BUILD / "html" / "index.html").exists():
        write_index(outcomes, BUILD / "html" / "index.html")
    failed = [outcome.name for outcome in outcomes if outcome.error]
    print(
        f"\n{len(outcomes) - len(failed)} passed, {len(failed)} failed" + (f": {', '.join(failed)}" if failed else "")
    )
    print(f"to read them: {(BUILD / 'html' / 'index.html').relative_to(ROOT)}")
    for outcome in outcomes:
        if outcome.result:
            print(f"\n{outcome.result.rstrip()}")
    return 1 if failed else 0


def check_parameters(path: Path, parameters: list[str]) -> None:
    """Papermill only warns of a parameter that the notebook lacks; here it is an error, before anything runs."""
    allowed = list(papermill.inspect_notebook(str(path)))
    flags = [i for i, word in enumerate(parameters) if word in ("-p", "-r", "--parameters", "--parameters_raw")]
    unknown = [parameters[i + 1] for i in flags if i + 1 < len(parameters) and parameters[i + 1] not in allowed]
    if unknown:
        sys.exit(f"error: {path.stem} has no parameter {', '.join(unknown)}: it has {', '.join(allowed)}")


def execute(path: Path, parameters: list[str]) -> Outcome:
    """One notebook through papermill into build/notebooks and build/html; its training steps show as they come."""
    target = BUILD / "notebooks" / path.name
    target.unlink(missing_ok=True)
    command = [sys.executable, "-m", "papermill", str(path), str(target), "-k", "python3"]
    command += ["--no-progress-bar", "--log-output"]
    start = time.perf_counter()
    log = target.with_suffix(".log")
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "bufsize": 1}
    with log.open("w", encoding="utf-8") as file, subprocess.Popen([*command, *parameters], **pipe) as process:
        for line in process.stdout:
            file.write(line)
            if re.match(r"step +\d+  train ", line):  # as training.print_record writes it
                print(f"      {line}", end="", flush=True)
    seconds = time.perf_counter() - start
    error, result = "", ""
    if target.exists():
        notebook = nbformat.read(target, as_version=4)
        error, result = stored_error(notebook), tagged_output(notebook, "result")
        try:
            (BUILD / "html" / f"{path.stem}.html").write_text(render(notebook), encoding="utf-8")
        except Exception as problem:  # a page that can't be made must not stop the notebooks that follow
            error = error or f"it ran, but no page could be made of it: {problem}"
    if process.returncode and not error:
        error = f"papermill stopped with status {process.returncode}, see {log.relative_to(ROOT)}"
    return Outcome(path.stem, seconds, error, result)


def stored_error(notebook: nbformat.NotebookNode) -> str:
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                return f"{output.ename}: {output.evalue}"
    return ""


def tagged_output(notebook: nbformat.NotebookNode, tag: str) -> str:
    cells = [cell for cell in notebook.cells if tag in cell.metadata.get("tags", [])]
    return "".join(out.text for cell in cells for out in cell.get("outputs", []) if out.output_type == "stream")


def tagged_pictures(notebook: nbformat.NotebookNode, tag: str) -> list[bytes]:
    cells = [cell for cell in notebook.cells if tag in cell.metadata.get("tags", [])]
    bundles = [out.data for cell in cells for out in cell.get("outputs", []) if "data" in out]
    return [base64.b64decode(bundle["image/png"]) for bundle in bundles if "image/png" in bundle]


def render(notebook: nbformat.NotebookNode) -> str:
    """The notebook as one HTML page that needs no network, its pictures with the alternative text of their figures."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = with_mathml(cell.source)
    page, _ = HTMLExporter().from_notebook_node(notebook)
    soup = BeautifulSoup(page, "html.parser")
    for script in soup.select("script[src]"):  # MathJax and require.js, fetched from elsewhere and not needed
        script.decompose()
    for link in soup.select("a[href]"):
        link["href"] = page_of(link["href"])
    texts = [
        output.metadata.get("image/png", {}).get("alt", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    for picture, text in zip(soup.select(".jp-RenderedImage img"), texts, strict=True):
        picture["alt"] = text
    return str(soup)


def page_of(address: str) -> str:
    """Where a link of a notebook leads from its page in build/html."""
    if re.match(r"#|[a-z]+:", address):
        return address
    if address == "../README.md":
        return "index.html"
    return address.replace(".ipynb", ".html") if re.match(r"[^/]+\.ipynb", address) else f"../../notebooks/{address}"


def with_mathml(markdown: str) -> str:
    """Formulas between dollar signs as MathML, which browsers show by themselves; code stays as it is."""

    def translate(match: re.Match) -> str:
        if match["code"]:
            return match["code"]
        return latex_to_mathml(match["block"] or match["inline"], display="block" if match["block"] else "inline")

    return re.sub(
        r"(?P<code>```.*?```|`[^`]*`)|\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$]+)\$", translate, markdown, flags=re.S
    )


def write_index(outcomes: list[Outcome], path: Path) -> None:
    rows = "\n".join(
        f'<tr><td><a href="{outcome.name}.html">{outcome.name}</a></td><td>{outcome.seconds:.0f} s</td>'
        f"<td>{html.escape(outcome.error) or 'ok'}</td></tr>"
        for outcome in outcomes
    )
    results = "\n".join(f"<pre>{html.escape(outcome.result)}</pre>" for outcome in outcomes if outcome.result)
    path.write_text(
        f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>From dot products to nanoGPT</title>
<style>
  :root {{ color-scheme: light dark }}
  body {{ font: 1rem/1.6 system-ui, sans-serif; max-width: 50rem; margin: 3rem auto; padding: 0 1rem }}
  td {{ padding: .2rem 1.5rem .2rem 0; vertical-align: top }} pre {{ white-space: pre-wrap }}
</style>
<h1>From dot products to nanoGPT</h1>
<p>Run on {time.strftime("%Y-%m-%d, %H:%M")}, on this machine.</p>
<table>
{rows}
</table>
{results}
</html>
""",
        encoding="utf-8",
    )


# ---------------------------------------------------------------- store
def store(only: str | None) -> int:
    """Run notebooks in place on a fresh kernel; keep no time stamps and no versions, which differ by themselves."""
    for path in find_notebooks(only):
        notebook = nbformat.read(path, as_version=4)
        start = time.perf_counter()
        options = {"kernel_name": "python3", "timeout": 600, "resources": {"metadata": {"path": str(path.parent)}}}
        # One output a cell for what it prints, however the prints happen to arrive.
        NotebookClient(notebook, record_timing=False, coalesce_streams=True, **options).execute()
        notebook.metadata = {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
        nbformat.validate(notebook)
        nbformat.write(notebook, path)
        for picture in tagged_pictures(notebook, "readme-figure"):
            (ROOT / "docs" / "heads.png").write_bytes(picture)
        print(f"{path.stem}: stored after {time.perf_counter() - start:.0f} s")
    (NOTEBOOKS / "ledger.md").write_text(ledger_page(NOTEBOOKS), encoding="utf-8")
    readme = ROOT / "README.md"
    readme.write_text(with_claims(readme.read_text(encoding="utf-8"), NOTEBOOKS), encoding="utf-8")
    return 0


# ---------------------------------------------------------------- claims
def claim_cells(folder: Path) -> dict[int, list[tuple[str, nbformat.NotebookNode]]]:
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
    begin, end = "<!-- claims, written by make store -->", "<!-- end of claims -->"
    before, rest = readme.split(begin)
    return f"{before}{begin}\n\n{table}\n\n{end}{rest.split(end)[1]}"


# ---------------------------------------------------------------- ledger
def ledger_action() -> int:
    """Run the notebooks that have changed since their last run, print where each row stands; 1 when one is missing."""
    stages = {row["notebook"] for row in ledger.rows()}
    for folder in ("notebooks", "html"):
        (BUILD / folder).mkdir(parents=True, exist_ok=True)
    found, failed = {}, []
    for path in [path for path in find_notebooks(None) if path.stem in stages]:
        target = BUILD / "notebooks" / path.name
        if is_outdated(path):
            print(f"running {path.stem}", flush=True)
            error = execute(path, []).error
            failed += [f"{path.stem}: {error}"] if error else []
        if target.exists():
            found[path.stem] = nbformat.read(target, as_version=4)
    lines = ledger_lines(found)
    print(table(("source", "row", "notebook", "status"), lines))
    done, skipped, bad = (sum(line[3].startswith(words) for line in lines)
                          for words in ("reproduced", "skipped", ("MISSING", "FAILED")))  # fmt: skip
    print(f"\n{done} of {len(lines)} rows reproduced, {skipped} skipped, {bad} missing or failed")
    for failure in failed:
        print(f"FAILED: {failure}")
    return 1 if bad or failed else 0


def is_outdated(path: Path) -> bool:
    """Is there no whole run in build/ since the notebook or helpers/ changed, or had it other settings, or skips?"""
    target = BUILD / "notebooks" / path.name
    newest = max(file.stat().st_mtime for file in [path, *ledger.LEDGER.parents[1].rglob("*.[pt][yox]*")])
    if not target.exists() or target.stat().st_mtime < newest:
        return True
    try:
        last = nbformat.read(target, as_version=4)
    except Exception:  # cut off in the middle
        return True
    code = [cell for cell in last.cells if cell.cell_type == "code"]
    other_settings = any("injected-parameters" in cell.metadata.get("tags", []) for cell in code)
    cut_off = any(cell.execution_count is None for cell in code)
    return bool(stored_error(last)) or other_settings or cut_off or "skipped: " in printed(last)


def printed(notebook: nbformat.NotebookNode) -> str:
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    return "".join(out.text for out in outputs if out.output_type == "stream")


def ledger_lines(found: dict[str, nbformat.NotebookNode]) -> list[tuple[str, str, str, str]]:
    """Source, row, notebook and status of every row, as the outputs of the notebooks have it."""
    lines = []
    for row in ledger.rows():
        notebook = found.get(row["notebook"])
        status = "notebook not written yet" if notebook is None else status_of(row, notebook)
        lines.append((ledger.source_of(row), row["id"], row["notebook"], status))
    return lines


def status_of(row: dict, notebook: nbformat.NotebookNode) -> str:
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["run", "store", "ledger"])
    parser.add_argument("--only", help="one notebook, by its name")
    parser.add_argument("--parameters", default="", help='papermill\'s, as one text: "-p preset smoke"')
    options = parser.parse_args()
    if options.action == "run":
        return run(options.only, shlex.split(options.parameters))
    return ledger_action() if options.action == "ledger" else store(options.only)


if __name__ == "__main__":
    sys.exit(main())
