"""For the length of a block, and then as before: evaluation mode, one thread."""

import pytest
import torch
from torch import nn

from helpers.errors import one_thread
from helpers.gpt import evaluating


def test_each_layer_gets_its_own_mode_back():
    model = nn.Sequential(nn.Dropout(), nn.Dropout()).train()
    model[1].eval()  # frozen on purpose
    with pytest.raises(ZeroDivisionError), evaluating(model):
        assert not any(layer.training for layer in model.modules())
        _ = 1 / 0
    assert [layer.training for layer in model.modules()] == [True, True, False]


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
