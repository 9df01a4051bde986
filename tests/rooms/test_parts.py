"""Each variant of notebook 10 is what its name says, and the stored tables are of whole studies."""

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from helpers import checks
from helpers.errors import CheckError
from helpers.gpt import GPT, Block, GPTConfig, count_parameters
from helpers.optim import TrainConfig, make_optimizer
from helpers.rooms import parts
from helpers.rooms.experiments import Comparison
from helpers.rooms.experts import Mixture
from helpers.rooms.parts import PARTS, STUDIES, WHOLE
from helpers.tables import MEASURED, read_table

SIZES = dict(context_length=64, n_layer=4, n_head=4, n_embd=64)
BUDGET = TrainConfig(batch_size=16, max_steps=1000, eval_interval=1000, min_learning_rate=0.0)
ALL = Comparison(PARTS, SIZES, (1000,))
TOKENS = torch.randint(11, (2, 20), generator=torch.Generator().manual_seed(0))


def build(name, seed=1):
    return ALL.build(name, 11, seed).eval()


def test_the_whole_model_is_the_gpt():
    torch.manual_seed(1)
    theirs = GPT(GPTConfig(vocab_size=11, **SIZES)).eval()
    checks.close(build(WHOLE)(TOKENS), theirs(TOKENS))


def test_attention_spelled_out_is_attention():
    model = build(WHOLE)
    expected = model(TOKENS)
    parts.change_attention(model)
    checks.close(model(TOKENS), expected, tolerance=1e-5)


@pytest.mark.parametrize("name", [name for name in ALL.variants if name != WHOLE])
def test_every_variant_differs_in_its_outputs_or_in_its_training(name):
    whole, other = build(WHOLE).train(), build(name).train()
    torch.manual_seed(0)  # draws the dropout
    # More than another order of the sums.
    differs = not torch.allclose(whole(TOKENS), other(TOKENS), atol=1e-4)
    assert differs or ALL.variants[name].recipe or ALL.variants[name].optimizer is not make_optimizer


@pytest.mark.slow
def test_only_the_leak_sees_its_future():
    """The last place judges them: whoever forgets to mark it would report a wonderful loss."""
    for name, variant in ALL.variants.items():
        if variant.leaks:
            with pytest.raises(CheckError, match="not causal"):
                checks.causal(build(name), TOKENS)
        else:
            checks.causal(build(name), TOKENS)


