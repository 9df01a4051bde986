"""Pages to read in a browser: a notebook as one file that needs no network, and the index of all of them."""

import copy
import html
import re
from dataclasses import dataclass

from bs4 import BeautifulSoup
from latex2mathml.converter import convert as latex_to_mathml
from nbconvert import HTMLExporter
from nbconvert.filters import markdown2html
from nbformat import NotebookNode

# nbconvert's own style breaks long lines anywhere, or cuts them off. Code and printed tables keep their columns and
# scroll on a screen; paper can't scroll, so there code wraps, and prints are set small enough for the widest table.
STYLE = """
  main > nav { display: flex; flex-wrap: wrap; justify-content: space-between; gap: .5rem 2rem; padding: 1rem 0;
    font-family: var(--jp-content-font-family) }
  main > nav a { color: var(--jp-content-link-color) }
  .jp-InputArea-editor, .jp-OutputArea-output, .jp-MarkdownOutput { min-width: 0; overflow-x: auto !important }
  .jp-InputArea-editor pre, .jp-OutputArea-output pre { white-space: pre; overflow-wrap: normal; word-break: normal }
  details.folded > summary, details.part > summary { cursor: pointer; padding-left: 1rem }
  details.part > summary { font-family: var(--jp-content-font-family); font-size: small; color: #666 }
  details.folded > summary > h2 { display: inline }
  @media screen and (max-width: 45rem) { .jp-InputPrompt, .jp-OutputPrompt { display: none } }
  @media print {
    .jp-InputPrompt, .jp-OutputPrompt, main > nav { display: none }
    body.jp-Notebook, main { padding: 0 !important; margin: 0 }
    .jp-InputArea-editor pre, .jp-OutputArea-output pre { white-space: pre-wrap; overflow-wrap: anywhere }
    .cm-editor.cm-s-jupyter .highlight pre { font-size: 8pt }
    .jp-OutputArea-output pre { font-size: 6.8pt }
    .jp-RenderedImage, tr { break-inside: avoid }
  }
"""


@dataclass
class Entry:
    """What the index says of one notebook."""

    name: str
    title: str
    status: str  # "ok", or why its last run does not count, or that there is none
    when: str = ""
    seconds: float | None = None
    result: str = ""  # what its cell tagged "result" printed


def title_of(notebook: NotebookNode) -> str:
    """The notebook's first heading."""
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    heading = re.search(r"^# +(.+)$", "\n\n".join(texts), re.M)
    return heading[1].strip() if heading else ""


