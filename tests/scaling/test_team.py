"""The processes of a team find each other, and end together: with one sentence, within the time-out."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import psutil
import pytest
import torch.distributed as dist

from helpers import checkpoint, team
from helpers.commands import train
from helpers.data import BUNDLED_PLAY
from helpers.errors import ConfigError, RunError
from helpers.team import ALONE, gathered, one_voice

ROOT = Path(__file__).parents[2]
FORK = multiprocessing.get_context("fork")


# ---------------------------------------------------------------- finding each other
def test_without_torchrun_a_process_is_alone():
    with one_voice() as store, gathered(store, time_out=1) as found:
        assert store is None and found is ALONE and found.leads
        assert found.largest(3) == 3 and found.from_leader("a") == "a"


def test_what_an_earlier_start_has_left_in_the_store_misleads_nobody():
    store, names = dist.HashStore(), {}
    store.set("greeting of 1", "of one who died")  # and greeted before that

    def meet(rank):
        names[rank] = team._meeting(store, rank, 2, time_out=10)

    leader = threading.Thread(target=meet, args=(0,))
    leader.start()
    time.sleep(0.2)  # so that the leader answers the dead one first
    meet(1)
    leader.join()
    assert names[0] == names[1]


def test_a_process_that_never_arrives_is_missed():
    with pytest.raises(RunError, match="not all of the 2 processes have arrived"):
        team._meeting(dist.HashStore(), 0, 2, time_out=0.2)


# ---------------------------------------------------------------- one sentence
def test_the_first_to_end_says_why_and_the_others_are_silent(monkeypatch):
    store = dist.HashStore()
    monkeypatch.setattr(console, "ignore_stops", lambda: None)
    with pytest.raises(ConfigError), team._said_once(lambda: store):
        raise ConfigError("so")
    with pytest.raises(console.Silent) as end, team._said_once(lambda: store):
        raise ConfigError("so")
    assert end.value.status == 2
    with pytest.raises(console.Silent) as end, team._said_once(lambda: store):
        raise console.Stopped(signal.SIGTERM)
    assert end.value.status == 143


def test_only_errors_of_the_connection_are_called_a_lost_process():
    with pytest.raises(RunError, match="has died, or has not answered for 7 seconds"), team._lost_ones_named(7):
        raise RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer")
    with pytest.raises(RuntimeError, match="shapes"), team._lost_ones_named(7):
        raise RuntimeError("shapes do not fit")


# ---------------------------------------------------------------- torchrun
def torchrun(size, out, *options, restarts=0):
    """Start a training in `size` processes; the command prints into one pipe."""
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", str(size), "--max-restarts", str(restarts)),
            *("-m", "helpers.training", "--preset", "smoke", "--corpus", BUNDLED_PLAY, "--out", out),
            *("--sample-length", "10", "--time-out", "20", *options),
        ],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def processes(running):
    """The training processes, by rank."""
    children = psutil.Process(running.pid).children(recursive=True)
    members = [child for child in children if "helpers.training" in child.cmdline()]
    return sorted(members, key=lambda child: int(child.environ()["RANK"]))


def said(text):
    return [line for line in text.splitlines() if line.startswith(("error: ", "stopped by "))]


def member(rank, start, port, out):
    """What torchrun starts: here, a fork of this process."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TORCHELASTIC_USE_AGENT_STORE="True")
    os.environ.update(TORCHELASTIC_RUN_ID="test", TORCHELASTIC_RESTART_COUNT=str(start))
    sys.stdout = sys.stderr = (out.parent / f"said by {rank} in {start}").open("w", buffering=1)
    options = ["--preset", "smoke", "--corpus", str(BUNDLED_PLAY), "--max-steps", "60", "--sample-length", "10"]
    os._exit(train.main([*options, "--out", str(out), "--time-out", "20"]))


@pytest.mark.slow
def test_a_process_dies_and_the_team_goes_on(tmp_path):
    """Started again with the same store, as by torchrun --max-restarts."""
    out = tmp_path / "run"
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    ends = []
    for start in range(2):
        team = [FORK.Process(target=member, args=(rank, start, store.port, out)) for rank in range(2)]
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # pytest has threads, which rest
            for process in team:
                process.start()
        while start == 0 and not (out / "history.json").exists():
            time.sleep(0.01)
        if start == 0:
            team[1].kill()
        for process in team:
            process.join(60)
        ends.append([process.exitcode for process in team])
    assert ends == [[2, -signal.SIGKILL], [0, 0]]
    first, second = ((tmp_path / f"said by 0 in {start}").read_text() for start in range(2))
    assert "a process of this training has died" in said(first)[0]
    assert "goes on" in second and "60  train" in second and not said(second)
    assert not (tmp_path / "said by 1 in 1").read_text()  # only the leader speaks
    end = checkpoint.load(out)
    assert end.finished and end.identity.shared_by == "2 processes"


@pytest.mark.slow
@pytest.mark.torture
def test_torchrun_starts_the_team_again(tmp_path):
    running = torchrun(2, tmp_path, "--max-steps", "60", restarts=1)
    while not (tmp_path / "history.json").exists():
        time.sleep(0.02)
    processes(running)[1].kill()
    printed, _ = running.communicate(timeout=60)
    assert running.returncode == 0, printed
    assert len(said(printed)) == 1 and "a process of this training has died" in printed and "goes on" in printed
    end = checkpoint.load(tmp_path)
    assert end.finished and end.identity.shared_by == "2 processes"


@pytest.mark.slow
@pytest.mark.torture
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGSTOP])
def test_whatever_ends_one_process_ends_all_with_one_sentence(tmp_path, rank, number):
    running = torchrun(2, tmp_path, "--max-steps", "100000", "--time-out", "5")
    while not (tmp_path / "history.json").exists():
        time.sleep(0.02)
    processes(running)[rank].send_signal(number)
    printed, _ = running.communicate(timeout=60)
    assert running.returncode and len(said(printed)) == 1, printed
    checkpoint.load(tmp_path)


@pytest.mark.slow
@pytest.mark.torture
@pytest.mark.parametrize("options", [["--nonsense"], ["--preset", "x"], ["--temperature", "0"], ["--accumulate", "99"]])
def test_a_bad_option_is_said_once(tmp_path, options):
    running = torchrun(2, tmp_path, *options)
    printed, _ = running.communicate(timeout=60)
    assert running.returncode and len(said(printed)) == 1, printed


@pytest.mark.parametrize(
    ("surroundings", "number", "said_by_it"),
    [
        ({}, signal.SIGTERM, "stopped by SIGTERM: nothing has begun\n"),
        ({"TORCHELASTIC_RUN_ID": "x", "RANK": "0"}, signal.SIGTERM, ""),  # another has ended, and said why
        ({"TORCHELASTIC_RUN_ID": "x", "RANK": "0"}, signal.SIGINT, "stopped by Ctrl-C: nothing has begun\n"),
        ({"TORCHELASTIC_RUN_ID": "x", "RANK": "1"}, signal.SIGINT, ""),
    ],
)
def test_of_processes_that_are_stopped_as_they_start_one_speaks_at_most(surroundings, number, said_by_it):
    program = f"import sys, os, signal; sys.argv = ['-m']; import helpers; os.kill(os.getpid(), {int(number)})"
    ended = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | surroundings, capture_output=True, text=True, timeout=20
    )
    assert ended.stderr == said_by_it and ended.returncode == 128 + number
