"""What a lesson writes out by itself is what `helpers` computes; what it says of a table is there."""

from itertools import pairwise

import torch
from notebook_file import BY_NAME, cells
from torch import nn

from helpers import attention, checks
from helpers.tables import MEASURED, read_table
from tools.lessons import named


def defined(lesson: str, name: str, **names: object) -> object:
    """The class `name` of a lesson, made by its cell from the names that it uses."""
    (source,) = [c.source for c in cells(BY_NAME[named(lesson).stem]) if f"class {name}(" in c.source]
    scope = {"torch": torch, "nn": nn} | names
    exec(compile(source, name, "exec"), scope)
    return scope[name]


def test_the_heads_of_06():
    ours = defined("06", "ManyHeads", CausalAttention=attention.CausalAttention)
    mine = ours(12, 3, 9)
    helper = attention.MultiHeadAttention(12, 12, 9, 0.0, 3)
    with torch.no_grad():
        for name in ("W_query", "W_key", "W_value"):
            rows = [getattr(head, name).weight for head in mine.heads]
            getattr(helper, name).weight.copy_(torch.cat(rows))
    helper.out_proj.load_state_dict(mine.W_out.state_dict())
    x = torch.randn(2, 7, 12)
    checks.close(mine(x), helper(x))


def test_the_ladder_of_08_with_three_seeds():
    _, rows = read_table(MEASURED / "rungs.csv")
    losses: dict[str, list[float]] = {}
    for row in rows:
        losses.setdefault(row["rung"], []).append(row["loss"])
    ladder = [torch.tensor(three) for three in losses.values()][:6]
    assert all((higher < lower - 0.03).all() for lower, higher in pairwise(ladder[:5]))
    assert 3.3 < ladder[5].min() < ladder[5].max() < 3.4  # three blocks that don't add
    assert all(2.1 < loss < 2.15 for loss in losses["one block that doesn't add"])
    slower = losses["three that don't add, rate 0.002, 2,000 updates"]
    assert [round(loss, 1) for loss in sorted(slower)] == [2.6, 2.7, 2.8]
    assert min(losses["three blocks, rate 0.03"]) > 10 > max(losses["with norms, rate 0.03"])
