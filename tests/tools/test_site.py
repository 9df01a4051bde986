"""The site: what pages show and fold, where links lead, and what happens when it is broken."""

import base64
import json
import re
import struct
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from helpers import ROOT
from helpers.errors import HelpersError
from tools import site as website
from tools.lessons import lessons
from tools.site import pages
from tools.site.captions import CAPTIONS

pytestmark = pytest.mark.slow  # Sphinx builds a whole site
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">2I", 600, 300)).decode()


WIDGET = "application/vnd.jupyter.widget-view+json"


def picture(alt: str, **metadata: object) -> nbformat.NotebookNode:
    facts = {"image/png": {"alt": alt, **metadata}}
    data = {"image/png": PNG, "text/plain": "a", WIDGET: {"model_id": "1"}}
    return new_output("display_data", data, metadata=facts)


def save(path: Path, *cells: nbformat.NotebookNode) -> nbformat.NotebookNode:
    path.parent.mkdir(parents=True, exist_ok=True)
    notebook = nbformat.v4.new_notebook(cells=list(cells))
    nbformat.write(notebook, path)
    return notebook


COURSE = 'path = ["01_a", "02_b", "03_torn"]\nrooms = [{ name = "what_matters" }]\nsources = []\n'
OPENING = """# 01 · 1 < 2 and `two`

**The question.** Why *this*|that?

**How long.** Half an hour to read, a minute to run.

[All notebooks](../README.md) · next: [02](02_b.ipynb)"""
TEXT = r"""## Lesson

$$a^2$$ and $b$, `$c$`, $\nosuch{$, [b](02_b.ipynb#cell-id=c2) [up](#More) [all](../README.md)
[s](solutions/solutions_01.py) [l](ledger.md) [t](measured/parts.csv) [h](../helpers/h.toml) [g](solutions/page.py) [w](https://example.org)

```
[code](stays.ipynb)
```

<details><summary>Guess</summary>

The **answer**.
</details>"""


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("project")
    notebooks = root / "notebooks"
    slider = new_output("display_data", {"text/plain": "a slider", WIDGET: {"model_id": "1"}})
    printed, wide = new_output("stream", text="42\n"), new_output("stream", text="x" * 500 + "\n")
    cells = [
        new_markdown_cell(OPENING, id="top"),
        new_markdown_cell(TEXT, id="m1"),
        new_code_cell(
            "draw()",
            id="c0",
            metadata={"jupyter": {"source_hidden": True}},
            outputs=[picture('one "lonely" bar'), picture("two", width=300)],
        ),
        new_code_cell("decide()", id="c1", metadata={"tags": ["covered"]}, outputs=[printed]),
        new_code_cell("show()", id="c1b", metadata={"tags": ["covered"]}, outputs=[picture("three")]),
        new_markdown_cell("## More\n\nAll of it.", id="m2"),
        new_markdown_cell("### One", id="m3"),
        new_code_cell("prove()", id="c2", outputs=[wide, slider]),
        new_markdown_cell("## After", id="m4"),
    ]
    save(notebooks / "01_a.ipynb", *cells)
    save(notebooks / "02_b.ipynb", new_markdown_cell("# 02 · B"), new_code_cell("'stored'", id="c2"))
    (notebooks / "course.toml").write_text(COURSE, encoding="utf-8")
    (notebooks / "03_torn.ipynb").write_text("{", encoding="utf-8")
    save(
        notebooks / "beyond" / "what_matters.ipynb",
        new_markdown_cell("# What\n\n[all](../../README.md) [a](../01_a.ipynb)"),
    )
    (notebooks / "solutions").mkdir()
    script = "# %% [markdown]\n# # Solutions 01\n#\n# [a](../01_a.ipynb)\n\n\n# %%\nx = 1\n"
    (notebooks / "solutions" / "solutions_01.py").write_text(script, encoding="utf-8")
    (notebooks / "solutions" / "page.py").write_text("x = 2\n")
    (notebooks / "ledger.md").write_text("# The ledger\n\n| a | b |\n|---|---|\n| `1` | [c](01_a.ipynb#cell-id=c2) |\n")
    (notebooks / "measured").mkdir()
    (notebooks / "measured" / "parts.csv").write_text('# made by: us\nvariant,loss\n"<a>, b",1.5\n')
    (root / "helpers").mkdir()
    (root / "helpers" / "h.toml").write_text("x = 1\n")
    (root / "pyproject.toml").write_text('[project]\nname = "x"\n')
    (root / "README.md").write_text(
        "# x\n\n```\ngit clone here\nmake lab\n```\n\nIt takes [make](helpers/h.toml).\n\n."
    )
    return root


