"""People run a cell twice, go back to an earlier one, and change a parameter."""

from pathlib import Path

import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel
from notebook_file import cells
from scheduling import SHORTER

from tools.lessons import everyone

pytestmark = pytest.mark.weekly
each = pytest.mark.parametrize("path", everyone(), ids=lambda path: path.stem)


@pytest.fixture
def kernel(path, tmp_path, monkeypatch):
    """A fresh one, whose runs are its own."""
    monkeypatch.setenv("NANOGPT_RUNS", str(tmp_path))
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(path.parent))
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def code(path: Path) -> list[nbformat.NotebookNode]:
    """Its cells, with the trainings as short as `make test` has them."""
    found = cells(nbformat.read(path, as_version=4))
    for setting, shorter in SHORTER.get(path.name, {}).items():
        for cell in found:
            cell.source = cell.source.replace(setting, shorter)
    return found


def wrong_with(kernel: BlockingKernelClient, cell: nbformat.NotebookNode) -> list[str]:
    """Why the cell fails now, if it does."""
    reply = kernel.execute_interactive(cell.source, timeout=600, output_hook=lambda _: None)
    content = reply["content"]
    return [f"{cell.id}: {content['ename']}: {content['evalue']}"] if "ename" in content else []


@each
def test_each_cell_can_be_run_twice_and_one_can_go_back(path, kernel):
    """Each twice at once; and when the last has run, all of them from the last to the first."""
    found = code(path)
    order = [*(cell for cell in found for _ in range(2)), *reversed(found)]
    assert not [why for cell in order for why in wrong_with(kernel, cell)]
