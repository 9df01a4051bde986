"""What `make store` leaves of a notebook. One worker takes all of it (scheduling.py): a run of
seconds is shared.
"""

from pathlib import Path

import nbformat
import pytest
from ipykernel.ipkernel import IPythonKernel
from notebook_file import write_notebook

from tools import notebooks, tables

pytestmark = pytest.mark.slow  # it runs on a kernel, twice
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def stored(empty_project, tmp_path_factory):
    """A notebook that was stored, its bytes then and when stored again, and the page of claims that
    came of it.
    """
    with pytest.MonkeyPatch.context() as patch:
        empty_project(tmp_path_factory.mktemp("project"), patch)
        path, texts = notebooks.NOTEBOOKS / "04_n.ipynb", []
        prints = "import time\nprint('one', flush=True)\ntime.sleep(0.6)\nprint('two')"
        tags = {0: "claim-16", 2: "claim-16"}
        write_notebook(path, "assert True", "1 + 1", "assert 1 < 2", prints, tags=tags)
        for _ in range(2):
            notebooks.store([])
            texts.append(path.read_bytes())
        page = (notebooks.ROOT / "docs" / "claims.md").read_text("utf-8")
        assert tables.with_claims(page, notebooks.NOTEBOOKS) == page
        return nbformat.read(path, as_version=4), texts, page


def test_storing_twice_changes_nothing(stored):
    _, (first, second), _ = stored
    assert first == second and b'"text/plain": [\n       "2"' in first


def test_stored_metadata_is_what_jupyterlab_writes(stored):
    notebook, _, _ = stored
    assert notebook.metadata == {
        "kernelspec": notebooks.KERNEL,
        "language_info": IPythonKernel.language_info,
    }
    assert f'"{notebooks.KERNEL["display_name"]}"' in (ROOT / "tools" / "setup.py").read_text(
        encoding="utf-8"
    )


def test_prints_that_arrive_apart_are_stored_together(stored):
    (output,) = stored[0].cells[3].outputs
    assert output.text == "one\ntwo\n"


def test_the_table_of_claims_links_the_tagged_cells(stored):
    page = stored[2]
    (line,) = [line for line in page.splitlines() if line.startswith("| 16 |")]
    assert (
        "[04/c0](../notebooks/04_n.ipynb#cell-id=c0), [04/c2](../notebooks/04_n.ipynb#cell-id=c2)"
        in line
    )
    assert "**true**: " in line and page.count("\n| ") == 31