@pytest.fixture(scope="module")
def site(project) -> Path:
    """The pages after a run of 02, which failed; 01 and 03 have never run."""
    error = new_output(
        "error",
        ename="ZeroDivisionError",
        evalue="by <zero>",
        traceback=["ZeroDivisionError: by zero"],
    )
    ran = nbformat.v4.new_notebook(cells=[new_markdown_cell("# 02 · B"), new_code_cell("1 / 0", outputs=[error])])
    failed = pages.LessonRun(ran, "ZeroDivisionError: by <zero>", "2026-01-02 03:04", 7.2, "so it <is>\n")
    runs = {"01_a": pages.LessonRun(None, "not run yet"), "02_b": failed}
    warnings = website.build(project, project / "build" / "html", runs)
    assert not warnings
    return project / "build" / "html"


def page(site: Path, name: str) -> BeautifulSoup:
    return BeautifulSoup((site / f"{name}.html").read_text(encoding="utf-8"), "html.parser")


def test_every_notebook_has_a_page_with_its_title_and_its_neighbours(site):
    first, second = page(site, "01_a"), page(site, "02_b")
    assert first.title.text.startswith("01 · 1 < 2 and two") and first.h1.text.startswith("01 · 1 < 2 and two")
    assert [link["href"] for link in second.select(".related-pages a")] == [
        "03_torn.html",
        "01_a.html",
    ]
    sidebar = [link["href"] for link in second.select(".sidebar-tree a.reference")]
    for name in (
        "01_a.html",
        "ledger.html",
        "measured/parts.html",
        "solutions/solutions_01.html",
    ):
        assert name in sidebar
    assert "All notebooks" not in first.article.text  # the site has its own way around
    contents = [link["href"] for link in first.select(".toc-tree a")]
    assert {"#lesson", "#more", "#one", "#after"} <= set(contents)


def test_the_first_page_lists_the_lessons_and_how_each_fared(site):
    index = page(site, "index")
    rows = [[cell.get_text(" ", strip=True) for cell in row.select("td")] for row in index.select(".lessons tbody tr")]
    assert rows[0] == ["01", "1 < 2 and `two` Why this |that?", "Half an hour", "not run yet"]
    assert rows[1] == ["02", "B", "", "ZeroDivisionError: by <zero> , 7 s, 2026-01-02 03:04"]
    assert "so it <is>" in index.article.text
    button = index.select_one('.buttons a[href="#run-it"]')
    section = index.select_one("section#run-it")
    assert (
        button
        and "git clone here\nmake lab" in section.text
        and "It takes make." in section.text
        and section.p.a["href"].endswith("h.toml")
    )
    assert "make run NB=01_a" in page(site, "01_a").select_one(".run-this").text
    assert "these are the stored results" in page(site, "01_a").select_one(".run-this").text


def test_pictures_carry_their_text_and_their_size(site):
    pictures = page(site, "01_a").select("article img")
    assert [image["alt"] for image in pictures] == ['one "lonely" bar', "two", "three"]
    assert [(image["width"], image["height"]) for image in pictures[:2]] == [
        ("600", "300"),
        ("300", "150"),
    ]
    assert all((site / image["src"]).read_bytes() == base64.b64decode(PNG) for image in pictures)
    # No kernel, no widget.
    assert "a slider" in page(site, "01_a").text and "model_id" not in str(page(site, "01_a"))


def test_pages_fetch_nothing_from_a_network(site):
    for path in site.rglob("*.html"):
        fetched = re.findall(
            r'<(?:script|img|link|iframe|source)\b[^>]*\s(?:src|href)="([^"]*)"',
            path.read_text("utf-8"),
        )
        assert not [link for link in fetched if re.match(r"(?!data:)\w+:|//", link)], path.name
    for path in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//|@import", path.read_text("utf-8")), path.name


def test_links_lead_to_pages_cells_headings_and_files(site):
    links = [link["href"] for link in page(site, "01_a").select("#lesson p a[href]")]
    assert links == ["02_b.html#c2", "#more", "index.html", "solutions/solutions_01.html", "ledger.html",
                     "measured/parts.html", "files/helpers/h.toml", "files/notebooks/solutions/page.py",
                     "https://example.org"]  # fmt: skip
    assert "[code](stays.ipynb)" in page(site, "01_a").text
    assert (site / "files" / "helpers" / "h.toml").read_text() == "x = 1\n"
    assert page(site, "ledger").select_one("td a")["href"] == "01_a.html#c2" and page(site, "01_a").find(id="c2")
    beyond = [link["href"] for link in page(site, "beyond/what_matters").select("article p a[href]")]
    assert beyond == ["../index.html", "../01_a.html"]
    assert page(site, "measured/parts").select_one("article p a[href]")["href"] == "../beyond/what_matters.html"
    assert website.broken_links(site) == ["01_a.html: 02_b.html#c2"]  # that run never came so far


