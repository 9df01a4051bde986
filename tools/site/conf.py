"""How Sphinx builds the site from what pages.py has written; `build` calls it."""

import shutil
from html import escape
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert as latex_to_mathml
from sphinx.transforms.post_transforms import SphinxPostTransform

from helpers import ROOT
from tools.publish import home_page, repository

HERE = Path(__file__).parent
CARD = ROOT / "docs" / "play.png"
DEFAULT = "From a single dot product to a small GPT that you have written yourself"
ADDRESS = home_page(repository(ROOT))

project = html_title = "From dot products to nanoGPT"
language = "en"
extensions = ["myst_nb"]
exclude_patterns = ["_extra"]
smartquotes = False  # a notebook's text stays as it was written

nb_execution_mode = "off"
nb_merge_streams = True
nb_mime_priority_overrides = [("html", "text/html", 0)]
nb_ipywidgets_js = {}  # myst-nb's own come from the network
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_dmath_double_inline = True  # as in JupyterLab
myst_all_links_external = True  # pages.py has made them addresses of pages; `broken_links` follows each
suppress_warnings = ["myst.header"]  # a reader's notebook may skip a level

html_theme = "furo"
html_favicon = html_logo = str(HERE / "favicon.svg")
html_static_path = [str(HERE / "static")]
html_css_files, html_js_files = ["look.css"], ["folds.js", "foresaw.js"]
templates_path = [str(HERE / "templates")]
html_sidebars = {
    "**": [
        *(f"sidebar/{name}.html" for name in ("brand", "search", "scroll-start")),
        "play-link.html",
        *(f"sidebar/{name}.html" for name in ("navigation", "scroll-end")),
    ]
}
html_use_index = html_copy_source = html_show_sourcelink = html_show_copyright = False
html_show_search_summary = False  # fetched, which a page opened as a file may not
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-dark"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1d4e89", "color-brand-content": "#1d5fa8"},
    "dark_css_variables": {"color-brand-primary": "#8ec1f5", "color-brand-content": "#8ec1f5"},
    "top_of_page_buttons": [],
}


def visit_math(self, node) -> None:
    """A formula as MathML, which browsers show by themselves; as its source when it can't be read."""
    display = "block" if isinstance(node, nodes.math_block) else "inline"
    try:
        formula = latex_to_mathml(node.astext(), display=display)
    except Exception:
        formula = f"<code>{escape(node.astext())}</code>"
    self.body.append(f'<div class="math">{formula}</div>\n' if display == "block" else formula)
    raise nodes.SkipNode


FOLDS = {
    "cell_code_source": "source_hidden",
    "cell_code_output": "covered",
}


class Fold(SphinxPostTransform):
    """Folded code and covered outputs go into <details>; cells of code get names as anchors."""

    default_priority = 250
    formats = ("html",)

    def run(self, **_) -> None:
        for cell in list(self.document.findall(nodes.container)):
            if cell.get("nb_element") != "cell_code":
                continue
            hidden = cell["cell_metadata"]
            cell["ids"] += hidden.get("anchor", [])
            cell["classes"] += ["answers"] * bool(hidden.get("answers"))
            if len(cell) == 2 and all(hidden.get(flag) for flag in FOLDS.values()):
                cell[:] = [cell[1], cell[0]]  # one fold to open: the answer, and below it its code
            for part in list(cell.children):
                flag = FOLDS[part["nb_element"]]
                if hidden.get(flag):
                    drawn = any("<img" in html.astext() for html in part.findall(nodes.raw))
                    summary = hidden[flag] if flag == "source_hidden" else "show the picture" if drawn else "run it"
                    start = f'<details class="part {flag}"><summary>{summary}</summary>'
                    place = cell.index(part)
                    cell[place : place + 1] = [raw(start), part, raw("</details>")]
            if len(cell) == 6:  # both are folded: the code's fold goes into the answer's
                cell[:] = [*cell[:2], *cell[3:], cell[2]]


def raw(html: str) -> nodes.raw:
    return nodes.raw("", html, format="html")


def level_captions(app, pagename, templatename, context, doctree) -> None:
    """Give the sidebar's captions the level that screen readers ask for and Sphinx leaves out."""
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')


def describe(app, pagename, templatename, context, doctree) -> None:
    """What others show of a page that somebody links to: title, its question, a picture."""
    paragraphs = [text.astext().strip() for text in doctree.findall(nodes.paragraph)] if doctree else []
    questions = [text for text in paragraphs if text.startswith("The question.")]
    paragraphs = [] if pagename == "index" else questions + paragraphs
    words = next(filter(None, paragraphs), DEFAULT).removeprefix("The question.").split()
    about = escape(" ".join(words)[:200])
    titles = [text.astext() for text in doctree.findall(nodes.title)] if doctree else []
    title = escape((titles or [project])[0])
    tags = [f'<meta name="description" content="{about}">']
    tags += [f'<meta property="og:title" content="{title}">']
    tags += [f'<meta property="og:description" content="{about}">']
    if ADDRESS:
        tags += [f'<meta property="og:image" content="{ADDRESS}/{CARD.name}">']
        tags += [f'<meta property="og:url" content="{ADDRESS}/{pagename}.html">']
    context["metatags"] = context.get("metatags", "") + "\n".join(tags)


def map_of_site(app, problem) -> None:
    """The picture of the links, and once the site has an address, a list of its pages."""
    if problem or not CARD.exists():
        return
    folder = Path(app.outdir)
    shutil.copyfile(CARD, folder / CARD.name)
    if ADDRESS:
        pages = sorted(page.relative_to(folder).as_posix() for page in folder.rglob("*.html"))
        rows = "".join(f"<url><loc>{ADDRESS}/{page}</loc></url>\n" for page in pages)
        head = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
        (folder / "sitemap.xml").write_text(f"{head}\n{rows}</urlset>\n", encoding="utf-8")


def setup(app) -> None:
    app.connect("html-page-context", describe)
    app.connect("build-finished", map_of_site)
    app.connect("html-page-context", level_captions, priority=900)  # after furo has made the tree
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math, None))
    app.config.html_math_renderer = "mathml"
    app.add_post_transform(Fold)
