"""Lesson 06's pictures: the scene of its sheets is tried in test_sheets."""

import torch

from pictures import multi_head, plotting


def test_habits_begin_with_whoever_looks_one_back_the_most(monkeypatch):
    shown = []
    monkeypatch.setattr(plotting, "show", shown.append)
    shares = torch.tensor([[0.5, 0.2, 0.1, 0.1], [0.1, 0.8, 0.0, 0.0]])
    multi_head.habits([shares, shares], ["one", "two"])
    assert shown == ["How much each head gives to the letter one back. one: 80%, 20%; two: 80%, 20%."]
