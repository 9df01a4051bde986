"""The GPT is nanoGPT's, in formulas, initial values and names; it is causal, cache or not."""

import dataclasses
import math

import pytest
import torch
from nanogpt import with_weights_of
from torch import nn

from helpers import checks
from helpers.errors import ConfigError
from helpers.gpt import GPT, GPTConfig, attention_maps, count_parameters, evaluating, one_thread
from helpers.loss import cross_entropy, evaluate
from helpers.optim import make_optimizer
from helpers.sampling import generate


@pytest.mark.parametrize("bias", [False, True])
def test_equals_nanogpt(bias):
    torch.manual_seed(0)
    config = GPTConfig(vocab_size=11, context_length=9, n_layer=3, n_head=2, n_embd=8, bias=bias)
    model = GPT(config).double()
    for parameter in model.parameters():  # far from the initial values, where most terms are nearly 0
        nn.init.normal_(parameter, std=0.7)
    tokens = torch.randint(11, (2, 9))
    checks.close(model(tokens), with_weights_of(model)(tokens), tolerance=1e-10)


def test_a_random_model_is_as_surprised_as_the_uniform_guesser(model):
    tokens = torch.randint(65, (16, 17))
    assert abs(cross_entropy(model(tokens[:, :-1]), tokens[:, 1:]).item() - math.log(65)) < 0.1


