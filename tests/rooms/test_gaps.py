import torch

from helpers.data import CharTokenizer
from helpers.gpt import GPT, GPTConfig
from helpers.loss import evaluate
from helpers.rooms.gaps import last_gap, looks_at_gaps, loss_without


def test_the_last_gap_lies_before_the_letter_that_asks_unless_that_is_one():
    tokenizer = CharTokenizer.from_text("ab \n")
    found = last_gap(tokenizer.encode("a b\na")[None].long(), tokenizer.characters)[0]
    assert found.nonzero().tolist() == [[2, 1], [4, 3]]


def test_silenced_heads_say_the_same_everywhere_and_none_costs_nothing():
    torch.manual_seed(0)
    tokenizer = CharTokenizer.from_text("ab \n")
    model = GPT(GPTConfig(4, context_length=8, n_layer=2, n_head=2, n_embd=8)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    tokens = torch.randint(4, (97 * 8 + 1,), generator=torch.Generator().manual_seed(1))
    whole = evaluate(model, tokens, 8)
    assert loss_without(model, tokens, []) == whole
    first, both = ([(0, 1)], [(0, 1), (1, 0)])
    assert len({whole, loss_without(model, tokens, first), loss_without(model, tokens, both)}) == 3
    assert loss_without(model, tokens, []) == whole  # the heads are back
    shares = looks_at_gaps(model, tokenizer, tokens)
    assert shares.shape == (2, 2) and ((shares > 0) & (shares < 1)).all()
