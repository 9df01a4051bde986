"""However many processes share a training, and however they do it, it is the same training."""

import dataclasses
import json
import signal

import pytest
import torch
from members import SETTINGS, together
from run_folder import COUNTED, MUON, TODAY

from helpers import checkpoint, errors
from helpers.errors import ConfigError, RunError
from helpers.scaling.sharing import Sharing
from helpers.scaling.team import Team
from helpers.training import cross_entropy, learn

pytestmark = pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="the teams are forks")

KINDS = {
    "the plain GPT with AdamW": ({}, {}),
    "today's GPT with Muon": (TODAY, MUON),
    "beside counts": (TODAY | COUNTED, MUON),
}
WAYS = {
    "2 processes": (2, {}),
    "4 processes": (4, {}),
    "2 processes, 3 pieces each": (2, {"accumulate": 3}),
    "2 processes with cut weights": (2, {"fsdp": True}),
    "4 processes with cut weights": (4, {"fsdp": True}),
}


QUICK = {  # two processes with whole and with cut weights are among the cells of notebook 14
    (0, "2 processes, 3 pieces each"),
    (1, "2 processes"),
    (2, "2 processes"),
}
ALL = [
    pytest.param(kind, way, marks=() if (number, way) in QUICK else pytest.mark.torture)
    for number, kind in enumerate(KINDS)
    for way in WAYS
]


def curves(history):
    return [(record.step, record.train_loss, record.val_loss) for record in history]


def farthest(history, other):
    pairs = zip(curves(history), curves(other), strict=True)
    return max(abs(a - b) for one, two in pairs for a, b in zip(one, two, strict=True))


# ---------------------------------------------------------------- one batch in parts
@pytest.mark.parametrize("pieces", [2, 3, 7])
def test_the_gradients_of_unequal_pieces_add_up_to_those_of_the_batch(model, pieces):
    x = torch.randint(65, (7, 16), generator=torch.Generator().manual_seed(1))
    y = x.roll(-1, dims=1)
    loss = learn(model, x, y)
    whole = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    sharing = Sharing(accumulate=pieces)
    sharing.wrap(model)
    assert torch.allclose(sharing.learn(model, x, y), loss, atol=1e-6)
    assert all(torch.allclose(p.grad, g, atol=1e-6) for p, g in zip(model.parameters(), whole, strict=True))


def test_a_mean_of_means_would_be_another_gradient(model):
    """What the test above must be able to see: parts of 3, 2 and 2 rows don't count alike."""
    x = torch.randint(65, (7, 16), generator=torch.Generator().manual_seed(1))
    y = x.roll(-1, dims=1)
    learn(model, x, y)
    whole = model.head.weight.grad.clone()
    model.zero_grad()
    for part, answers in zip(x.tensor_split(3), y.tensor_split(3), strict=True):
        (cross_entropy(model(part), answers) / 3).backward()
    assert not torch.allclose(model.head.weight.grad, whole, atol=1e-6)


def test_each_part_draws_dropout_of_its_own(fresh):
    """Two equal texts in two pieces: if both were dropped alike, they would give the same logits."""
    model, logits = fresh(dropout=0.5), []

    def forward(tokens):
        logits.append(model(tokens))
        return logits[-1]

    x = torch.zeros(2, 16, dtype=torch.long)
    sharing = Sharing(accumulate=2)
    sharing.wrap(model)
    for _ in range(2):
        torch.manual_seed(1)
        sharing.learn(forward, x, x)
    assert not torch.equal(logits[0], logits[1])
    assert torch.equal(logits[0], logits[2]) and torch.equal(logits[1], logits[3])


def test_alone_nothing_is_shared_and_nothing_is_drawn(model):
    x = torch.zeros(2, 16, dtype=torch.long)
    before = torch.get_rng_state()
    sharing = Sharing()
    assert sharing.wrap(model) is model and str(sharing) == "one process"
    assert torch.equal(sharing.learn(model, x, x), learn(model, x, x))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_batch_has_at_least_one_row_for_each_part():
    Sharing(Team(0, 7)).check(SETTINGS)
    with pytest.raises(
        ConfigError, match=r"a batch of 7 can't be cut into 8 parts \(4 processes, batches in 2 pieces\)"
    ):
        Sharing(Team(0, 4), accumulate=2).check(SETTINGS)


