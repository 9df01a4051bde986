"""A mixture of experts: many MLPs where there was one, and a gate that sends each letter to one of them.

For *what today's models changed*. One expert a letter, weighed by the gate's share of it, as in the
Switch Transformer (Fedus et al. 2021, section 2.1); here times their number, so that it begins near 1.
No extra loss keeps the work even: a bias for each expert does, which rises while it is chosen too
seldom (Wang et al. 2024, Auxiliary-Loss-Free Load Balancing, section 3).
"""

from copy import deepcopy

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from helpers.gpt import GPT

STEP = 0.001  # by which a bias moves at each update


class Mixture(nn.Module):
    """(B, T, C) -> (B, T, C): of several MLPs, each letter goes through one."""

    def __init__(self, mlp: nn.Sequential, C: int, experts: int = 8):
        super().__init__()
        self.experts = nn.ModuleList(deepcopy(mlp) for _ in range(experts))
        self.gate = nn.Linear(C, experts, bias=False)
        self.register_buffer("bias", torch.zeros(experts))

    def choose(self, letters: Float[Tensor, "N C"]) -> tuple[Int64[Tensor, "N"], Float[Tensor, "N"]]:
        """Each letter's expert, and that expert's share of the gate, 1 where all shares are equal."""
        shares = self.gate(letters).softmax(dim=-1)
        chosen = (shares + self.bias).argmax(dim=-1)
        return chosen, shares.gather(1, chosen[:, None])[:, 0] * len(self.experts)

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        letters = x.flatten(0, 1)
        chosen, share = self.choose(letters)
        out = torch.zeros_like(letters)
        for i, expert in enumerate(self.experts):
            mine = (chosen == i).nonzero()[:, 0]
            out = out.index_add(0, mine, expert(letters[mine]) * share[mine, None])
        if self.training:  # whoever had too little to do gets a little more
            work = torch.bincount(chosen, minlength=len(self.experts)).float()
            self.bias += STEP * (work.mean() - work).sign()
        return out.view_as(x)


def use_experts(model: GPT, experts: int = 8) -> None:
    """A mixture in place of each MLP; its experts begin as other draws of that MLP."""
    for block in model.blocks:
        mixture = Mixture(block.mlp, model.config.n_embd, experts)
        nn.init.normal_(mixture.gate.weight, std=0.02)
        for expert in mixture.experts:
            for layer in (expert[0], expert[-1]):
                nn.init.normal_(layer.weight, std=float(layer.weight.std()))
        block.mlp = mixture
