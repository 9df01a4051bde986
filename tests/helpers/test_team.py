"""However many processes share a training, it is the same one; they end and go on together."""

import dataclasses
import signal
from datetime import timedelta

import pytest
import torch
from members import together
from run_folder import COUNTED, MUON, TODAY, end_of

from helpers import team
from helpers.checkpoint import load, settings_of
from helpers.data import BUNDLED_PLAY, load_corpus, split
from helpers.errors import ConfigError, RunError, Stopped
from helpers.presets import choose_preset
from helpers.rooms.torchrun import Torchrun, until
from helpers.training import train

KINDS = {
    "plain": ({}, {}),
    "today's, by Muon in windows": (TODAY, MUON),
    "beside counts": (COUNTED, {}),
}


@pytest.fixture
def shared(go, fresh):
    """Trains in a team: each process's losses and weights. A batch of 7 has unequal parts."""

    def run(processes=1, sizes=None, dropout=0.0, **settings):
        def work():
            model = fresh(dropout=dropout, **(sizes or {}))
            history = go(model=model, out_dir=None, settings={"batch_size": 7} | settings)
            return history.column("val_loss") + history.column("train_loss"), model.state_dict()

        return together(processes, work) if processes > 1 else [work()]

    return run


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_one_two_and_four_processes_are_one_training(shared, kind):
    sizes, settings = KINDS[kind]
    rounding = 1e-3 if settings else 1e-5  # Muon computes in bfloat16
    ((losses, weights),) = shared(1, sizes, **settings)
    for processes in (2, 4):
        for its_losses, its_weights in shared(processes, sizes, **settings):
            assert its_losses == pytest.approx(losses, abs=rounding)
            off, size = (
                torch.cat([x.flatten().float() for x in tensors])
                for tensors in (
                    [its_weights[name] - weight for name, weight in weights.items() if weight.is_floating_point()],
                    [weight for weight in weights.values() if weight.is_floating_point()],
                )
            )
            assert off.norm() < rounding * size.norm() * (10 if settings else 1)


