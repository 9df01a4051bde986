import matplotlib.pyplot as plt
import pytest
import torch

from helpers import telegrams
from helpers.errors import ConfigError
from pictures import plotting, scoreboard
from pictures.scoreboard import Row, from_csv, read_line, to_csv

DOT = Row("01", "dot product", "what does romeo give?", (0.16, 0.17), (0.5, 0.51))
VALUE = Row("03", "value", "and who made it?", (0.28, 0.51, 0.26), (1.0, 1.0, 0.99))


@pytest.fixture
def shown(monkeypatch):
    plt.switch_backend("agg")
    texts = []
    monkeypatch.setattr(plotting, "display", lambda data, **options: texts.append(data["text/plain"]))
    yield texts
    plt.close("all")


def test_a_row_is_read_back_from_its_line_and_from_its_table():
    line = "03 value | and who made it? | without 0.28 0.51 0.26 | with 1.00 1.00 0.99"
    assert str(VALUE) == line and read_line(line) == VALUE and read_line(f"  {DOT}\n") == DOT
    with pytest.raises(ConfigError, match="not a row of the scoreboard"):
        read_line("04 m | q | without | with 1")
    assert to_csv([DOT]).splitlines()[1] == "01,dot product,what does romeo give?,0.16,0.50"
    assert from_csv(to_csv([DOT, VALUE])) == [DOT, VALUE]


def test_only_rows_of_earlier_notebooks_are_added(shown, tmp_path, capsys):
    later = Row("07", "two layers", "?", (0.3,), (1.0,))
    stale = Row("03", "value", VALUE.question, (0.0,), (0.1,))
    (tmp_path / "rows.csv").write_text(to_csv([DOT, stale, later]))
    scoreboard.scoreboard(VALUE, measured=tmp_path / "rows.csv")
    assert capsys.readouterr().out == f"{VALUE}\n"
    assert shown == [
        "The scoreboard, worst to best seed: dot product 0.16–0.17 without it and 0.50–0.51 with it; "
        "value 0.26–0.51 without it and 0.99–1.00 with it."
    ]


def test_every_mark_of_a_blind_guess_is_of_a_stored_row():
    rows = from_csv(scoreboard.STORED.read_text(encoding="utf-8"))
    assert scoreboard.BLIND.keys() <= {row.question for row in rows}


@pytest.mark.parametrize("question", ["hero", "last", "both"])
def test_a_blind_guess_is_as_often_right_as_its_mark_says(question):
    n, dice = 20_000, torch.Generator().manual_seed(1)
    scene = telegrams.repeated_givers(n, dice) if question == "last" else telegrams.scenes(n, dice)
    answers = telegrams.right_answers(question, scene, telegrams.draw_askers(question, scene, dice))
    # Of six cards, in any order.
    things = scene[:, :, 1].gather(1, torch.rand(n, 6, generator=dice).argsort(dim=1))
    right = (things[:, : answers.shape[1]] == answers).all(dim=1).double().mean().item()
    mark = scoreboard.BLIND["what does romeo give and get?"] if question == "both" else scoreboard.ANY_CARD
    assert right == pytest.approx(mark, abs=0.01)
