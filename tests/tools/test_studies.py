"""`python -m tools.studies`: its table says how it was made, and a run that has ended is kept."""

import dataclasses
import re
import subprocess
import sys

import pytest
import torch

from helpers.data import load_corpus
from helpers.errors import RunError
from helpers.rooms.experiments import REPORT, Comparison, VariantRun
from helpers.rooms.parts import WHOLE
from helpers.rooms.study import Variant
from helpers.tables import MEASURED, csv_table, read_table
from tools.studies import __main__ as tool
from tools.studies import times

TEXT = "to be, or not to be: that is the question\n" * 60
SIZES = dict(context_length=8, n_layer=1, n_head=1, n_embd=8)
SMALL = Comparison({WHOLE: Variant(), "other": Variant()}, SIZES, (5,), rates=(0.01,), seeds=2)


class InProcess:
    """Stands in for the processes of a study: a run is made where it is asked for."""

    def __init__(self, *_, **__):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def submit(self, function, *arguments):
        job = tool.Future()
        job.set_result(function(*arguments))
        return job


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A study "parts" of two variants, a text, and options that keep all in `tmp_path`."""
    monkeypatch.setitem(tool.STUDIES, "parts", SMALL)
    monkeypatch.setattr(tool, "ProcessPoolExecutor", InProcess)
    (tmp_path / "text.txt").write_text(TEXT, "utf-8")
    folders = ["--out", str(tmp_path), "--growing", str(tmp_path / "growing")]
    return ["parts", "--corpus", str(tmp_path / "text.txt"), *folders]


@pytest.mark.slow
def test_the_table_moves_when_it_is_whole_and_says_how_it_was_made(small, capsys, tmp_path):
    tool.main(small)
    output = capsys.readouterr().out
    assert not (tmp_path / "growing" / "parts.csv").exists()
    comments, lines = read_table(tmp_path / "parts.csv")
    assert [comment.split()[0] for comment in comments] == ["made", "Python", "corpus:", "budget:"]
    run = VariantRun(5, "other", 0.01, 2, REPORT)
    expected = SMALL.measure(run, load_corpus(tmp_path / "text.txt"))
    row = next(line for line in lines if SMALL.run_of(line) == run)
    assert {**row, "seconds": 0} == {**expected, "seconds": 0} and len(lines) == 4

    tool.main([*small, "--verdicts"])
    assert output.endswith(capsys.readouterr().out)


@pytest.mark.slow
def test_a_run_that_has_ended_is_kept_and_not_made_again(small, tmp_path):
    path = tmp_path / "growing" / "parts.csv"
    path.parent.mkdir()
    run = VariantRun(5, WHOLE, 0.01, 1, REPORT)
    line = {**run._asdict(), "parameters": 1, "loss": 77.0, "last_loss": 77.0, "seconds": 0.1}
    comments = tool.comments_of("parts", load_corpus(tmp_path / "text.txt"), "cpu")
    path.write_text(csv_table([line], comments), "utf-8")
    tool.main(small)
    _, lines = read_table(tmp_path / "parts.csv")
    assert lines[0] == line and [row["loss"] == 77.0 for row in lines] == [
        True,
        False,
        False,
        False,
    ]


@pytest.mark.slow
def test_a_table_that_grows_where_it_is_stored_stays(small, tmp_path):
    tool.main([*small, "--growing", str(tmp_path)])
    assert len(read_table(tmp_path / "parts.csv")[1]) == 4


@pytest.mark.slow
def test_a_study_with_more_runs_keeps_those_of_its_table_and_says_whose_they_are(small, monkeypatch, tmp_path):
    tool.main(small)
    before, lines = read_table(tmp_path / "parts.csv")
    lines[0]["loss"] = 77.0  # to know it by
    left_behind = {**lines[0], **VariantRun(5, WHOLE, 0.02, 1, REPORT)._asdict()}  # of a shorter search
    elsewhere = [before[0].replace("at commit ", "at commit an earlier one, not "), *before[1:]]
    (tmp_path / "parts.csv").write_text(csv_table([*lines, left_behind], elsewhere), "utf-8")
    monkeypatch.setitem(tool.STUDIES, "parts", dataclasses.replace(SMALL, seeds=3))
    tool.main([*small, "--extend"])
    comments, longer = read_table(tmp_path / "parts.csv")
    assert longer[0]["loss"] == 77.0 and len(longer) == len(lines) + 2
    assert comments[0] == before[0] and comments[-1] == f"earlier lines {elsewhere[0]}"

    elsewhere[1] += "?"  # another version, or another machine
    (tmp_path / "parts.csv").write_text(csv_table(lines, elsewhere), "utf-8")
    with pytest.raises(RunError, match="the stored table was made otherwise"):
        tool.main([*small, "--extend"])


def test_runs_of_another_commit_text_or_budget_are_refused_and_left_as_they_are(small, tmp_path):
    path = tmp_path / "growing" / "parts.csv"
    path.parent.mkdir()
    line = {**VariantRun(5, WHOLE, 0.01, 1, REPORT)._asdict(), "loss": 1.0, "last_loss": 1.0}
    comments = tool.comments_of("parts", load_corpus(tmp_path / "text.txt"), "cpu")
    for place in (0, 2, 3):
        changed = [comment + "?" if i == place else comment for i, comment in enumerate(comments)]
        path.write_text(csv_table([line], changed), "utf-8")
        with pytest.raises(RunError, match=r"has runs made otherwise .*: move it away"):
            tool.main(small)
        assert path.read_text("utf-8") == csv_table([line], changed)


@pytest.mark.weekly
def test_a_process_of_its_own_makes_the_runs(tmp_path):
    """That this text is too short, only the run's process notices: it has found what to call."""
    (tmp_path / "text.txt").write_text("to be, or not to be", "utf-8")
    options = ["--corpus", str(tmp_path / "text.txt"), "--growing", str(tmp_path / "growing")]
    options += ["--out", str(tmp_path), "--jobs", "1"]
    process = subprocess.run(
        [sys.executable, "-m", "tools.studies", "claims", *options],
        capture_output=True,
        text=True,
        cwd=tool.ROOT,
    )
    assert process.returncode and "the corpus is too short" in process.stderr, process.stderr