@pytest.mark.slow
def test_with_dropout_processes_and_pieces_are_the_same_parts(shared):
    """Four parts: of four processes, of two with two pieces each, of one with four."""
    four, two, one = (shared(n, dropout=0.3, accumulate=4 // n)[0][0] for n in (4, 2, 1))
    assert two == pytest.approx(one, abs=1e-5) and four == pytest.approx(one, abs=1e-5)
    assert shared(1, dropout=0.3)[0][0] != pytest.approx(one, abs=1e-3)


@pytest.mark.slow
def test_whichever_is_asked_to_stop_all_stop_after_the_same_step_and_go_on(go, tmp_path):
    def stopped():
        def ask(model, record):
            if record.step == 4 and team.rank() == 1:
                signal.raise_signal(signal.SIGTERM)

        with pytest.raises(Stopped) as stop:
            go(on_record=ask)
        return str(stop.value)

    messages = together(2, stopped)
    assert messages[0] == messages[1] and messages[0].startswith(
        "stopped by SIGTERM: after 4 of 12 steps, all saved in"
    )
    together(2, lambda: go(resume=True) and None)
    together(2, lambda: go(out_dir=tmp_path / "whole") and None)
    assert end_of(tmp_path / "run") == end_of(tmp_path / "whole")
    assert load(tmp_path / "run").about["shared_by"] == "2 processes"


@pytest.mark.weekly  # scaling_out kills one of two in every test
def test_one_is_killed_and_torchrun_starts_both_again(tmp_path):
    """kill -9; the weights end as those of two that nobody has disturbed, to the last bit."""
    command = [
        "-m",
        "helpers.training",
        "--preset",
        "smoke",
        "--corpus",
        BUNDLED_PLAY,
        "--max-steps",
        "60",
    ]
    with Torchrun(2, *command, "--out", tmp_path / "killed", max_restarts=1) as started:
        until(lambda: "step    20" in started.printed())
        started.member(rank=1).kill()
        printed = started.wait()
    assert printed.count("a process of this training has died") == 1 and "and goes on" in printed

    def whole():
        corpus, preset = (
            load_corpus(BUNDLED_PLAY),
            choose_preset("smoke", max_steps=60, device="cpu"),
        )
        tokens = split(corpus.tokens, 32)
        torch.manual_seed(1)
        options = {"corpus": corpus, "preset": "smoke", "out_dir": tmp_path / "whole"}
        train(
            preset.build(corpus.tokenizer.vocab_size, tokens[0]),
            *tokens,
            preset.training,
            **options,
        )

    together(2, whole)
    assert end_of(tmp_path / "killed") == end_of(tmp_path / "whole")


@pytest.mark.slow
def test_processes_that_were_started_otherwise_refuse_to_begin(fresh, tokens, quick):
    """As when one machine has another text."""

    def begin():
        other = tokens[0].flip(0) if team.rank() else tokens[0]
        with pytest.raises(ConfigError, match="the processes were started otherwise: their text differs"):
            train(fresh(), other, tokens[1], quick)

    together(2, begin)


def test_without_torchrun_a_process_is_alone(fresh, tokens, quick):
    with team.connected():
        assert (team.rank(), team.size()) == (0, 1) and team.is_leader() and team.broadcast("a") == "a"
        assert team.total(torch.tensor(3)) == 3
        team.refuse_differences(settings_of(fresh(), quick, *tokens))


def test_each_process_gets_a_gpu_of_its_own(monkeypatch):
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("LOCAL_RANK", "1")
    for there, chosen in ((True, "cuda:1"), (False, "auto")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert team.own_device("auto") == chosen and team.own_device("cpu") == "cpu"


def test_processes_that_compute_on_cpus_need_no_gpu_each(monkeypatch):
    """Two of them on a machine with one GPU: the second has none to choose."""
    devices = []
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", devices.append)
    monkeypatch.setattr(team.dist, "rendezvous", lambda *_, **__: iter([(None, 1, 2)]))
    monkeypatch.setattr(team.dist, "PrefixStore", lambda *_: None)
    backends = []
    monkeypatch.setattr(team.dist, "init_process_group", lambda backend, **_: backends.append(backend))
    for device in ("cpu", "auto"):
        team._connect(timedelta(seconds=1), device)
    assert backends == ["gloo", "cpu:gloo,cuda:nccl"] and devices == [1]


def test_only_errors_of_the_connection_are_called_a_lost_process(monkeypatch):
    for name, value in {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "0",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(team, "SIGNALS", [])
    monkeypatch.setattr(team.dist, "TCPStore", lambda *_: None)
    monkeypatch.setattr(team.dist, "init_process_group", lambda *_, **__: None)
    with (
        pytest.raises(RunError, match="has died, or has not answered for 7 seconds"),
        team.connected(7),
    ):
        raise RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer")
    with pytest.raises(RuntimeError, match="shapes"), team.connected(7):
        raise RuntimeError("shapes do not fit")


def test_the_number_of_parts_may_change_when_a_run_goes_on(fresh, tokens, quick):
    one, other = (settings_of(fresh(), dataclasses.replace(quick, accumulate=n), *tokens) for n in (1, 2))
    assert {name for name in one if one[name] != other[name]} == {"accumulate"}


@pytest.mark.weekly
def test_a_restart_goes_on_with_no_run_of_an_earlier_launch(tmp_path):
    """It is refused as it was the first time, and the run stays as it is."""
    command = ["-m", "helpers.training", "--preset", "smoke", "--corpus", BUNDLED_PLAY]
    command += ["--max-steps", "4", "--out", tmp_path]
    with Torchrun(2, *command) as started:
        started.wait()
    before = end_of(tmp_path)
    with Torchrun(2, *command, max_restarts=1) as started:
        until(lambda: started.printed().count("holds a run already") == 2)
    assert end_of(tmp_path) == before