def test_no_scaling_is_the_root_of_the_head_width():
    whole, x = build(WHOLE), torch.randn(2, 8, 64, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        whole.blocks[0].attention.W_query.weight *= 4  # heads of width 16
    checks.close(build("no scaling").blocks[0](x), whole.blocks[0](x), tolerance=1e-5)


def test_parts_that_are_taken_out_are_gone():
    C, L = SIZES["n_embd"], SIZES["n_layer"]
    parameters = {name: count_parameters(build(name)) for name in ALL.variants}
    whole = parameters[WHOLE]
    assert whole - parameters["no MLP"] == 8 * C * C * L
    assert whole - parameters["no attention"] == 4 * C * C * L
    assert whole - parameters["no LayerNorm"] == (2 * L + 1) * C
    assert parameters["untied head"] - whole == 11 * C
    assert whole - parameters["query = key"] == whole - parameters["no value matrix"] == C * C * L
    assert whole - parameters["sinusoids with a gain"] == 64 * C - 1  # the gain
    assert parameters["one head"] == parameters["no scaling"] == parameters["no residual"] == whole


def test_more_layers_or_more_width_give_the_mlps_numbers_back():
    study = STUDIES["parts"]
    whole, *others = (
        count_parameters(study.build(name, 65, 1)) for name in (WHOLE, "no MLP, 6 layers", "no MLP, width 108")
    )
    assert others == pytest.approx([whole, whole], rel=0.011)


def test_no_positions_means_a_bag_of_the_past():
    shuffled = TOKENS.clone()
    shuffled[:, :19] = TOKENS[:, torch.randperm(19, generator=torch.Generator().manual_seed(1))]
    one_layer = build("no positions")
    # A second layer tells the order a little: each word had another past.
    one_layer.blocks = one_layer.blocks[:1]
    checks.close(one_layer(shuffled)[:, -1], one_layer(TOKENS)[:, -1], tolerance=1e-5)
    assert not torch.allclose(build(WHOLE)(shuffled)[:, -1], build(WHOLE)(TOKENS)[:, -1], atol=1e-3)


def test_sinusoids_have_the_wavelengths_of_the_paper():
    """Channels 2i and 2i + 1 of position t: sine and cosine of t / 10000^(2i / C)."""
    waves = parts.sinusoids(50, 6)
    for t in (1, 7, 49):
        for i in range(3):
            angle = t / 10_000 ** (2 * i / 6)
            checks.close(
                waves[t, 2 * i : 2 * i + 2],
                torch.tensor([math.sin(angle), math.cos(angle)]),
                tolerance=1e-5,
            )


def test_post_norm_has_two_norms_each_after_its_sum():
    model, x = build("post-norm"), torch.randn(2, 8, 64, generator=torch.Generator().manual_seed(2))
    block = model.blocks[0]
    for norm in (block.norm1, block.norm2):
        torch.nn.init.normal_(norm.weight)  # so that one in the other's place is noticed
    after_attention = block.norm1(x + block.attention(x))
    checks.close(block(x), block.norm2(after_attention + block.mlp(after_attention)))
    assert isinstance(model.norm, torch.nn.Identity)  # the last block has just normalised


@pytest.mark.parametrize("name", ["parts", "longer", "modern", "experts"])
def test_the_stored_table_is_that_of_the_whole_study(name):
    study = STUDIES[name]
    comments, lines = read_table(MEASURED / f"{name}.csv")
    assert comments[0].startswith("made by: ") and name in comments[0] and "uncommitted" not in comments[0]
    assert f"budget: {study.budget()}" in comments and not study.missing(lines)
    assert len(lines) == len({study.run_of(line) for line in lines})
    sizes = {name: count_parameters(study.build(name, 65, 1)) for name in study.variants}
    assert all(line["parameters"] == sizes[line["variant"]] for line in lines)


# ---------------------------------------------------------------- counted
@pytest.mark.parametrize("T", [16, 64, 512])
def test_shares_of_flops_are_those_that_pytorch_counts(T):
    C = 32
    block, x = Block(GPTConfig(11, T, n_layer=1, n_head=4, n_embd=C)), torch.randn(1, T, C)
    with FlopCounterMode(display=False) as of_mlp:
        block.mlp(x)
    with FlopCounterMode(display=False) as of_attention:
        block.attention(x, return_weights=True)
    by_operation = of_attention.get_flop_counts()["Global"]
    mixing = by_operation[torch.ops.aten.bmm]  # scores and mixture
    attention, mlp = of_attention.get_total_flops(), of_mlp.get_total_flops()
    counted = {"projections": attention - mixing, "scores": mixing / 2, "MLP": mlp}
    shares = parts.flop_shares(T, C)
    assert sum(shares.values()) == pytest.approx(1) and shares["scores"] == shares["mixture"]
    for part, flops in counted.items():
        assert shares[part] == pytest.approx(flops / (attention + mlp))


# ---------------------------------------------------------------- experts
def test_a_mixture_of_one_is_the_mlp_and_each_letter_goes_through_its_own():
    mlp, x = build(WHOLE).blocks[0].mlp, torch.randn(3, 5, 64, generator=torch.Generator().manual_seed(1))
    checks.close(Mixture(mlp, 64, experts=1).eval()(x), mlp(x), tolerance=1e-6)
    mixture = STUDIES["experts"].build("eight experts", 11, 1).blocks[0].mlp.eval()
    chosen, share = mixture.choose(x.flatten(0, 1))
    assert len(set(chosen.tolist())) > 1 and 0.9 < share.mean() < 1.3  # of eight nearly equal ones
    for letter, expert, weight, out in zip(x.flatten(0, 1), chosen, share, mixture(x).flatten(0, 1), strict=True):
        checks.close(out, mixture.experts[expert](letter) * weight, tolerance=1e-6)


@pytest.mark.slow
def test_experts_begin_apart_and_work_becomes_even():
    mixture = STUDIES["experts"].build("eight experts", 11, 1).blocks[0].mlp
    weights = [expert[0].weight for expert in mixture.experts]
    assert not torch.allclose(weights[0], weights[1])
    assert all(torch.isclose(weight.std(), torch.tensor(0.02), rtol=0.1) for weight in weights)
    x = torch.randn(8, 32, 64, generator=torch.Generator().manual_seed(1)) + 0.5  # a lean that favours some
    with torch.no_grad():
        mixture.gate.weight[0] += 0.02

        def busiest():
            return torch.bincount(mixture.choose(x.flatten(0, 1))[0], minlength=8).max()

        before = busiest()
        for _ in range(300):
            mixture.train()(x)
    assert busiest() < 60 < before
    bias = mixture.bias.clone()
    mixture.eval()(x)
    assert torch.equal(mixture.bias, bias)
