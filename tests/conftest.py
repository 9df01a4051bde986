"""What several test files share: small models and texts. No test needs the network or a corpus on this machine."""

import signal
from collections.abc import Callable
from pathlib import Path

import jaxtyping
import pytest
import torch

from helpers.data import BUNDLED_PLAY, CharTokenizer, split
from helpers.gpt import GPT, GPTConfig
from helpers.training import TrainConfig

FIRST, LATE = ("08_nanogpt_shakespeare.ipynb", "00_why_attention.ipynb"), "09_sampling.ipynb"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest starts first, so that the workers end together; what is quick fills the gaps at the end.

    09 takes the run that 08 leaves in $NANOGPT_RUNS, and without it trains one of its own: it waits as long as it can.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow") or item.path.suffix == ".ipynb"}

    def place(item: pytest.Item) -> int:
        if item.path.name in FIRST:
            return FIRST.index(item.path.name)
        return len(FIRST) + (1 if item.path.name == LATE else 0 if item.path in slow else 2)

    items.sort(key=place)  # files stay whole and keep their order


@pytest.fixture(autouse=True)
def signals_are_heard():
    """Under nohup, and behind a shell's &, signals are ignored that some tests send, to themselves or to a child."""
    ends = {getattr(signal, "SIGHUP", signal.SIGINT): signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    ignored = [number for number in ends if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, ends[number])
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture
def play() -> str:
    return BUNDLED_PLAY.read_text(encoding="utf-8")


@pytest.fixture
def small_config() -> GPTConfig:
    return GPTConfig(vocab_size=65, context_length=16, n_layer=2, n_head=2, n_embd=32)


@pytest.fixture
def model(small_config) -> GPT:
    torch.manual_seed(0)
    return GPT(small_config)


@pytest.fixture
def tokens(play):
    """Training and validation tokens of the bundled play."""
    return split(CharTokenizer.from_text(play).encode(play), context_length=16)


@pytest.fixture
def quick() -> TrainConfig:
    return TrainConfig(batch_size=8, max_steps=12, eval_interval=4, warmup_steps=2)


@pytest.fixture(scope="session")
def empty_project() -> Callable[[Path, pytest.MonkeyPatch], Path]:
    """Puts an empty project around the tools."""
    import notebooks  # slow, and only the tests of the tools need it

    def make(folder: Path, patch: pytest.MonkeyPatch) -> Path:
        patch.setattr(notebooks, "ROOT", folder)
        patch.setattr(notebooks, "NOTEBOOKS", folder / "notebooks")
        patch.setattr(notebooks, "BUILD", folder / "build")
        (folder / "notebooks").mkdir()
        (folder / "docs").mkdir()
        page = "<!-- claims, written by make store -->\n<!-- end of claims -->\n"
        (folder / "docs" / "claims.md").write_text(page, "utf-8")
        return folder

    return make


@pytest.fixture
def project(empty_project, monkeypatch, tmp_path) -> Path:
    return empty_project(tmp_path, monkeypatch)


@pytest.fixture
def unchecked():
    """Without checks of annotations, for a test that calls the same functions thousands of times."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def own_text(tmp_path, monkeypatch):
    """The parameters that make a notebook read a text of the reader's, in a folder that is not the project's."""
    monkeypatch.chdir(tmp_path)
    text = "Wörter mit Umlauten \U0001f600,\r\nund Zeilen wie unter Windows!\n"
    (tmp_path / "own.txt").write_text(50 * text, encoding="utf-8")
    return {"corpus_path": "own.txt"}