def test_a_broken_link_is_named(tmp_path):
    (tmp_path / "a.html").write_text('<p id="x"></p><a href="#x">1</a><a href="b.html#y">2</a><img src="no.png">'
                                     '<script>"<a href="not-a-link">"</script><a href="d/">3</a>')  # fmt: skip
    (tmp_path / "b.html").write_text('<a href="a.html#x"></a><a href="c.html"></a><a href="https://example.org"></a>')
    assert website.broken_links(tmp_path) == [
        "a.html: b.html#y",
        "a.html: no.png",
        "a.html: d/",
        "b.html: c.html",
    ]


def test_what_jupyterlab_folds_the_page_folds_too(site):
    article = page(site, "01_a").article
    code, output, drawn, drawing = article.select("details.part")
    assert "draw" in code.text and code.summary.text == "show how it is drawn" and not code.select("img")
    assert "42" in output.text and "decide" not in output.text and output.summary.text == "run it"
    assert drawn.select("img") and drawn.summary.text == "show the picture"
    assert "show()" in drawing.text and drawing.parent is drawn  # a picture's code goes into its fold
    (guess,) = article.select("details:not(.part)")
    assert guess.strong.text == "answer"
    text = (site / "01_a.html").read_text(encoding="utf-8")
    assert text.count("<details") == text.count("</details>") == 5


def test_plumbing_and_drawing_are_folded_and_nothing_else():
    def folded(source: str, **more) -> bool:
        cell = new_code_cell(source, **more)
        return pages.is_plumbing(cell) or pages.draws(cell)

    assert folded("import torch\nfrom helpers import data") and folded("seed = 1", metadata={"tags": ["parameters"]})
    assert folded("raise SystemExit", id="helpers") and folded("plot(x)", outputs=[picture("x")])
    assert not folded("import torch\nx = 1") and not folded("x = 1") and not folded("x = (")
    assert not folded("def f():\n    pass\nplot(f)", outputs=[picture("x")])


def test_a_page_says_what_it_is_to_those_who_link_to_it(site):
    head = page(site, "01_a").head
    title, about = (head.select_one(f'meta[property="og:{name}"]')["content"] for name in ("title", "description"))
    assert title == "01 · 1 < 2 and two" and about and head.select_one('meta[name="description"]')
    assert not head.select_one('meta[property="og:image"]')  # as long as it has no address


def test_a_notebook_that_cannot_be_read_costs_no_other_page(site):
    assert "can't be read" in page(site, "03_torn").article.text
    assert "by zero" in page(site, "02_b").select_one(".traceback").text


def test_every_table_of_the_project_is_explained():
    assert {path.stem for path in (ROOT / "notebooks" / "measured").glob("*.csv")} <= set(CAPTIONS)


def test_launch_buttons_come_with_the_address_of_the_project(project, tmp_path):
    def box(address: str) -> str:
        urls = f'[project.urls]\nRepository = "{address}"\n' if address else ""
        (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "x"\n{urls}', encoding="utf-8")
        path = tmp_path / "notebooks" / "01_a.ipynb"
        save(path)
        return pages.Stage(tmp_path, tmp_path / "source").run_box(path, None)

    assert "http" not in box("") and "http" not in box("https://example.org/somewhere")
    text = box("https://github.com/some-one/a.name")
    assert "https://mybinder.org/v2/gh/some-one/a.name/HEAD?labpath=notebooks/01_a.ipynb" in text
    assert "https://colab.research.google.com/github/some-one/a.name/blob/main/notebooks/01_a.ipynb" in text


def test_a_site_that_cannot_be_built_leaves_the_old_one(project, tmp_path, monkeypatch):
    out = tmp_path / "site"
    out.mkdir()
    (out / "index.html").write_text("old")
    monkeypatch.setattr(website.sys, "executable", "false")
    with pytest.raises(HelpersError, match=r"^the pages could not be built: no reason given$"):
        website.build(project, out)
    monkeypatch.setattr(website.sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(HelpersError, match=r"^the pages could not be written: No such file"):
        website.build(project, out)
    assert [path.name for path in tmp_path.iterdir()] == ["site"] and (out / "index.html").read_text() == "old"


def test_every_word_of_the_glossary_leads_to_a_section_that_uses_it():
    text, sections = (ROOT / "notebooks" / "glossary.md").read_text(encoding="utf-8"), {}
    for path in lessons():
        name, anchor = path.relative_to(ROOT / "notebooks").as_posix(), ""
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for line in "".join(cell["source"]).splitlines():
                heading = re.match(r"#+ (.+)", line) if cell["cell_type"] == "markdown" else None
                anchor = pages.anchor_of(heading[1]) if heading else anchor
                sections[name, anchor] = sections.get((name, anchor), "") + line.lower() + "\n"
    found = re.findall(r"^- \*\*(.+?)\*\*: .+ \[.+\]\(([^)#]+)#([^)]+)\)$", text, re.M)
    for term, name, anchor in found:
        assert term.lower().removesuffix("s") in sections[name, pages.anchor_of(anchor)], term
    terms = [term for term, *_ in found]
    assert len(terms) > 50 and terms == sorted(terms, key=str.lower) and text.count("\n- **") == len(terms)
