"""The likeliest text that a beam finds, and draws that a small model guesses ahead."""

import itertools
import math

import pytest
import torch
from torch import nn

from helpers.errors import ConfigError
from helpers.gpt import GPT, GPTConfig
from helpers.rooms.decoding import beam_search, speculate
from helpers.sampling import generate


class Table(nn.Module):
    """A random table gives logits from the last two tokens; token 0 stands before the first."""

    def __init__(self, seed: int, V: int = 3):
        super().__init__()
        self.table = torch.randn(V, V, V, generator=torch.Generator().manual_seed(seed))

    def forward(self, tokens):
        before = torch.cat([torch.zeros_like(tokens[:, :1]), tokens[:, :-1]], dim=1)
        return self.table[before, tokens]


MODEL, DRAFT, START = Table(0), Table(1), torch.tensor([0])


def probability(model: nn.Module, text: torch.Tensor) -> float:
    """Of text (T,) after its first token."""
    log_p = model(text[None, :-1])[0].log_softmax(-1)
    return log_p.gather(1, text[1:, None]).sum().exp().item()


ALL = {
    rest: probability(MODEL, torch.tensor([0, *rest]))
    for rest in itertools.product(range(3), repeat=3)
}


def p_value(ahead: int, draws: int = 3000) -> float:
    """Chi-square: do texts of three tokens come as often as the model's probabilities say?"""
    generator, counts = torch.Generator().manual_seed(0), dict.fromkeys(ALL, 0)
    for _ in range(draws):
        text, _ = speculate(MODEL, DRAFT, START, 3, ahead=ahead, generator=generator)
        counts[tuple(text[1:].tolist())] += 1
    chi_square = sum((counts[text] - draws * p) ** 2 / (draws * p) for text, p in ALL.items())
    return torch.special.gammaincc(
        torch.tensor((len(ALL) - 1) / 2), torch.tensor(chi_square / 2)
    ).item()


@pytest.mark.slow
def test_guesses_change_nothing_about_the_distribution():
    """A right program fails once in a million seeds."""
    assert abs(sum(ALL.values()) - 1) < 1e-5 and min(ALL.values()) * 3000 > 5
    assert p_value(ahead=4) > 1e-6


@pytest.fixture
def sharp() -> GPT:
    torch.manual_seed(1)
    model = GPT(GPTConfig(vocab_size=7, context_length=10, n_layer=2, n_head=2, n_embd=16))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


@pytest.mark.parametrize(("ahead", "keep"), [(1, 1.0), (3, 0.5), (30, 0.1)])
def test_cold_guessing_writes_what_generate_writes_beyond_the_context_too(sharp, ahead, keep):
    """Near temperature 0 there is one text.

    The draft is often wrong, so the cache must forget its guesses.
    """
    cold = dict(temperature=1e-6, keep=keep)
    torch.manual_seed(2)
    draft = GPT(sharp.config)
    for prompt in (torch.tensor([3, 1]), torch.arange(25) % 7):  # longer than the context, too
        text, share = speculate(sharp, draft, prompt, 40, ahead=ahead, **cold)
        assert torch.equal(text, generate(sharp, prompt, 40, **cold)) and share != 1
    assert sharp.training and draft.training


def test_a_draft_that_is_the_model_is_always_right_and_saves_calls(sharp):
    calls, draft = [], GPT(sharp.config)
    draft.load_state_dict(sharp.state_dict())
    sharp.register_forward_pre_hook(lambda _, inputs: calls.append(inputs[0].shape[1]))
    text, share = speculate(sharp, draft, torch.tensor([3]), 8, ahead=3)
    assert share == 1.0 and len(text) == 9 and calls == [4, 4]


def test_a_beam_as_wide_as_all_texts_finds_the_likeliest():
    texts, scores = beam_search(MODEL, START, 3, beams=27)
    wanted = sorted(ALL.items(), key=lambda pair: -pair[1])
    assert [tuple(text[1:].tolist()) for text in texts] == [text for text, _ in wanted]
    assert torch.allclose(scores.exp(), torch.tensor([p for _, p in wanted]), atol=1e-6)


def test_one_beam_is_greedy_and_more_beams_find_more(sharp):
    sharp.train()
    (greedy,), one = beam_search(sharp, torch.tensor([3, 1]), 8, beams=1)
    assert torch.equal(greedy, generate(sharp, torch.tensor([3, 1]), 8, top_k=1)) and sharp.training
    texts, scores = beam_search(sharp, torch.tensor([3, 1]), 8, beams=50)
    assert texts.shape == (50, 10) and scores[0] > one[0] + 0.01 and (scores.diff() <= 0).all()
    assert scores[0].exp().item() == pytest.approx(
        math.prod(
            sharp(texts[:1, : t + 1])[0, -1].softmax(-1)[texts[0, t + 1]].item()
            for t in range(1, 9)
        ),
        rel=1e-4,
    )


def test_a_beam_does_not_outgrow_the_context(sharp):
    # The last token is written, and read by nobody.
    assert beam_search(sharp, START, 10)[0].shape == (
        4,
        11,
    )
    with pytest.raises(ConfigError, match="11 tokens do not fit into a context of 10"):
        beam_search(sharp, START, 11)
    assert sharp.training
