"""Another processor on this one: what it changes, what it must leave, and whom it names."""

import re

import nbformat
import pytest
import torch
import torch.nn.functional as F
from nbclient import NotebookClient
from notebook_file import write_notebook

from helpers import ROOT
from tools import roundings
from tools.processor import OtherProcessor, round_otherwise
from tools.roundings import ROWS


def rounded(x: torch.Tensor, number: int) -> torch.Tensor:
    copy = x.clone()
    round_otherwise(copy, number)
    return copy


def differing(compute) -> torch.Tensor:
    """By how much what is computed differs, relative to it."""
    usual = compute()
    with OtherProcessor(1):
        other = compute()
    return ((other - usual) / usual).abs().detach()


def test_about_half_of_the_last_bits_change_and_no_others():
    x = torch.randn(10_000, generator=torch.Generator().manual_seed(0))
    for kind, last in ((torch.float32, 2**-23), (torch.float64, 2**-52)):
        y = x.to(kind).exp()
        changed = (rounded(y, 1) - y).abs() / y
        assert 0.4 < (changed > 0).double().mean() < 0.6 and changed.max() <= last
    assert 0.005 < (rounded(x.bfloat16(), 1) != x.bfloat16()).float().mean() < 0.05


def test_what_is_exact_everywhere_stays():
    """Small fractions, infinities, NaN, and whole numbers."""
    for value in (0.0, 0.5, -4.0, torch.inf, -torch.inf, torch.nan):
        for kind in (torch.float32, torch.float64, torch.bfloat16):
            x = torch.full((100,), value, dtype=kind)
            assert torch.equal(rounded(x, 1).nan_to_num(7), x.nan_to_num(7))
    x = torch.tensor([-3.25, 4095.0, 0.375])
    assert rounded(x, 1).equal(x)
    assert rounded(torch.arange(9), 1).equal(torch.arange(9))


def test_equal_computations_stay_equal_and_each_number_rounds_in_its_own_way():
    x = torch.rand(1000)
    assert rounded(x, 3).equal(rounded(x, 3)) and not rounded(x, 3).equal(rounded(x, 4))


def test_products_and_functions_differ_and_views_do_not():
    x = torch.rand(50, 50, generator=torch.Generator().manual_seed(0))
    for compute in (lambda: x @ x, lambda: x.exp(), lambda: x.softmax(-1), lambda: F.gelu(x)):
        assert 0 < differing(compute).max() < 1e-6
    assert differing(lambda: x.T.flip(0) + 1).max() == 0


def test_what_works_in_place_differs_too():
    def compute():
        x = torch.linspace(0.1, 1, 100)
        x.exp_()
        return x

    assert 0 < differing(compute).max() < 1e-6


def test_backward_passes_differ():
    x = torch.rand(50, 50, generator=torch.Generator().manual_seed(0)).requires_grad_()
    loss = (x @ x).softmax(-1).square().sum()  # forward as usual

    def gradient():
        return torch.autograd.grad(loss, x, retain_graph=True)[0]

    assert differing(gradient).max() > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda weights: torch.optim.AdamW(weights, fused=True),
        lambda weights: torch.optim.Adam(weights, foreach=True),
        lambda weights: torch.optim.Adam(weights, foreach=False),
        lambda weights: torch.optim.SGD(weights, lr=0.05, foreach=True),
    ],
    ids=["fused", "foreach", "one by one", "SGD"],
)
def test_an_optimizers_updates_differ(make):
    def compute():
        weight = torch.nn.Parameter(torch.linspace(0.1, 1, 100))
        weight.grad = torch.linspace(1, 2, 100)
        make([weight]).step()
        return weight

    assert 0 < differing(compute).max() < 1e-5


TRAINING = """import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
x, y = torch.randn(300, 8), torch.randn(300, 1)
adam = torch.optim.Adam(net.parameters(), lr=0.05)
for _ in range(300):
    loss = (net(x) - y).square().mean()
    adam.zero_grad()
    loss.backward()
    adam.step()
"""


@pytest.mark.weekly
def test_a_loss_with_too_many_digits_and_an_assert_at_its_edge_are_named(tmp_path):
    """Stored as this processor computes them; in another row both values are shown."""
    path = tmp_path / "planted.ipynb"
    cells = [f"print(f'{{loss:.{digits}f}}')" for digits in (1, 9)]
    write_notebook(path, TRAINING, *cells)
    NotebookClient(planted := nbformat.read(path, as_version=4)).execute()
    edge = f"assert abs(loss.item() - {planted.cells[2].outputs[0].text.strip()}) < 1e-8"
    write_notebook(path, TRAINING, *cells, edge)
    NotebookClient(planted := nbformat.read(path, as_version=4)).execute()
    nbformat.write(planted, path)
    assert roundings.run_row("as-is", [path], with_tests=False) == (4, {})
    compared, why = roundings.run_row("round-1", [path], with_tests=False)
    assert compared == 4 and [name[-6:] for name in why] == ["Cell 2", "Cell 3"]
    printed, at_its_edge = why.values()
    assert len(set(re.findall(r"\d\.\d{9}", printed))) == 2 and "AssertionError" in at_its_edge


def test_every_row_is_run_weekly_as_a_job_of_its_own():
    weekly = (ROOT / ".github" / "workflows" / "weekly.yml").read_text(encoding="utf-8")
    (rows,) = re.findall(r"^        row: \[(.+)\]$", weekly, re.M)
    assert {"as-is", *rows.split(", ")} == set(ROWS)
