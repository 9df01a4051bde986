"""A mixture of experts: many MLPs where there was one, and a gate that sends each letter to one of them.

For *what today's models changed*. As in the Switch Transformer (Fedus et al. 2021, section 2.1): one
expert a letter, weighed by the gate's share of it. No extra loss keeps the work even; a bias for each
expert does, which rises while it is chosen too seldom (Wang et al. 2024, Auxiliary-Loss-Free Load
Balancing).
"""

from copy import deepcopy

import torch
from jaxtyping import Float
from torch import Tensor, nn

from helpers.gpt import GPT

STEP = 0.01  # by which a bias moves at each update


class Mixture(nn.Module):
    """(B, T, C) -> (B, T, C): of several MLPs, each letter goes through one."""

    def __init__(self, mlp: nn.Sequential, C: int, experts: int = 8):
        super().__init__()
        self.gate = nn.Linear(C, experts, bias=False)
        self.experts = nn.ModuleList(deepcopy(mlp) for _ in range(experts))
        self.register_buffer("bias", torch.zeros(experts))

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        letters = x.flatten(0, 1)
        shares = self.gate(letters).softmax(dim=-1)  # (N, experts)
        chosen = (shares + self.bias).argmax(dim=-1)
        if self.training:
            counts = torch.bincount(chosen, minlength=len(self.bias))
            self.bias += STEP * (counts.float().mean() - counts).sign()
        out = torch.zeros_like(letters)
        for i, expert in enumerate(self.experts):
            mine = (chosen == i).nonzero()[:, 0]
            out[mine] = expert(letters[mine]) * shares[mine, i, None]
        return out.view_as(x)


def use_experts(model: GPT, experts: int = 8) -> None:
    """A mixture in place of each MLP; its experts begin as different draws of that MLP."""
    for block in model.blocks:
        mixture = Mixture(block.mlp, model.config.n_embd, experts)
        nn.init.normal_(mixture.gate.weight, std=0.02)
        for expert in mixture.experts:
            for layer in (expert[0], expert[-1]):
                nn.init.normal_(layer.weight, std=float(layer.weight.std()))
        block.mlp = mixture
