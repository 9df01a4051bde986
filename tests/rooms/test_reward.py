"""Learning from a judge: what is chosen, which letters count, and what the brakes add."""

import copy

import pytest
import torch
import torch.nn.functional as F

from helpers.gpt import GPT, GPTConfig
from helpers.rooms import reward

CONFIG = GPTConfig(vocab_size=5, context_length=reward.BEGIN + reward.NEW, n_layer=1, n_head=2, n_embd=8)
TOKENS = torch.arange(600) % 5


@pytest.fixture
def model():
    torch.manual_seed(1)
    return GPT(CONFIG).eval()


def test_the_tries_of_a_beginning_stand_side_by_side_and_the_best_is_kept(model):
    written = reward.tries(model, TOKENS, 3, torch.Generator().manual_seed(1))
    assert written.shape == (3 * reward.TRIES, reward.BEGIN + reward.NEW)
    begins = written[:, : reward.BEGIN].view(3, reward.TRIES, -1)
    assert (begins == begins[:, :1]).all() and (begins.diff() % 5 == 1).all()  # from the text
    numbers = {str(one): float(i * 7 % 24) for i, one in enumerate(written.tolist())}
    best = reward.winners(written, lambda one: str(one.tolist()), numbers.__getitem__)
    assert [numbers[str(one)] for one in best.tolist()] == [21.0, 22.0, 23.0]


def test_only_what_was_written_is_learned(model):
    texts = torch.randint(5, (2, reward.BEGIN + reward.NEW), generator=torch.Generator().manual_seed(1))
    twin = copy.deepcopy(model)
    reward.learn_from(twin, texts, torch.optim.SGD(twin.parameters(), lr=0.1), times=1)
    targets = texts[:, 1:].clone()
    targets[:, : reward.BEGIN - 1] = -100  # which PyTorch leaves out
    F.cross_entropy(model(texts[:, :-1]).mT, targets).backward()
    with torch.no_grad():
        for weight, learned in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(learned, weight - 0.1 * weight.grad)


def test_a_brake_is_nothing_where_nothing_has_changed_and_pulls_back_where_something_has(model):
    x = TOKENS[: 2 * 95].view(2, 95)
    near = reward.stays_near(copy.deepcopy(model), 3.0)
    assert near(model, model(x), x).item() == pytest.approx(0, abs=1e-6)
    other = model(x) + torch.randn(2, 95, 5, generator=torch.Generator().manual_seed(1))
    assert near(model, other, x).item() > 0.1
    text = reward.reads_on(TOKENS, 2.0, torch.Generator().manual_seed(1))
    assert text(model, model(x), x).item() == pytest.approx(2 * 1.6, abs=0.4)  # about 2 ln 5


def test_judges_count_whole_words_behind_the_beginning():
    begin = "x" * reward.BEGIN
    assert reward.known_words({"the", "king"})(f"{begin} the kyng the kin") == pytest.approx(2 / 3)
    assert reward.known_words({"the"})(begin) == 0.0
    pairs = reward.known_pairs({("the", "king")})
    assert pairs(f"{begin} the king the king ") == pytest.approx(2 / 3)
    assert reward.by_chance(1)("a") != reward.by_chance(2)("a")
