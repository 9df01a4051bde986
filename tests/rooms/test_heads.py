import torch

from helpers.gpt import GPT, GPTConfig, attention_maps
from helpers.loss import evaluate
from helpers.rooms.heads import looks_back, loss_without, made_to_look_back


def wild_model():
    torch.manual_seed(0)
    model = GPT(GPTConfig(4, context_length=8, n_layer=2, n_head=2, n_embd=8)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def test_silenced_heads_say_the_same_everywhere_and_none_costs_nothing():
    model = wild_model()
    tokens = torch.randint(4, (97 * 8 + 1,), generator=torch.Generator().manual_seed(1))
    whole = evaluate(model, tokens, 8)
    assert loss_without(model, tokens, []) == whole
    first, both = ([(0, 1)], [(0, 1), (1, 0)])
    assert len({whole, loss_without(model, tokens, first), loss_without(model, tokens, both)}) == 3
    assert loss_without(model, tokens, []) == whole  # the heads are back


def test_a_share_back_is_the_mean_over_all_places_that_have_such_a_letter():
    model, tokens = wild_model(), torch.arange(80) % 4
    maps = attention_maps(model, tokens.view(10, 8))  # L B H T T
    expected = torch.stack([maps[..., t, t - 2] for t in range(2, 8)]).mean(dim=(0, 2))
    assert torch.allclose(looks_back(model, tokens, 2), expected)


@torch.no_grad()
def test_a_head_that_is_made_to_look_back_reads_the_letter_before_and_no_other():
    model, x = wild_model(), torch.tensor([[0, 1, 2, 3, 2, 1, 0, 3]])
    attention = model.blocks[0].attention
    normed = model.blocks[0].norm1(model.embed(x))
    before = attention(normed)
    with made_to_look_back(model, 0, 1):
        moved = attention(normed) - before
    D = 4
    values = attention.query_key_value(normed)[2][0, 1]  # of head 1: (T, D)
    own = attention_maps(model, x)[0, 0, 1] @ values
    by_hand = torch.cat([values[:1], values[:-1]])
    expected = (by_hand - own) @ attention.out_proj.weight[:, D:].T
    assert torch.allclose(moved[0], expected, atol=1e-5)
    assert torch.equal(attention(normed), before)  # the head is free again
