"""The project's address, and notebooks that were opened alone."""

import importlib.util
import sys
import tomllib

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager

from helpers import ROOT
from tools import publish
from tools.lessons import lessons, sources
from tools.publish import repository

PATHS = [*lessons(), *sources()]
NOTEBOOK = PATHS[3]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_notebook_looks_for_helpers_before_it_imports_them(path):
    code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    (place,) = [i for i, cell in enumerate(code) if cell.id == "helpers"]
    assert code[place].source == publish.guard(repository(ROOT))
    assert not any("import" in cell.source for cell in code[:place])


def test_alone_it_says_what_to_do(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"^helpers is missing: clone the project, .* `make lab`$"):
        exec(publish.guard(""), {})


@pytest.mark.parametrize("there", [True, False])
def test_with_an_address_it_fetches_the_project_only_where_it_is_missing(monkeypatch, there):
    calls = []

    class Shell:
        def system(self, words):
            calls.append(words)

        def run_line_magic(self, name, words, **_):
            calls.append(f"{name} {words}")

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if there else None)
    monkeypatch.setattr(sys, "path", [])
    source = TransformerManager().transform_cell(publish.guard("ada/notes"))
    exec(source, {"get_ipython": Shell})
    fetched = [
        "git clone --quiet --depth 1 https://github.com/ada/notes",
        "pip install --quiet --editable ./notes",
    ]
    assert (calls, sys.path) == (([], []) if there else (fetched, ["notes"]))


def test_the_address_is_written_everywhere_once_and_another_replaces_it(tmp_path):
    texts = {
        publish.pyproject: (ROOT / "pyproject.toml").read_text("utf-8"),
        publish.readme: (ROOT / "README.md").read_text("utf-8"),
        lambda text, repo: publish.notebook(text, f"notebooks/{NOTEBOOK.name}", repo): NOTEBOOK.read_text("utf-8"),
    }
    for change, text in texts.items():
        once = change(text, "ada/notes")
        assert "ada/notes" in once and change(once, "ada/notes") == once
        other = change(once, "eve/more.notes")
        assert "ada/notes" not in other and other == change(text, "eve/more.notes")
    (tmp_path / "pyproject.toml").write_text(publish.pyproject(texts[publish.pyproject], "ada/notes"), "utf-8")
    assert repository(tmp_path) == "ada/notes"
    changed = tomllib.loads((tmp_path / "pyproject.toml").read_text("utf-8"))["project"]
    changed.pop("urls")
    assert changed == tomllib.loads(texts[publish.pyproject])["project"]


@pytest.mark.parametrize("repo", ["", "a b/c", "https://github.com/a/b"])
def test_an_address_that_is_none_is_refused_before_anything_is_written(monkeypatch, repo):
    monkeypatch.setattr(publish, "write", lambda *_: pytest.fail("something was written"))
    with pytest.raises(publish.ConfigError, match="owner/name"):
        publish.main([repo])
