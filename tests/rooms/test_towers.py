import torch
from torch import nn

from helpers import telegrams
from helpers.rooms.towers import (
    Add,
    Look,
    first_looks,
    of_friends,
    pages_of,
    raises,
    said_when,
    size_left,
    things_of,
)

SCENES = telegrams.scenes(50, torch.Generator().manual_seed(1))


class FriendsThing(nn.Module):
    """Answers with the thing of whoever receives on the card that the first layer made it look at."""

    def forward(self, x):
        receiver = x[:, -1, 64:]  # what the first layer has copied into the question's last box
        match = (x[:, :6, :32] @ receiver[..., None])[..., 0]
        return x[torch.arange(len(x)), match.argmax(dim=1), 32:64]


def copying():
    """A first layer that copies what it looks at into the question."""
    layer = Add(Look(width=96))
    for matrix in (layer.part.W_value, layer.part.W_out):
        nn.init.eye_(matrix.weight)
    return layer


def test_a_first_look_is_forced():
    his = (SCENES[:, :, 0] == SCENES[:, :1, 0]).float()
    network = nn.Sequential(copying(), nn.Identity(), FriendsThing())
    right = of_friends(SCENES)
    assert (said_when(network, SCENES, his) == right).all()  # the friend is on the asker's own card
    elsewhere = said_when(network, SCENES, his.roll(1, dims=1))
    assert (elsewhere == right).float().mean() < 0.5


def test_a_page_asks_for_the_first_giver_and_its_things_are_found():
    pages = pages_of(SCENES)
    assert torch.equal(pages[:, 6, :32], pages[:, 0, :32]) and not pages[:, 6, 32:].any()
    given, got = things_of(pages[:, 6, :32], pages[:, :6])
    assert torch.equal(given + 8, SCENES[:, 0, 1])
    receives = (SCENES[:, :, 2] == SCENES[:, :1, 0]).int().argmax(dim=1)
    assert torch.equal(got + 8, SCENES[torch.arange(50), receives, 1])


def test_looks_are_the_questions_and_scores_rise_by_what_was_copied():
    first, second = copying(), Add(Look(width=96))
    network = nn.Sequential(first, second)
    looks = first_looks(network, SCENES)
    assert looks.shape == (50, 7) and looks.sum(dim=1).allclose(torch.ones(50))
    nn.init.eye_(second.part.W_query.weight)
    nn.init.eye_(second.part.W_key.weight)
    assert raises(network, 0) > 0.1 > abs(raises(network, 2))  # a giver stands where own cards do


def test_a_page_that_is_doubled_three_times_is_eight_times_as_large():
    double = nn.Linear(96, 96, bias=False)
    double.weight.data = 2 * torch.eye(96)
    assert size_left([]) == 1 and abs(size_left([double] * 3) - 8) < 1e-5
