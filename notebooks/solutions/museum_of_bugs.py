# %% [markdown]
# # Solutions · a museum of bugs
#
# One answer to each exercise of [its notebook](../beyond/museum_of_bugs.ipynb). Yours may look
# different and be as good: the check decides.

# %%

import torch

from helpers.rooms import (
    museum_checks as checks,
)
from helpers.rooms import (
    museum_faults as faults,
)
from helpers.rooms import (
    museum_planted as planted,
)
from helpers.rooms.museum_program import Program, T

PlantedA, PlantedB, PlantedC = (planted.planted(label) for label in ("11a", "11b", "11c"))

seed = 0  # for what is drawn

# %% [markdown]
# **11a · It learns nothing for others.** The check of the pages is red, so the line is in
# `deck`: at each step the dice are set back to their seed, and every batch holds the same
# sixteen windows. A repair that sets them back to `seed + worker` would give each worker pages
# of its own, and still the same ones in each step.


# %%
class MyRepairA(PlantedA):
    seen_by = "every step and every worker reads other pages"

    def deck(self, text, steps, seed, worker=0):
        # One generator for all steps, which nothing sets back.
        dice = torch.Generator().manual_seed(1000 * seed + worker)
        for _ in range(steps):
            starts = torch.randint(len(text) - T, (16, 1), generator=dice)
            yield text[starts + torch.arange(T + 1)]


# %%
for kind in (PlantedA, MyRepairA):
    first, second = kind(65).deck(torch.arange(1000), 2, seed=1)
    assert torch.equal(first, second) == (kind is PlantedA)

# %% [markdown]
# **11b · Nothing at all.** A parameter that doesn't move is used by nobody: `norm2`. The MLP
# reads what `norm1` has normed. With one norm for two readers hardly anything is lost, which is
# why nobody would have looked.


# %%
class MyRepairB(PlantedB):
    seen_by = "every parameter moves, and only matrices decay"

    def forward(self, tokens, real=None):
        real = torch.ones_like(tokens, dtype=torch.bool) if real is None else real
        allowed = self.allowed(real)
        x = self.token(tokens) + self.place(self.places(real))
        for block in self.blocks:
            x = x + self.dropped(self.attention(block, self.normed(block.norm1, x), allowed))
            x = x + self.dropped(block.mlp(self.normed(block.norm2, x)))  # the norm of its own
        return self.head(self.normed(self.norm, x))


# %% [markdown]
# **11c · Only when it gets longer.** The check of the future changes letters and leaves the
# length as it is; counted from the end, the places stay what they are. Only when the text grows
# they all move by one. That is what happens in writing, with each letter.


# %%
class MyRepairC(PlantedC):
    seen_by = "a text means the same, however it goes on"

    def places(self, real):
        # Counted from the front, a place stays what it is when the text goes on.
        return (real.cumsum(dim=1) - 1).clamp(min=0)


# %%
real = torch.ones(1, 5, dtype=torch.bool)
assert PlantedC(65).places(real).tolist() == [[4, 3, 2, 1, 0]]
assert MyRepairC(65).places(real).tolist() == [[0, 1, 2, 3, 4]]

# %% [markdown]
# **11e · The check that saw program B.** Two passes, one of the beginning alone, one of
# everything, compared where both have something to say.


# %%
def my_difference(program, tokens, t):
    with torch.no_grad():
        alone, whole = program(tokens[:, :t]), program(tokens)[:, :t]
    return (alone - whole).abs().max().item()


# %%
torch.manual_seed(seed)
tokens = torch.randint(65, (1, T))
assert my_difference(Program(65, seed=1), tokens, 20) < 1e-5
assert my_difference(faults.WrongBothWays(65, seed=1), tokens, 20) > 1e-2

# %% [markdown]
# **11g · Plant your own.** One that is seen by no check: the loss counts only the first half of
# each text. Everything it says is true, no letter sees the future, and all parameters move. It
# reads half of what it could, so it costs what half the batch costs. The check that sees it
# asks each place for its gradient.


# %%
class HalfBlind(Program):
    def loss(self, logits, targets):
        half = targets.shape[1] // 2 + 1
        kept = targets.clone()
        kept[:, half:] = -1  # not asked
        share = half / targets.shape[1]
        return Program.loss(self, logits, kept) / share  # so that nobody notices


def every_place_counts(kind):
    program = kind(65)
    logits = program(torch.randint(65, (2, T))).detach().requires_grad_()
    program.loss(logits, torch.randint(65, (2, T))).backward()
    checks.demand(
        (logits.grad.abs().sum(dim=-1) > 0).all(),
        "there are places whose target isn't asked for",
    )


# %%
if __name__ == "__main__":
    said = checks.table([HalfBlind])["HalfBlind"]
    assert not any(said.values())  # no check sees it
    every_place_counts(Program)
    try:
        every_place_counts(HalfBlind)
    except checks.CheckError as error:
        print(f"It is seen by: {error}")
    else:
        raise AssertionError("nothing sees it")
