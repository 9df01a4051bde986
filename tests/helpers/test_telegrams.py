"""A tiny world: scenes, questions, their right answers, and what learns from them."""

import pytest
import torch
from torch import nn

from helpers import telegrams
from helpers.telegrams import (
    HERO,
    WORDS,
    accuracy,
    draw_askers,
    fit,
    look_up,
    nearest_words,
    right_answers,
    scenes,
)


@pytest.fixture
def seeded():
    return torch.Generator().manual_seed(1)


class ThingOfCard(nn.Module):
    """Learns which card to take, by one number for each box, and reads its thing box."""

    def __init__(self):
        super().__init__()
        self.knobs = nn.Parameter(torch.ones(3))

    def forward(self, asker, cards):
        boxes = cards.unflatten(2, (3, 32))
        weights = (torch.einsum("ntbc,nc->ntb", boxes, asker) @ self.knobs).softmax(dim=1)
        return torch.einsum("nt,ntc->nc", weights, boxes[:, :, 1])


def cheat(tokens):
    """Reads each answer off the place behind its question, where there is one."""
    behind = torch.cat([tokens, torch.zeros_like(tokens[:, :1])], dim=1)
    return behind[:, 7::2, 32:64]


def words(ids) -> list[str]:
    return [WORDS[i] for i in ids]


def test_each_of_six_gives_once_and_gets_once(seeded):
    for scene in scenes(100, seeded).tolist():
        givers, things, receivers = (set(box) for box in zip(*scene, strict=True))
        assert givers == receivers and len(givers) == len(things) == 6
        assert max(givers) < 8 <= min(things)
        gives = {giver: receiver for giver, _, receiver in scene}
        ring = [scene[0][0]]
        while gives[ring[-1]] != ring[0]:
            ring.append(gives[ring[-1]])
        assert len(ring) == 6  # one ring, not two


def test_three_people_give_twice_and_only_the_place_says_which_was_last(seeded):
    scene = telegrams.repeated_givers(4000, seeded)
    for cards in scene[:100].tolist():
        givers, things, _ = zip(*cards, strict=True)
        assert sorted(givers.count(name) for name in set(givers)) == [2, 2, 2] and len(set(things)) == 6
        assert all(giver < 8 <= thing and receiver != giver and receiver < 8 for giver, thing, receiver in cards)
    chained = (scene[:, :-1, 2] == scene[:, 1:, 0]).float().mean()
    # Who gives next is no likelier to have just got something.
    assert abs(chained - 4 / 5 / 7) < 0.02


@pytest.mark.parametrize("question", ["give", "hero", "maker"])
def test_answers_are_what_the_cards_say(question, seeded):
    scene = scenes(50, seeded)
    askers = draw_askers(question, scene, seeded)
    answers = right_answers(question, scene, askers)
    for cards, names, things in zip(scene.tolist(), askers.tolist(), answers.tolist(), strict=True):
        gives = {WORDS[giver]: WORDS[thing] for giver, thing, _ in cards}
        found = [gives[name if question == "give" else HERO[name]] for name in words(names)]
        assert words(things) == ([telegrams.MAKER[thing] for thing in found] if question == "maker" else found)
        if question != "give":
            assert {name for name in HERO if HERO[name] == WORDS[names[0]]} <= set(gives)


def test_answers_that_need_two_cards_are_what_they_say(seeded):
    scene = scenes(50, seeded)
    for question in ("both", "next", "brew"):
        askers = draw_askers(question, scene, seeded)
        answers = right_answers(question, scene, askers)
        for cards, [name], things in zip(scene.tolist(), askers.tolist(), answers.tolist(), strict=True):
            gives = {giver: thing for giver, thing, _ in cards}
            [friend] = [receiver for giver, _, receiver in cards if giver == name]
            [got] = [thing for _, thing, receiver in cards if receiver == name]
            number = telegrams.THINGS.index(WORDS[gives[name]]) + telegrams.THINGS.index(WORDS[got])
            right = {"both": [gives[name], got], "next": [gives[friend]], "brew": [8 + number % 8]}
            assert things == right[question]


def test_the_last_card_of_a_giver_counts(seeded):
    scene = telegrams.repeated_givers(50, seeded)
    askers = draw_askers("last", scene, seeded)
    answers = right_answers("last", scene, askers)
    for cards, [name], [thing] in zip(scene.tolist(), askers.tolist(), answers.tolist(), strict=True):
        assert {giver: thing for giver, thing, _ in cards}[name] == thing  # later cards overwrite earlier ones


def test_a_tie_between_words_is_no_matter_of_the_last_bit(seeded):
    """A mean of six words is as near to each of them, on every processor."""
    (_, cards), _ = look_up("give", 200, seeded)
    mean = cards[:, :, 32:64].mean(dim=1)
    noise = 1e-7 * torch.randn(mean.shape, generator=seeded)
    assert torch.equal(nearest_words(mean + noise), nearest_words(mean))


@pytest.mark.parametrize("question", ["give", "last"])
def test_a_page_holds_the_cards_and_then_the_question(question, seeded):
    (tokens,), answers = telegrams.page(question, 20, seeded)
    (asker, cards), same = look_up(question, 20, torch.Generator().manual_seed(1))
    assert tokens.shape == (20, 7, 96) and torch.equal(answers, same)
    assert torch.equal(tokens[:, :6], cards) and torch.equal(tokens[:, 6, :32], asker) and not tokens[:, 6, 32:].any()
    giver = nearest_words(cards[:, :, :32])
    assert sorted(set(giver[0].bincount().tolist()) - {0}) == ([2] if question == "last" else [1])


def test_few_scenes_are_always_the_same_and_the_exam_brings_others(seeded):
    def seen(examples):
        return {
            tuple(row.tolist())
            for row in nearest_words(examples("hero", 400, seeded)[0][1].unflatten(2, (3, 32))).flatten(1)
        }

    assert len(seen(telegrams.few(5, 1))) == 5 and seen(telegrams.few(5, 1)) == seen(telegrams.few(5, 1))
    assert not seen(telegrams.few(5, 1)) & seen(telegrams.few(5, 2)) and not seen(telegrams.few(5, 1)) & seen(look_up)


@pytest.mark.slow
def test_fit_learns_from_its_seed_alone():
    first = fit(ThingOfCard, "give", 100)
    torch.manual_seed(99)
    before = torch.get_rng_state()
    assert torch.equal(first.knobs, fit(ThingOfCard, "give", 100).knobs)
    assert torch.equal(before, torch.get_rng_state())
    assert accuracy(first, "give", 100) > 0.99 and not first.training


def test_the_optimizer_is_the_one_that_is_asked_for():
    unmoved = fit(ThingOfCard, "give", steps=3, make_optimizer=lambda knobs, lr: torch.optim.SGD(knobs, lr=0.0))
    assert torch.equal(unmoved.knobs, torch.ones(3)) and not torch.equal(
        fit(ThingOfCard, "give", steps=3).knobs, unmoved.knobs
    )
