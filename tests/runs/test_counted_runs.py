"""The run of a GPT beside counts: its text is the training text, goes with the weights, and must make sense."""

import pytest
import torch
from run_folder import COUNTED, resave

from helpers.checkpoint import load_model, load_snapshots
from helpers.errors import RunError, ConfigError


@pytest.fixture
def run(go, fresh, tmp_path):
    go(model=fresh(**COUNTED))
    return tmp_path / "run"


def test_it_counts_the_training_text_and_nothing_else(run, tokens):
    train_tokens, _ = tokens
    model, _ = load_model(run)
    assert torch.equal(model.text.long(), train_tokens.long())


def test_its_snapshots_count_too(run, tokens):
    text = tokens[1][None, :16].long()
    (_, untrained), *_, (_, last) = load_snapshots(run)
    best, _ = load_model(run)
    assert torch.equal(untrained.text, best.text)
    with torch.no_grad():
        torch.testing.assert_close(last(text), best(text), rtol=1e-2, atol=1e-2)


def test_a_text_of_other_letters_is_refused(run):
    def spoil(state):
        state["best"]["text"] = torch.full_like(state["best"]["text"], 200)  # of a vocabulary of 65

    resave(run / "checkpoint.pt", spoil)
    with pytest.raises(RunError, match="its text is not of its vocabulary"):
        load_model(run)


def test_a_model_for_a_text_of_another_length_is_refused(go, fresh, tokens):
    with pytest.raises(ConfigError, match="counted"):
        go(model=fresh(**COUNTED), on=(tokens[0][:-1], tokens[1]))
