"""What readers build is judged by what it does: neither the luck of its first numbers nor how it is written counts."""

from pathlib import Path

import pytest
import torch
from exercise_answers import module_at
from gpt_variants import Heads

import exercises
from exercises.graders import building, layers
from exercises.judge import Built

pytestmark = pytest.mark.usefixtures("unchecked")  # it asks thousands of wrong answers
ANSWERS = Path(__file__).parents[1] / "answers"
LABELS = [label for label, asked in exercises.exercises().items() if isinstance(asked, Built)]
WRONG, RIGHT = (
    {
        label: answers
        for path in sorted([*ANSWERS.glob("*_built.py"), *ANSWERS.glob("*_training.py"), *ANSWERS.glob("*_writing.py")])
        for label, answers in getattr(module_at(path), name).items()
    }
    for name in ("WRONG", "RIGHT")
)


def each(table):
    return [(label, number) for label, answers in table.items() for number in range(len(answers))]


def with_luck(answer, seed):
    """The same answer, which draws other numbers whenever it is called."""
    if isinstance(answer, tuple):
        return tuple(with_luck(part, seed) for part in answer)
    if not callable(answer) or hasattr(answer, "seen_by"):  # a repaired program draws with a seed of its own
        return answer

    def lucky(*inputs, **named):
        torch.rand(seed)
        return answer(*inputs, **named)

    return lucky


def test_every_exercise_to_build_has_wrong_and_right_answers():
    assert list(WRONG) == list(RIGHT) == LABELS
    assert all(len({words for words, _ in WRONG[label]}) >= 8 and len(RIGHT[label]) >= 5 for label in LABELS)


@pytest.mark.weekly
@pytest.mark.parametrize(("label", "number"), each(WRONG))
def test_a_mistake_is_named_whatever_numbers_it_begins_with(label, number, verdict):
    words, answer = WRONG[label][number]
    for seed in (1, 20, 300):
        said = verdict(label, with_luck(answer, seed))
        assert said.startswith("not yet, ") and words in said


@pytest.mark.weekly
@pytest.mark.parametrize(("label", "number"), each(RIGHT))
def test_no_luck_refuses_what_is_right(label, number, verdict):
    for seed in range(1, 100):
        assert verdict(label, with_luck(RIGHT[label][number], seed)) == "right"


@pytest.mark.parametrize("label", LABELS)
def test_the_reader_s_own_seed_changes_no_verdict_and_is_left_alone(label, verdict):
    words, answer = WRONG[label][0]
    said = set()
    for seed in (0, 1):
        torch.manual_seed(seed)
        said.add(verdict(label, answer))
        assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(seed)))
    assert len(said) == 1 and words in said.pop()


def test_a_class_that_never_comes_back_is_stopped(verdict, monkeypatch):
    class Endless(Heads):
        def forward(self, x):
            while True:
                x = x + 1

    monkeypatch.setattr(exercises, "SECONDS", 0.2)
    assert verdict("6g", Endless).startswith("not yet, it is still at work after 0.2 seconds")


def test_heads_are_counted_by_what_comes_out():
    for H in (1, 2, 3, 4, 6, 12):
        module = Heads(12, H)
        building.stir(module)
        assert layers.number_of_heads(module, 12) == H


def test_a_question_follows_what_does_not_hold_as_a_sentence():
    for said, told in (("it is wrong", "it is wrong. Why?"), ("is it right?", "is it right? Why?")):
        with pytest.raises(building.CheckError) as error, building.asking("Why?"):
            raise building.CheckError(said)
        assert str(error.value) == told
