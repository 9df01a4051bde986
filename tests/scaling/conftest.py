"""A small training that any team can share."""

import dataclasses
from typing import Any

import pytest
import torch
import torch.distributed.fsdp  # before a fork, so that only this process waits for it
from members import SETTINGS
from run_folder import ALPHABET

from helpers.checkpoint import Facts, History
from helpers.counted import build_gpt, config_of
from helpers.data import CharTokenizer
from helpers.scaling.sharing import Sharing, is_cut
from helpers.team import ALONE, Team
from helpers.training import train


@pytest.fixture
def shared_training(small_config, tokens):
    """A function that trains in a team, and gives back the history and the weights that the process is left with."""

    def run(
        team: Team = ALONE,
        accumulate: int = 1,
        fsdp: bool = False,
        sizes: dict[str, Any] | None = None,
        settings: dict[str, Any] | None = None,
        text: int = 0,
        **options,
    ) -> tuple[History, dict[str, torch.Tensor]]:
        train_tokens, val_tokens = tokens
        torch.manual_seed(0)
        sizes = {**dataclasses.asdict(small_config), **(sizes or {})}
        if "lengths" in sizes:
            sizes["counted"] = len(train_tokens[text:])
        model = build_gpt(config_of(sizes))
        config = dataclasses.replace(SETTINGS, **(settings or {}))
        sharing = Sharing(team, accumulate, fsdp)
        if "out_dir" in options:
            options["facts"] = Facts(CharTokenizer(ALPHABET))
        history = train(model, train_tokens[text:], val_tokens, config, sharing=sharing, **options)
        weights = model.state_dict().items()
        return history, {name: w.full_tensor() if is_cut(w) else w for name, w in weights}

    return run