@pytest.mark.slow
def test_overfits_one_batch(model, quick):
    torch.manual_seed(0)
    tokens = torch.randint(65, (4, 17))
    optimizer = make_optimizer(model, dataclasses.replace(quick, learning_rate=1e-2))
    for _ in range(150):
        loss = cross_entropy(model(tokens[:, :-1]), tokens[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05


def test_initial_values(small_config):
    torch.manual_seed(0)
    model = GPT(dataclasses.replace(small_config, n_embd=128, n_layer=8, bias=True))
    for name, parameter in model.named_parameters():
        if "norm" in name:
            assert (parameter == (1 if name.endswith("weight") else 0)).all()
        elif name.endswith("bias"):
            assert (parameter == 0).all()
        else:
            residual = name.endswith(("out_proj.weight", "mlp.2.weight"))
            expected = 0.02 / math.sqrt(16) if residual else 0.02
            assert abs(parameter.std().item() / expected - 1) < 0.1, name
    assert model.head.weight is model.token_embedding.weight


@pytest.mark.parametrize(("n_layer", "n_head", "n_embd", "millions"), [(12, 12, 768, 124.4), (48, 25, 1600, 1557.6)])
def test_gpt2_sizes(n_layer, n_head, n_embd, millions):
    with torch.device("meta"):
        model = GPT(GPTConfig(50257, 1024, n_layer, n_head, n_embd, bias=True))
    assert round(count_parameters(model) / 1e6, 1) == millions


def test_with_a_cache_the_next_token_stands_at_the_next_position(model):
    model.eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)  # so that positions matter
    tokens, cache = torch.randint(65, (2, 16)), model.new_cache()
    pieces = [model(tokens[:, start:end], cache=cache) for start, end in ((0, 5), (5, 6), (6, 16))]
    checks.close(torch.cat(pieces, dim=1), model(tokens), tolerance=1e-3)


@pytest.mark.parametrize("half", [False, True])
def test_the_cache_takes_two_vectors_per_layer_and_place(model, half):
    model, cache, B = model.half() if half else model, model.new_cache(), 3
    model(torch.zeros(B, 1, dtype=torch.long), cache=cache)
    size = sum(tensor.nbytes for layer in cache for tensor in (layer.key, layer.value))
    L, T, C = model.config.n_layer, model.config.context_length, model.config.n_embd
    assert size == 2 * L * T * C * (2 if half else 4) * B


def test_attention_maps_follow_the_model(model):
    """Layer 2's maps equal the scores of its true inputs, made by layer 1 without dropout."""
    inputs, tokens = [], torch.randint(65, (2, 10))
    model.dropout.p = model.blocks[0].dropout.p = 0.5
    nn.init.normal_(model.blocks[1].norm1.weight)  # so that the other norm in its place is noticed
    hook = model.blocks[1].attention.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    model.eval()(tokens)
    hook.remove()
    _, expected = model.blocks[1].attention(inputs[0], return_weights=True)
    assert torch.equal(attention_maps(model.train(), tokens)[1], expected)


@pytest.mark.parametrize("place", ["embedding", "attention weights", "after attention", "after the MLP"])
def test_dropout_is_in_its_four_places(small_config, place):
    """Silence all places but one: the outputs still differ from draw to draw."""
    model = GPT(dataclasses.replace(small_config, dropout=0.5, n_layer=1))
    block = model.blocks[0]
    if place != "embedding":
        model.dropout.p = 0.0
    if place != "attention weights":
        block.attention.dropout = 0.0
    if place in ("embedding", "attention weights"):
        block.dropout.p = 0.0
    silenced = {"after attention": block.mlp, "after the MLP": block.attention.out_proj}.get(place)
    # The one module of the block serves both branches: let only one of them carry anything.
    if silenced is not None:
        for parameter in silenced.parameters():
            nn.init.zeros_(parameter)
    tokens = torch.randint(65, (2, 10))
    assert not torch.equal(model(tokens), model(tokens))
    assert torch.equal(model.eval()(tokens), model(tokens))


def test_more_tokens_than_the_context_are_refused_at_once_or_one_by_one(model):
    with pytest.raises(ConfigError, match="17 tokens do not fit into a context of 16: crop them"):
        model(torch.zeros(1, 17, dtype=torch.long))
    cache = model.new_cache()
    model(torch.zeros(1, 16, dtype=torch.long), cache=cache)
    with pytest.raises(ConfigError, match="17 tokens do not fit into a context of 16: crop them"):
        model(torch.zeros(1, 1, dtype=torch.long), cache=cache)


@pytest.mark.parametrize("token", [-1, 65])
def test_a_token_outside_the_vocabulary_has_no_embedding(model, token):
    with pytest.raises(IndexError):
        model(torch.tensor([[1, token]]))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"n_head": 3}, "n_head=3 does not divide n_embd=32: choose a divisor of it"),
        ({"n_layer": 0}, "n_layer must be a whole number from 1 to 16,384, not 0"),
        (
            {"vocab_size": 0x110001},
            "vocab_size must be a whole number from 1 to 1,114,112, not 1114113",
        ),
        ({"n_embd": 16_385}, "n_embd must be a whole number from 1 to 16,384, not 16385"),
    ],
)
def test_sizes_that_make_no_sense_are_refused_when_they_are_set(small_config, wrong, sentence, unchecked):
    with pytest.raises(ConfigError) as error:
        dataclasses.replace(small_config, **wrong)
    assert str(error.value) == sentence


def test_each_layer_gets_its_own_mode_back():
    model = nn.Sequential(nn.Dropout(), nn.Dropout()).train()
    model[1].eval()  # frozen on purpose
    with pytest.raises(ZeroDivisionError), evaluating(model):
        assert not any(layer.training for layer in model.modules())
        _ = 1 / 0
    assert [layer.training for layer in model.modules()] == [True, True, False]


@pytest.mark.parametrize("training", [True, False])
def test_looking_at_a_model_leaves_its_mode_as_it_was(model, training):
    model.train(training)
    attention_maps(model, torch.randint(65, (1, 16)))
    generate(model, torch.tensor([0]), 3)
    evaluate(model, torch.randint(65, (200,)), 16)
    assert {module.training for module in model.modules()} == {training}


def test_who_gave_pytorch_its_threads_has_them_again():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with pytest.raises(ZeroDivisionError), one_thread():
            assert torch.get_num_threads() == 1
            _ = 1 / 0
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