@pytest.mark.parametrize("softmax", [times.by_definition, times.less_the_largest])
def test_softmax_written_out_is_the_librarys(softmax):
    scores = 10 * torch.randn(3, 8, 8, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(softmax(scores), scores.softmax(dim=-1))


def test_ours_and_theirs_take_turns_and_the_first_round_does_not_count():
    now, calls = [0.0], []

    def takes(name, *seconds):
        remaining = iter(seconds)

        def run():
            calls.append(name)
            now[0] += next(remaining)

        return run

    ours, theirs = takes("ours", 99.0, 1.0, 3.0, 2.0), takes("theirs", 0.5, 4.0, 5.0, 4.0)
    result = times.race(ours, theirs, rounds=3, clock=lambda: now[0])
    assert calls == ["ours", "theirs"] * 4
    assert result == {
        "ratio": 0.5,
        "low": 0.25,
        "high": 0.6,
        "seconds": 2.0,
        "their_seconds": 4.0,
        "rounds": 3,
    }


def test_the_stored_times_are_those_of_all_pairs():
    comments, lines = read_table(MEASURED / "times.csv")
    assert re.match(r"made by: python -m tools\.studies[ .]times, at commit ", comments[0])
    assert "uncommitted" not in comments[0]
    pairs = [(ours, theirs) for races in times.RACES for ours, _, theirs, _ in races(quick=False)]
    assert [(line["ours"], line["theirs"]) for line in lines] == pairs


def test_times_are_taken_of_pairs_that_compute_and_only_whole_ones_are_stored(capsys):
    stored = (MEASURED / "times.csv").read_bytes()
    times.main(["--quick"])
    output = capsys.readouterr().out.splitlines()
    assert len(output) == 12 and all(" / " in line for line in output)
    assert (MEASURED / "times.csv").read_bytes() == stored
