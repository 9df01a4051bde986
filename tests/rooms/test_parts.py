"""Each variant of notebook 10 is what its name says, and the stored tables are of whole studies."""

import dataclasses
import inspect
import math
from functools import partial

import pytest
import torch

from helpers import checks
from helpers.errors import CheckError, ConfigError
from helpers.gpt import GPT, GPTConfig, count_parameters
from helpers.optim import TrainConfig, make_optimizer
from helpers.rooms import parts
from helpers.rooms.experiments import Comparison
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
    whole, other = build(WHOLE), build(name)
    differs = not torch.allclose(
        whole(TOKENS), other(TOKENS), atol=1e-4
    )  # more than another order of the sums
    assert (
        differs or ALL.variants[name].recipe or ALL.variants[name].optimizer is not make_optimizer
    )


@pytest.mark.parametrize("name", ALL.variants)
def test_only_the_two_leaks_see_their_future(name):
    """They are judged by their last place: whoever forgets to mark one would report a wonderful
    loss.
    """
    if ALL.variants[name].leaks:
        with pytest.raises(CheckError, match="not causal"):
            checks.causal(build(name), TOKENS)
    else:
        checks.causal(build(name), TOKENS)


def test_no_scaling_is_the_root_of_the_head_width():
    whole, x = build(WHOLE), torch.randn(2, 8, 64, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        whole.blocks[0].attention.W_query.weight *= 4  # heads of width 16
    checks.close(build("no scaling").blocks[0](x), whole.blocks[0](x), tolerance=1e-5)


@pytest.mark.slow
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


def test_five_layers_without_mlp_multiply_as_often_as_two_with_one():
    """For each token: 4 C C for the matrices of attention, 2 T C for scores and mixture, 8 C C for
    the MLP.
    """
    T, L, _, C = STUDIES["parts"].sizes.values()
    attention, mlp = 4 * C * C + 2 * T * C, 8 * C * C
    layers = PARTS["no MLP, 5 layers"].sizes["n_layer"]
    whole, equal = (STUDIES["parts"].build(name, 65, 1) for name in (WHOLE, "no MLP, 6 layers"))
    assert count_parameters(equal) == pytest.approx(count_parameters(whole), rel=0.01)
    assert layers * attention == pytest.approx(L * (attention + mlp), rel=0.05)


def test_no_positions_means_a_bag_of_the_past():
    shuffled = TOKENS.clone()
    shuffled[:, :19] = TOKENS[:, torch.randperm(19, generator=torch.Generator().manual_seed(1))]
    one_layer = build("no positions")
    one_layer.blocks = one_layer.blocks[
        :1
    ]  # a second layer tells the order a little: each word had another past
    checks.close(one_layer(shuffled)[:, -1], one_layer(TOKENS)[:, -1], tolerance=1e-5)
    assert not torch.allclose(build(WHOLE)(shuffled)[:, -1], build(WHOLE)(TOKENS)[:, -1], atol=1e-3)


def test_positions_that_are_fixed_are_not_learned():
    table = build("no positions").position_embedding.weight
    assert not table.requires_grad and not table.any()


def test_sinusoids_have_length_and_products_that_depend_on_distance():
    waves = parts.sinusoids(20, 8)
    assert waves.shape == (20, 8) and torch.equal(waves[0], torch.tensor([0.0, 1.0] * 4))
    checks.close(waves.norm(dim=1), torch.full((20,), 2.0))  # the root of C / 2
    checks.close(waves[3] @ waves[5], waves[11] @ waves[13], tolerance=1e-4)
    checks.close(waves[1, :2], torch.tensor([0.841471, 0.540302]))  # sine and cosine of 1


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


def test_every_start_has_the_size_of_a_learned_one():
    """A variant differs in what its name says and in nothing else, so not in how large its weights
    are.
    """
    whole, untied = build(WHOLE), build("untied head")
    waves = build("sinusoids with a gain").position_embedding
    checks.close(waves(torch.arange(5, 20)), parts.sinusoids(64, 64)[5:20] * 0.02 * math.sqrt(2))
    assert [name for name, _ in waves.named_parameters()] == ["gain"]
    for start in (whole.position_embedding.weight, waves(torch.arange(64)), untied.head.weight):
        assert start.square().mean().sqrt().item() == pytest.approx(0.02, rel=0.1)
    head, embedding = untied.head.weight.flatten(), untied.token_embedding.weight.flatten()
    assert (
        abs(torch.corrcoef(torch.stack([head, embedding]))[0, 1]) < 0.15
    )  # drawn anew, not copied


def test_post_norm_has_two_norms_each_after_its_sum():
    model, x = build("post-norm"), torch.randn(2, 8, 64, generator=torch.Generator().manual_seed(2))
    block = model.blocks[0]
    for norm in (block.norm1, block.norm2):
        torch.nn.init.normal_(norm.weight)  # so that one in the other's place is noticed
    after_attention = block.norm1(x + block.attention(x))
    checks.close(block(x), block.norm2(after_attention + block.mlp(after_attention)))
    assert isinstance(model.norm, torch.nn.Identity)  # the last block has just normalised


def test_without_residual_each_branch_keeps_its_own_norm():
    block, x = (
        build("no residual").blocks[0],
        torch.randn(2, 8, 64, generator=torch.Generator().manual_seed(2)),
    )
    for norm in (block.norm1, block.norm2):
        torch.nn.init.normal_(norm.weight)
    checks.close(block(x), block.mlp(block.norm2(block.attention(block.norm1(x)))))


@pytest.mark.slow
def test_sgd_decays_matrices_as_adamw_does_and_nothing_else():
    """At their middle rates a weight without a gradient shrinks in a long run by about the same
    share per step.
    """
    shares = []
    for name, rate in (("SGD for AdamW", 0.3), (WHOLE, 0.01)):
        model = build(name)
        config = dataclasses.replace(BUDGET, learning_rate=rate)
        optimizer = PARTS[name].optimizer(model, config)
        for _ in range(200):
            before = model.head.weight[0, 0].item()
            for parameter in model.parameters():
                parameter.grad = torch.zeros_like(parameter)
            optimizer.step()
        shares.append(1 - model.head.weight[0, 0].item() / before)
        assert torch.equal(model.norm.weight, torch.ones(64))
    assert shares[0] == pytest.approx(shares[1], rel=0.25) and shares[1] == pytest.approx(
        1e-3, rel=1e-3
    )


def test_no_residual_has_a_start_that_keeps_sizes():
    """GPT-2's start shrinks what passes through a branch; Xavier's keeps it, so that four branches
    in a row live.
    """
    for name, low, high in (("no residual", 0, 0.05), ("no residual, its own start", 0.1, 10)):
        block, x = (
            build(name).blocks[0],
            torch.randn(4, 64, 64, generator=torch.Generator().manual_seed(3)),
        )
        assert low < block(x).std() < high
    plain, full = build(WHOLE).blocks[0], build("full-size start").blocks[0]
    for projection in (lambda block: block.attention.out_proj, lambda block: block.mlp[-1]):
        assert (
            projection(full).weight.std() / projection(plain).weight.std()
        ).item() == pytest.approx(8**0.5, rel=0.1)


def test_query_and_key_share_one_matrix_and_values_are_the_input():
    shared, bare = (
        build("query = key").blocks[0].attention,
        build("no value matrix").blocks[0].attention,
    )
    x = torch.randn(2, 8, 64, generator=torch.Generator().manual_seed(2))
    assert torch.equal(shared.W_query(x), shared.W_key(x)) and torch.equal(bare.W_value(x), x)


def test_a_change_takes_ten_lines_at_most():
    for variant in ALL.variants.values():
        change = variant.change.func if isinstance(variant.change, partial) else variant.change
        for function in (change, variant.optimizer):
            assert len(inspect.getsource(function).splitlines()) <= 10


def test_the_study_of_the_parts_is_as_large_as_it_says():
    study = STUDIES["parts"]
    assert (
        len(study.variants) >= 18 + 1
        and study.seeds >= 8
        and len(study.steps) == 2
        and study.whole_seeds > 8
    )
    assert all(len(variant.rates or study.rates) >= 3 for variant in study.variants.values())
    for name, weights in study.interactions.items():
        assert sum(weights.values()) == 0, name  # a shift of all losses is no interaction
    assert study.rows()["post-norm x warm-up x depth"] == {
        "6 layers, post-norm, no warm-up": 1,
        "6 layers, post-norm": -1,
        "6 layers, no warm-up": -1,
        "6 layers": 1,
        "post-norm, no warm-up": -1,
        "post-norm": 1,
        "no warm-up": 1,
        WHOLE: -1,
    }


def test_an_unknown_variant_is_named():
    with pytest.raises(
        ConfigError,
        match="unknown variant 'no luck': choose one of the whole model, no causal mask",
    ):
        build("no luck")


@pytest.mark.parametrize("name", ["parts", "modern", "laptop"])
def test_the_stored_table_is_that_of_the_whole_study(name):
    study = STUDIES[name]
    comments, lines = read_table(MEASURED / f"{name}.csv")
    assert (
        comments[0].startswith(f"made by: make study NAME={name}, at commit ")
        and "uncommitted" not in comments[0]
    )
    assert f"budget: {study.budget()}" in comments and not study.missing(lines)
    assert len(lines) == len({study.run_of(line) for line in lines})
    sizes = {name: count_parameters(study.build(name, 65, 1)) for name in study.variants}
    assert all(line["parameters"] == sizes[line["variant"]] for line in lines)
