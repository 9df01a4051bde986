"""GPT-2 in small: configs, random weights under its own names, and its logits."""

import torch
from nanogpt import of_gpt2

START = "<|endoftext|>"
CONFIGS = [
    {"vocab_size": 260, "n_positions": 16, "n_layer": 2, "n_head": 2, "n_embd": 32},
    {"vocab_size": 300, "n_positions": 9, "n_layer": 1, "n_head": 1, "n_embd": 8},
    {"vocab_size": 261, "n_positions": 24, "n_layer": 3, "n_head": 6, "n_embd": 48},
]


def config_of(i: int = 0, **other) -> dict:
    """As much as the first config.json of GPT-2 says."""
    plain = {
        "model_type": "gpt2",
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-05,
        "n_ctx": 1024,
    }
    return plain | CONFIGS[i] | other


def weights_of(config: dict, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random weights, no bias 0, no norm 1; embeddings so small that the norms' epsilon counts."""
    V, T, L, _, C = (config[name] for name in CONFIGS[0])
    shapes = {"wte.weight": (V, C), "wpe.weight": (T, C), "ln_f.weight": (C,), "ln_f.bias": (C,)}
    layers = {
        "ln_1": (C, None),
        "attn.c_attn": (C, 3 * C),
        "attn.c_proj": (C, C),
        "ln_2": (C, None),
    }
    for i in range(L):
        for name, (rows, columns) in (layers | {"mlp.c_fc": (C, 4 * C), "mlp.c_proj": (4 * C, C)}).items():
            shapes[f"h.{i}.{name}.weight"] = (rows, columns) if columns else (rows,)
            shapes[f"h.{i}.{name}.bias"] = (columns or rows,)
    generator = torch.Generator().manual_seed(seed)
    scale = {"wte.weight": 0.02, "wpe.weight": 0.02}
    return {name: torch.randn(shape, generator=generator) * scale.get(name, 0.3) for name, shape in shapes.items()}


def formulas(weights: dict[str, torch.Tensor], config: dict, tokens: torch.Tensor) -> torch.Tensor:
    """GPT-2's logits in float64, by nanoGPT's class."""
    return of_gpt2(weights, config)(tokens)


def some_tokens(config: dict) -> torch.Tensor:
    return torch.randint(config["vocab_size"], (3, config["n_positions"]), generator=torch.Generator().manual_seed(1))


def close(logits: torch.Tensor, expected: torch.Tensor) -> bool:
    return bool((logits.double() - expected).abs().max() < 1e-5)
