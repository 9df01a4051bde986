"""nanoGPT's model, from its published code and under its names: what our GPT must agree with.

The one forward pass that the tests hold against ours. With `gelu="tanh"` and biases it is GPT-2.
"""

import torch
import torch.nn.functional as F
from torch import nn

from helpers import gpt2
from helpers.gpt import GPT


class NanoAttention(nn.Module):
    def __init__(self, C, n_head, dropout=0.0, bias=True):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(C, 3 * C, bias), nn.Linear(C, C, bias)
        self.n_head, self.p = n_head, dropout
        self.resid_dropout = nn.Dropout(dropout)

    def forward(self, x, cache=None):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (y.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for y in (q, k, v))
        if cache is not None:  # nanoGPT has none; a lesson asks for one
            old = cache.setdefault(id(self), [])
            old.append((k, v))
            k, v = (torch.cat([pair[i] for pair in old], 2) for i in (0, 1))
        p = self.p if self.training else 0.0
        if k.shape == q.shape:
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        else:
            S = k.shape[2]
            mask = torch.arange(S)[None] <= torch.arange(S - T, S)[:, None]
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p)
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C)))


class NanoMLP(nn.Module):
    def __init__(self, C, dropout=0.0, bias=True, gelu="none"):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(C, 4 * C, bias), nn.Linear(4 * C, C, bias)
        self.gelu, self.dropout = gelu, nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.c_proj(F.gelu(self.c_fc(x), approximate=self.gelu)))


class NanoBlock(nn.Module):
    def __init__(self, C, n_head, dropout=0.0, bias=True, gelu="none"):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(C, bias=bias), nn.LayerNorm(C, bias=bias)
        self.attn = NanoAttention(C, n_head, dropout, bias)
        self.mlp = NanoMLP(C, dropout, bias, gelu)

    def forward(self, x, cache=None):
        x = x + self.attn(self.ln_1(x), cache)
        return x + self.mlp(self.ln_2(x))


class NanoGPT(nn.Module):
    def __init__(
        self,
        vocab_size,
        context_length,
        n_layer,
        n_head,
        n_embd,
        dropout=0.0,
        bias=True,
        gelu="none",
    ):
        super().__init__()
        self.context_length = context_length
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocab_size, n_embd),
                "wpe": nn.Embedding(context_length, n_embd),
                "drop": nn.Dropout(dropout),
                "h": nn.ModuleList(NanoBlock(n_embd, n_head, dropout, bias, gelu) for _ in range(n_layer)),
                "ln_f": nn.LayerNorm(n_embd, bias=bias),
            }
        )
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.transformer["wte"].weight = self.lm_head.weight
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, idx, cache=None):
        start = cache.get("start", 0) if cache is not None else 0
        pos = torch.arange(start, start + idx.shape[1])
        x = self.transformer["drop"](self.transformer["wte"](idx) + self.transformer["wpe"](pos))
        for block in self.transformer["h"]:
            x = block(x, cache)
        if cache is not None:
            cache["start"] = start + idx.shape[1]
        return self.lm_head(self.transformer["ln_f"](x))


def with_weights_of(model: GPT) -> NanoGPT:
    """nanoGPT with the weights of our GPT, in float64; strict: none is missing, none is left over."""
    c = model.config
    sizes = (c.vocab_size, c.context_length, c.n_layer, c.n_head, c.n_embd)
    ours = model.state_dict()
    state = {
        f"transformer.{theirs}": torch.cat([ours[name] for name in names])
        for theirs, names in gpt2.names(c.n_layer).items()
        if names[0] in ours  # without biases there is a half of them
    }
    nano = NanoGPT(*sizes, bias=c.bias).double()
    nano.load_state_dict(state | {"lm_head.weight": ours["head.weight"]})
    return nano.eval()


def of_gpt2(weights: dict[str, torch.Tensor], config: dict) -> NanoGPT:
    """GPT-2 from weights as Hugging Face names and stores them, in float64."""
    sizes = (config[name] for name in ("vocab_size", "n_positions", "n_layer", "n_head", "n_embd"))
    state = {
        f"transformer.{name}": weights[name].T if ".c_" in name and name.endswith("weight") else weights[name]
        for name in gpt2.names(config["n_layer"])  # masks may be there, too
    }
    nano = NanoGPT(*sizes, gelu="tanh").double()
    nano.load_state_dict(state | {"lm_head.weight": weights["wte.weight"]})
    return nano.eval()