def render(notebook: NotebookNode, title: str, nav: str = "") -> str:
    """The notebook as one HTML page that needs no network, its pictures with the alternative text of their figures."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = with_mathml(cell.source)
    page, _ = HTMLExporter().from_notebook_node(notebook, resources={"metadata": {"name": title}})
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
    fold(soup, notebook)
    soup.head.append(BeautifulSoup(f"<style>{STYLE}</style>", "html.parser"))
    soup.main.insert(0, BeautifulSoup(nav, "html.parser"))
    soup.main.append(BeautifulSoup(nav, "html.parser"))
    return str(soup)


def fold(soup: BeautifulSoup, notebook: NotebookNode) -> None:
    """What JupyterLab folds goes into <details>: all under a heading, which is the summary, and code of pictures."""
    boxes = soup.select("main .jp-Cell")
    parts = {
        "source_hidden": (".jp-Cell-inputWrapper", "the code"),
        "outputs_hidden": (".jp-Cell-outputWrapper", "run it"),
    }
    for cell, box in zip(notebook.cells, boxes, strict=True):
        for hidden, (part, text) in parts.items():
            content = box.select_one(part)
            if cell.metadata.get("jupyter", {}).get(hidden) and content:
                details, summary = soup.new_tag("details", **{"class": "part"}), soup.new_tag("summary")
                summary.string = text
                content.insert_before(details)
                details.extend([summary, content])
    levels = [heading_level(cell) for cell in notebook.cells]
    for i, cell in enumerate(notebook.cells):
        if not cell.metadata.get("jp-MarkdownHeadingCollapsed"):
            continue
        end = next((j for j in range(i + 1, len(boxes)) if 0 < levels[j] <= levels[i]), len(boxes))
        details, summary = soup.new_tag("details", **{"class": "folded"}), soup.new_tag("summary")
        boxes[i].insert_before(details)
        summary.append(boxes[i].find(re.compile(r"h[1-6]")))
        details.append(summary)
        for box in boxes[i:end]:
            details.append(box)


def heading_level(cell: NotebookNode) -> int:
    """2 for a cell that begins with "## …"; 0 when it begins with no heading."""
    heading = re.match(r"(#{1,6}) ", cell.source.lstrip()) if cell.cell_type == "markdown" else None
    return len(heading[1]) if heading else 0


def page_of(address: str) -> str:
    """Where a link of a notebook leads from its page in build/html."""
    if re.match(r"#|[a-z]+:", address):
        return address
    if address == "../README.md":
        return "index.html"
    if re.match(r"[^/]+\.(ipynb|md)", address):
        return re.sub(r"\.(ipynb|md)", ".html", address, count=1)
    return f"../../notebooks/{address}"


def with_mathml(markdown: str) -> str:
    """Formulas between dollar signs as MathML, which browsers show by themselves; code stays as it is."""

    def translate(match: re.Match) -> str:
        if match["code"]:
            return match["code"]
        return latex_to_mathml(match["block"] or match["inline"], display="block" if match["block"] else "inline")

    return re.sub(
        r"(?P<code>```.*?```|`[^`]*`)|\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$]+)\$", translate, markdown, flags=re.S
    )


def navigation(name: str, titles: dict[str, str]) -> str:
    """Links from a notebook's page to its neighbours in `titles` (title by name, in order) and to the index."""
    names = list(titles)
    place = names.index(name)
    before, after = names[max(place - 1, 0) : place], names[place + 1 : place + 2]
    links = [f'<a rel="prev" href="{other}.html">← {html.escape(titles[other])}</a>' for other in before]
    links += ['<a href="index.html">all notebooks</a>']
    links += [f'<a rel="next" href="{other}.html">{html.escape(titles[other])} →</a>' for other in after]
    return f"<nav>{' '.join(links)}</nav>"


def article(markdown: str, nav: str) -> str:
    """A page of Markdown, such as the ledger, under its first heading."""
    soup = BeautifulSoup(markdown2html(markdown), "html.parser")
    for anchor in soup.select("a.anchor-link"):
        anchor.decompose()
    for link in soup.select("a[href]"):
        link["href"] = page_of(link["href"])
    return plain_page(soup.h1.get_text(), f"<main>{nav}{soup}{nav}</main>")


def not_run(name: str, title: str, nav: str) -> str:
    text = f"<p>Not run yet. <code>make run NB={name}</code> makes this page.</p>"
    return plain_page(title, f"<main>{nav}<h1>{html.escape(title)}</h1>{text}</main>")


def index(entries: list[Entry]) -> str:
    rows = "\n".join(
        f'<tr><td><a href="{entry.name}.html">{html.escape(entry.title)}</a></td><td>{html.escape(entry.status)}</td>'
        f"<td>{'' if entry.seconds is None else f'{entry.seconds:.0f} s'}</td><td>{html.escape(entry.when)}</td></tr>"
        for entry in entries
    )
    results = "\n".join(f"<pre>{html.escape(entry.result)}</pre>" for entry in entries if entry.result)
    title = "From dot products to nanoGPT"
    return plain_page(title, f"<h1>{title}</h1>\n<table>\n{rows}\n</table>\n{results}")


def plain_page(title: str, body: str) -> str:
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{html.escape(title)}</title>
<style>
  :root {{ color-scheme: light dark }}
  body {{ font: 1rem/1.6 system-ui, sans-serif; max-width: 50rem; margin: 3rem auto; padding: 0 1rem }}
  nav {{ display: flex; flex-wrap: wrap; justify-content: space-between; gap: .5rem 2rem }}
  td {{ padding: .2rem 1.5rem .2rem 0; vertical-align: top; overflow-wrap: anywhere }}
  pre {{ white-space: pre-wrap }}
  main {{ overflow-x: auto }}
  main pre, td code, td a {{ white-space: pre }}
  main pre {{ font-size: .85em }}
  td code {{ font-size: .75em }}
  main td {{ overflow-wrap: normal; padding: 0 1rem .6rem 0 }}
  th {{ text-align: left }}
</style>
{body}
</html>
"""
