import json

import pytest
import torch

from helpers import ablations, checks
from helpers.ablations import VARIANTS, WHOLE
from helpers.data import CharTokenizer
from helpers.errors import CheckError, ConfigError
from helpers.gpt import GPT, GPTConfig, count_parameters

LEAKY = {"no causal mask", "softmax over queries"}
TOKENS = torch.randint(11, (2, 20), generator=torch.Generator().manual_seed(0))


def build(name, seed=1):
    return ablations.build(name, 11, seed).eval()


def test_the_whole_model_is_the_gpt():
    torch.manual_seed(1)
    theirs = GPT(GPTConfig(vocab_size=11, **ablations.SIZES)).eval()
    checks.close(build(WHOLE)(TOKENS), theirs(TOKENS))


def test_attention_spelled_out_is_attention():
    model = build(WHOLE)
    expected = model(TOKENS)
    ablations.change_attention(model)
    checks.close(model(TOKENS), expected, tolerance=1e-5)


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != WHOLE])
def test_every_variant_differs_in_its_outputs_or_in_its_training(name):
    whole, other = build(WHOLE), build(name)
    differs = not torch.allclose(whole(TOKENS), other(TOKENS), atol=1e-4)  # more than another order of the sums
    assert differs or VARIANTS[name].budget or VARIANTS[name].optimizer


@pytest.mark.parametrize("name", VARIANTS)
def test_only_the_two_leaks_see_their_future(name):
    if name in LEAKY:
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
    C, L = ablations.SIZES["n_embd"], ablations.SIZES["n_layer"]
    parameters = {name: count_parameters(build(name)) for name in VARIANTS}
    whole = parameters[WHOLE]
    assert whole - parameters["no MLP"] == 8 * C * C * L
    assert whole - parameters["no attention"] == 4 * C * C * L
    assert whole - parameters["no LayerNorm"] == (2 * L + 1) * C
    assert parameters["untied head"] - whole == 11 * C
    assert abs(parameters["no MLP, 12 layers"] / whole - 1) < 0.01  # as many as the whole model
    assert parameters["one head"] == parameters["no scaling"] == parameters["no residual"] == whole


def test_no_positions_means_a_bag_of_the_past():
    shuffled = TOKENS.clone()
    shuffled[:, :19] = TOKENS[:, torch.randperm(19, generator=torch.Generator().manual_seed(1))]
    one_layer = build("no positions")
    one_layer.blocks = one_layer.blocks[:1]  # a second layer tells the order a little: each word had another past
    checks.close(one_layer(shuffled)[:, -1], one_layer(TOKENS)[:, -1], tolerance=1e-5)
    assert not torch.allclose(build(WHOLE)(shuffled)[:, -1], build(WHOLE)(TOKENS)[:, -1], atol=1e-3)


def test_positions_that_are_fixed_are_not_learned():
    for name in ("no positions", "sinusoids, not learned"):
        assert not build(name).position_embedding.weight.requires_grad


def test_sinusoids_have_length_and_products_that_depend_on_distance():
    waves = ablations.sinusoids(20, 8)
    assert waves.shape == (20, 8) and torch.equal(waves[0], torch.tensor([0.0, 1.0] * 4))
    checks.close(waves.norm(dim=1), torch.full((20,), 2.0))  # the root of C / 2
    checks.close(waves[3] @ waves[5], waves[11] @ waves[13], tolerance=1e-4)
    checks.close(waves[1, :2], torch.tensor([0.841471, 0.540302]))  # sine and cosine of 1


def test_the_writing_loss_cannot_be_cheated():
    """A model that knows the next token wherever it stands in the window is helpless at the last place."""

    class Cheat(torch.nn.Module):
        config = GPTConfig(vocab_size=11, context_length=8, n_layer=1, n_head=1, n_embd=4)

        def forward(self, tokens):
            peeked = torch.nn.functional.one_hot(tokens.roll(-1, dims=1), 11) * 50.0
            peeked[:, -1] = 0
            return peeked

    tokens = torch.randint(11, (4000,), generator=torch.Generator().manual_seed(0))
    assert ablations.evaluate(Cheat(), tokens, 8) < 0.5
    assert abs(ablations.writing_loss(Cheat(), tokens) - torch.tensor(11.0).log()) < 1e-4


def test_a_run_and_a_table(tmp_path):
    text = "to be, or not to be: that is the question\n" * 40
    tokenizer = CharTokenizer.from_text(text)
    tokens = tokenizer.encode(text)
    lines = [ablations.run(name, 1, tokens, tokenizer, steps=12) for name in (WHOLE, "no attention")]
    assert all(line["steps"] == 12 and 0 < line["writing_loss"] < 4 for line in lines)
    assert ablations.run(WHOLE, 1, tokens, tokenizer, steps=12)["writing_loss"] == lines[0]["writing_loss"]
    ablations.write_table(tmp_path / "table.csv", lines, ["# made by a test"])
    comments, again = ablations.read_table(tmp_path / "table.csv")
    assert comments == ["made by a test"]
    assert again == [{**line, "text": json.loads(line["text"])} for line in lines]


def test_an_unknown_variant_is_named():
    with pytest.raises(ConfigError, match="unknown variant 'no luck': choose one of the whole model, no causal mask"):
        ablations.build("no luck", 11, 1)


def test_the_stored_tables_are_whole():
    comments, lines = ablations.read_table(ablations.MEASURED / "ablations.csv")
    assert any(line.startswith("made by: make ablations, at commit ") for line in comments) and len(comments) == 3
    assert [line["variant"] for line in lines] == [name for name in VARIANTS for _ in range(3)]
    assert {line["steps"] for line in lines} == {ablations.BUDGET.max_steps} and {line["seed"] for line in lines} == {
        1,
        2,
        3,
    }
    for line in lines:
        assert line["parameters"] == count_parameters(ablations.build(line["variant"], 65, 1))
    _, long = ablations.read_table(ablations.MEASURED / "overfitting.csv")
    assert {(line["dropout"], line["seed"]) for line in long} == {(p, s) for p in (0.0, 0.2) for s in (1, 2, 3)}