# ---------------------------------------------------------------- one training
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "way"), ALL)
def test_however_it_is_shared_it_is_the_same_training(shared_training, kind, way, monkeypatch):
    """But for Muon's rounding to bfloat16, in which sums of another order may end up elsewhere; so it is left out."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda tensor: tensor)
    sizes, settings = KINDS[kind]
    size, options = WAYS[way]
    alone, weights = shared_training(sizes=sizes, settings=settings)
    for history, shared in together(
        size, lambda team: shared_training(team, sizes=sizes, settings=settings, **options)
    ):
        assert farthest(history, alone) < 1e-5
        assert all(torch.allclose(shared[name], w, atol=1e-4) for name, w in weights.items())


@pytest.mark.slow
def test_dropout_depends_on_the_parts_and_not_on_who_computes_them(shared_training):
    wet = {"dropout": 0.2}
    dry, _ = shared_training()
    alone, _ = shared_training(accumulate=4, sizes=wet)
    assert farthest(alone, dry) > 1e-3
    for size, pieces in ((4, 1), (2, 2)):
        for history, _ in together(size, lambda team, n=pieces: shared_training(team, accumulate=n, sizes=wet)):
            assert farthest(history, alone) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("otherwise", "why"),
    [
        pytest.param({"settings": {"seed": 2}}, "its seed is 1, not 2", marks=pytest.mark.torture),
        pytest.param({"settings": {"max_steps": 9}}, "its max_steps is another", marks=pytest.mark.torture),
        ({"text": 1}, "it was trained on another text"),
        ({"accumulate": 2}, "it shares the work as 2 processes, not as 2 processes, batches in 2 pieces"),
    ],
    ids=str,
)
def test_processes_that_were_started_otherwise_do_not_begin(shared_training, tmp_path, otherwise, why):
    """One machine may lack the text, and read another one in its place."""

    def work(team):
        with pytest.raises(ConfigError) as error:
            shared_training(team, out_dir=tmp_path / "run", **(otherwise if team.rank else {}))
        return str(error.value)

    sentence = f"process 0 was started otherwise than process 1: {why}"
    assert together(2, work) == [sentence, sentence] and not (tmp_path / "run").exists()


# ---------------------------------------------------------------- the run
def interrupted(shared_training, at, **options):
    """Share a training whose second process hears SIGTERM at step `at`; how each process ends."""

    def work(team):
        def on_record(model, record):
            if record.step == at and team.rank == 1:
                signal.raise_signal(signal.SIGTERM)

        try:
            shared_training(team, on_record=on_record, **options)
        except (errors.Stopped, errors.Silent) as end:
            return type(end).__name__, str(end)

    return work


@pytest.mark.slow
def test_saved_by_two_it_goes_on_with_four_and_with_one(shared_training, tmp_path):
    _, whole = shared_training(settings={"eval_interval": 3}, out_dir=tmp_path / "whole")
    run = {"out_dir": tmp_path / "run", "settings": {"eval_interval": 3}}
    leader, other = together(2, interrupted(shared_training, 3, fsdp=True, **run))
    assert leader[0] == "Stopped" and "after 3 of 10 steps, all saved in" in leader[1] and other == ("Silent", "143")
    assert checkpoint.load(tmp_path / "run").step == 3
    ends = together(4, interrupted(shared_training, 6, resume=True, **run))
    assert [end[0] for end in ends] == ["Stopped", "Silent", "Silent", "Silent"]
    shared_training(resume=True, **run)
    end, undisturbed = checkpoint.load(tmp_path / "run"), checkpoint.load(tmp_path / "whole")
    assert farthest(end.history, undisturbed.history) < 1e-5
    assert all(torch.allclose(end.best[name], weight, atol=1e-5) for name, weight in whole.items())
    assert end.identity.shared_by == (
        "2 processes, each with a part of the weights; from step 3: 4 processes; from step 6: one process"
    )
    assert json.loads((tmp_path / "run" / "config.json").read_text())["shared_by"] == end.identity.shared_by


@pytest.mark.slow
@pytest.mark.parametrize("fsdp", [False, pytest.param(True, marks=pytest.mark.torture)])
def test_a_team_that_is_stopped_and_goes_on_ends_as_the_undisturbed_one(shared_training, tmp_path, fsdp):
    """To the last bit, dropout included. Two numbers have the same sum in any order, three have not."""
    options = {"fsdp": fsdp, "sizes": {"dropout": 0.1}}
    together(3, lambda team: shared_training(team, out_dir=tmp_path / "whole", **options))
    together(3, interrupted(shared_training, 5, out_dir=tmp_path / "run", **options))
    together(3, lambda team: shared_training(team, out_dir=tmp_path / "run", resume=True, **options))
    end, whole = checkpoint.load(tmp_path / "run"), checkpoint.load(tmp_path / "whole")
    assert curves(end.history) == curves(whole.history)
    assert all(torch.equal(end.model[name], weight) for name, weight in whole.model.items())


@pytest.mark.slow
def test_only_the_leader_touches_the_folder(shared_training, tmp_path):
    def work(team):
        folder = tmp_path / f"of {team.rank}"
        shared_training(team, out_dir=folder)
        return folder.exists()

    assert together(2, work) == [True, False]


@pytest.mark.slow
def test_a_loss_that_is_no_number_ends_all_with_the_same_sentence(shared_training, monkeypatch):
    def work(team):
        with pytest.raises(RunError) as error:
            shared_training(team, settings={"learning_rate": 1e30, "max_steps": 9})
        return str(error.value)

    first, second = together(2, work)
    assert first == second and "training diverged" in first


@pytest.mark.slow
def test_an_older_run_says_nothing_of_who_shared_it(shared_training, tmp_path):
    shared_training(out_dir=tmp_path / "run")
    identity = checkpoint.load(tmp_path / "run").identity
    before = {name: value for name, value in dataclasses.asdict(identity).items() if name != "shared_by"}
    assert type(identity)(**before).shared_by == "one process"
