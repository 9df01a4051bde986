"""Lesson 00's networks: what they are asked, and where they may look."""

import random

import torch

from helpers.rooms import copying, translating
from helpers.tables import csv_table, read_table
from tools.studies.recurrent import ALIGNED, SENTENCE, Copying, Translating


def test_through_one_vector_nothing_but_the_last_state_is_seen():
    words = torch.tensor([[0, 1, 2, 3]])
    assert copying.Copier(looks_back=False, width=8).see(words).weights[0].argmax(dim=-1).tolist() == [3, 3, 3, 3]
    weights = copying.Copier(looks_back=True, width=8).see(words).weights
    assert weights.min() > 0 and torch.allclose(weights.sum(dim=-1), torch.ones(1, 4))


def test_practised_words_are_at_most_twenty_letters_and_short_ones_come_first():
    torch.manual_seed(1)
    read, written = copying.random_words(0.0)
    assert read.shape[1] <= 2 and torch.equal(read, written.flip(1))
    lengths = {copying.random_words(0.9)[0].shape[1] for _ in range(300)}
    assert lengths == set(range(1, 21))


def test_every_english_word_has_a_german_one_of_its_own():
    dice = random.Random(1)
    meaning = dict(translating.ALL) | {form: english for english, forms in translating.BEGIN.items() for form in forms}
    for _ in range(200):
        german, english = translating.question(dice, dice.random() < 0.5, dice.random() < 0.5)
        assert sorted(meaning[word] for word in german) == sorted(english)
        assert german[-1] in dict(translating.DO)  # the verb is last


def test_the_sentence_that_is_asked_at_the_end_is_never_practised():
    meaning = dict(translating.ALL) | {"Kannst": "Can"}
    english = ["Can", "you", "help", "me", "to", "translate", "this", "sentence"]
    assert [meaning[SENTENCE[place - 1]] for place in ALIGNED] == english
    german, _ = translating.questions(1, SENTENCE)(0.0)
    never = german[0].tolist()
    others, _ = translating.questions(1, [translating.GERMAN[i] for i in never])(0.0)
    assert never in german.tolist() and never not in others.tolist()


def test_what_is_written_from_words_depends_on_the_states_only_through_the_weights():
    model = translating.Translator("words")
    german = torch.tensor([[0, 1, 2]])
    seen = model.see(german)
    assert torch.equal(model(german), model.head(seen.weights @ model.word(german)))


def test_a_run_is_known_again_from_its_stored_line(tmp_path):
    for study in (Copying(), Translating()):
        run = study.plan([])[0]
        (tmp_path / "t.csv").write_text(csv_table([run._asdict()], ["made by: a test"]), "utf-8")
        assert study.run_of(read_table(tmp_path / "t.csv")[1][0]) == run
        assert len(set(study.plan([]))) == len(study.plan([]))
