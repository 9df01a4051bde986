"""The study of counting beside a network on more text and on less."""

import pytest

from helpers.data import BUNDLED_PLAY, CharTokenizer
from helpers.rooms import texts
from helpers.rooms.texts import BESIDE, PYTHON, SHAKESPEARE, Texts


@pytest.mark.slow
def test_each_text_is_learned_in_each_way_and_reported(monkeypatch):
    monkeypatch.setattr(texts, "library", lambda: "def double(x):\n    return x + x\n" * 400)
    monkeypatch.setattr(texts, "HELD_OUT", 1000)
    monkeypatch.setattr(Texts, "sizes", Texts.sizes | {"context_length": 64})
    play = BUNDLED_PLAY.read_text(encoding="utf-8")[:20_000]
    tokenizer = CharTokenizer.from_text(play)
    study = Texts(seeds=1, texts=((SHAKESPEARE, 5000, 2), (PYTHON, 0, 3)))
    lines = study.conduct(tokenizer.encode(play), tokenizer.vocab_size)
    assert [study.run_of(line) for line in lines] == study.plan([]) and len(lines) == 6
    losses = {(line["text"], line["variant"]): line["loss"] for line in lines}
    assert losses[PYTHON, BESIDE] < losses[SHAKESPEARE, BESIDE]  # two lines, four hundred times
    said = study.report(lines)
    assert PYTHON in said and "5,000" in said and "all" in said
