"""Processes that a notebook starts: what they print, who is who, and how they end."""

import psutil
import pytest

from helpers.errors import RunError
from helpers.rooms.torchrun import Torchrun, until

PROGRAM = """
import os, sys, time
rank = os.environ["RANK"]
print("rank", rank, "of", os.environ["WORLD_SIZE"], flush=True)
if os.path.exists("fail") and rank == "1":
    sys.exit("this one fails")
while not os.path.exists("go on"):
    time.sleep(0.05)
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    return "program.py"


@pytest.mark.weekly
def test_all_are_started_are_known_by_rank_and_end(program, tmp_path):
    with Torchrun(2, program) as started:
        until(lambda: "rank 0 of 2" in started.printed() and "rank 1 of 2" in started.printed())
        assert started.member(0).pid != started.member(1).pid
        with pytest.raises(RunError, match="no process with rank 2"):
            started.member(2)
        with pytest.raises(RunError, match=r"still at work after 0.1 seconds"):
            started.wait(0.1)
        (tmp_path / "go on").touch()
        assert started.wait().count("of 2") == 2


@pytest.mark.slow
def test_one_that_fails_is_told_and_nobody_is_left(program, tmp_path):
    (tmp_path / "fail").touch()
    with Torchrun(2, program) as started:
        until(lambda: "rank 0 of 2" in started.printed())
        member = psutil.Process(started.member(0).pid)
        with pytest.raises(RunError, match=r"(?s)torchrun ended with status 1: .*this one fails"):
            started.wait()
    assert not member.is_running()


@pytest.mark.weekly
def test_who_leaves_the_block_leaves_nobody_behind(program):
    with Torchrun(2, program) as started:
        until(lambda: "rank 0 of 2" in started.printed() and "rank 1 of 2" in started.printed())
        members = [psutil.Process(started.member(rank).pid) for rank in (0, 1)]
    gone, alive = psutil.wait_procs(members, timeout=5)
    assert len(gone) == 2 and not alive


def test_what_never_happens_is_not_waited_for_for_ever():
    with pytest.raises(RunError, match=r"has not happened within 0.05 seconds"):
        until(lambda: False, seconds=0.05)
