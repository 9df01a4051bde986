"""Each instrument against a slow definition, on a random model where everything matters."""

import pytest
import torch

from helpers import microscope
from helpers.gpt import GPT, GPTConfig, attention_maps
from helpers.loss import evaluate
from helpers.models import build_gpt
from helpers.modern import ModernConfig

V, T, L, H, C = 11, 8, 2, 3, 12
D = C // H


@pytest.fixture
def small() -> GPT:
    """Weights large enough that every part of it shows, and dropout, which no instrument may see."""
    torch.manual_seed(3)
    model = GPT(GPTConfig(vocab_size=V, context_length=T, n_layer=L, n_head=H, n_embd=C, dropout=0.4, bias=True))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model.train()


@pytest.fixture
def text() -> torch.Tensor:
    return torch.randint(V, (61,), generator=torch.Generator().manual_seed(4))


def log_probabilities(model: GPT, letters: torch.Tensor) -> torch.Tensor:
    """After the last of `letters`, in evaluation mode: the slow way, one place at a time."""
    model.eval()
    with torch.no_grad():
        logits = model(letters[None])[0, -1].double()
    model.train()
    return logits - logits.exp().sum().log()


def predictions(model: GPT, text: torch.Tensor) -> tuple[list[torch.Tensor], list[int], list[int]]:
    """At each place of windows side by side: log-probabilities, its letter, and the next."""
    places = range((len(text) - 1) // T * T)
    return (
        [log_probabilities(model, text[i // T * T : i + 1]) for i in places],
        [int(text[i]) for i in places],
        [int(text[i + 1]) for i in places],
    )


def close(result, expected, **options):
    torch.testing.assert_close(
        torch.as_tensor(result).double(),
        torch.as_tensor(expected).double(),
        atol=1e-4,
        rtol=1e-4,
        **options,
    )


# ---------------------------------------------------------------- predictions
@pytest.mark.parametrize("length", [2, T + 1, T + 2, 3 * T // 2 + 1, 61])
def test_surprise_shows_the_whole_past_or_more_than_half_a_context(small, text, length):
    text, expected = text[:length], []
    for i in range(1, length):
        starts = [start for start in range(0, length, T // 2) if start + T < length] + [max(0, length - 1 - T)]
        start = min(start for start in starts if start < i <= start + T)
        assert start == 0 or i - start > T // 2
        expected.append(-log_probabilities(small, text[start:i])[text[i]].item())
    close(microscope.surprise(small, text), expected)


def test_references_by_hand():
    counted = microscope.references(torch.tensor([0, 1, 0, 1, 2]), 3)
    close(counted["uniform"].exp(), torch.full((3, 3), 1 / 3))
    close(counted["unigram"].exp(), torch.tensor([[3 / 8, 3 / 8, 2 / 8]] * 3))
    close(
        counted["bigram"].exp(),
        torch.tensor([[1 / 5, 3 / 5, 1 / 5], [2 / 5, 1 / 5, 2 / 5], [1 / 3] * 3]),
    )


# ---------------------------------------------------------------- inside
def test_every_tensor_is_what_flows_through_the_model(small, text):
    """Caught by hooks in the model's own forward pass."""
    caught = {}

    def catch(name):
        return lambda module, inputs, output: caught.update({name: (inputs[0], output)})

    handles = [m.register_forward_hook(catch(name)) for name, m in small.named_modules() if name]
    small.eval()
    with torch.no_grad():
        logits = small(text[None, :T])[0]
    [handle.remove() for handle in handles]
    small.train()
    maps = attention_maps(small, text[None, :T])[:, 0]
    trace = microscope.every_tensor(small, text[:T])
    close(trace.logits, logits)
    close(trace.weights, maps)
    assert [part.shape for part in trace] == [
        *((L + 1, T, C), (L, H, T, D), (L, H, T, D), (L, H, T, D)),
        *((L, H, T, T), (L, H, T, D), (L, T, C), (L, T, 4 * C), (T, V)),
    ]
    for layer in range(L):
        block = f"blocks.{layer}"
        close(trace.stream[layer], caught[f"{block}.norm1"][0][0])
        close(trace.stream[layer + 1], caught[block][1][0])
        close(trace.attended[layer], caught[f"{block}.norm2"][0][0])
        close(trace.hidden[layer], caught[f"{block}.mlp.2"][0][0])
        for head in range(H):
            part = slice(head * D, (head + 1) * D)
            for name in ("query", "key", "value"):
                close(
                    getattr(trace, name)[layer, head],
                    caught[f"{block}.attention.W_{name}"][1][0][:, part],
                )
            close(trace.context[layer, head], caught[f"{block}.attention.out_proj"][0][0][:, part])


# ---------------------------------------------------------------- heads
@pytest.mark.parametrize(("layer", "head"), [(0, 2), (1, 1)])
def test_a_silenced_head_says_its_mean_at_every_place_and_comes_back(small, text, layer, head):
    x, activations = torch.stack([text[:T], text[T : 2 * T]]), []
    block, part = small.eval().blocks[layer], slice(head * D, (head + 1) * D)
    hook = block.attention.out_proj.register_forward_pre_hook(lambda _, inputs: activations.append(inputs[0]))
    with torch.no_grad():
        before = small(x)
        hook.remove()
        changed = activations[0].clone()
        changed[..., part] = changed[..., part].mean(dim=(0, 1))
        constant = block.attention.register_forward_hook(lambda *_: block.attention.out_proj(changed))
        expected = small(x)
        constant.remove()
        with microscope.silenced(small, layer, head):
            close(small(x), expected)
            with pytest.raises(ZeroDivisionError), microscope.silenced(small, 0, 0):
                raise ZeroDivisionError  # a head comes back after an error, too
            close(small(x), expected)
        assert torch.equal(small(x), before) and not torch.allclose(expected, before, atol=1e-2)


# ---------------------------------------------------------------- manners
INSTRUMENTS = {
    "surprise": lambda model, text: microscope.surprise(model, text),
    "every tensor": lambda model, text: microscope.every_tensor(model, text[:T]).stream,
}


def test_nothing_is_changed_and_nothing_is_drawn(small, text):
    small.blocks[1].eval()
    modes, weights = [m.training for m in small.modules()], [p.clone() for p in small.parameters()]
    state = torch.get_rng_state()
    for look in INSTRUMENTS.values():
        first, second = look(small, text), look(small, text)  # dropout would differ
        assert torch.equal(first, second) and not first.requires_grad
        assert torch.equal(look(small, text.byte()), first)  # the compact ids of a corpus
    assert [m.training for m in small.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert all(map(torch.equal, small.parameters(), weights))


# ---------------------------------------------------------------- today's models
CHANGES = (
    dict(rotary=True, n_kv_head=1),
    dict(qk_norm=True, softcap=2.0, window=3),
    dict(mlp="swiglu", mlp_width=9, rms_norm=True, tied=False),
    dict(bigrams=31, before=2),
)
ALL = {name: value for changes in CHANGES for name, value in changes.items()}


@pytest.mark.parametrize("changes", [*CHANGES, ALL], ids=lambda changes: " ".join(changes))
def test_what_it_shows_of_todays_models_is_what_they_compute(changes, text):
    torch.manual_seed(3)
    sizes = dict(vocab_size=V, context_length=T, n_layer=L, n_head=H, n_embd=H * 4, dropout=0.4)
    model, tokens = build_gpt(ModernConfig(**sizes, **changes)), text[:T]
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    with torch.no_grad():
        logits = model.eval()(tokens[None])[0]
    trace = microscope.every_tensor(model.train(), tokens)
    close(trace.logits, logits)
    back = torch.arange(T)[:, None] - torch.arange(T)  # how far the key lies behind the query
    allowed = (back >= 0) & (back < (model.config.window or T))
    scores = torch.einsum("lhqd,lhkd->lhqk", trace.query, trace.key) / 4**0.5
    close(trace.weights, scores.masked_fill(~allowed, -torch.inf).softmax(-1))
    close(trace.weights, attention_maps(model, tokens[None])[:, 0])
    close(trace.weights @ trace.value, trace.context)
    close(microscope.surprise(model, tokens).mean(), evaluate(model, tokens, T))
