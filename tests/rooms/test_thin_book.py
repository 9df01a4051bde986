"""Lesson 05's thin book: which card has the answer, what is taken away, and whose doing a lead is."""

import torch

from helpers import telegrams
from helpers.rooms import thin_book


def test_the_needed_card_is_the_one_on_which_the_hero_gives_the_answer():
    scenes = thin_book.book(3)
    assert scenes.needed.sum(dim=1).tolist() == [1] * 50
    card = scenes.cards[scenes.needed].view(50, 3, 32)
    giver, thing, _ = telegrams.nearest_words(card).unbind(dim=1)
    asks = telegrams.nearest_words(scenes.asker)
    assert [telegrams.HERO[telegrams.NAMES[i]] for i in asks] == [telegrams.NAMES[i] for i in giver]
    assert torch.equal(thing, scenes.answers)


def test_a_book_holds_the_scenes_that_its_student_reads():
    scenes = thin_book.book(5)
    (asker, cards), answers = telegrams.few(50, 5)("hero", 400, torch.Generator().manual_seed(0))
    known = {(*a.tolist(), *c.flatten().tolist()) for a, c in zip(scenes.asker, scenes.cards, strict=True)}
    assert {(*a.tolist(), *c.flatten().tolist()) for a, c in zip(asker, cards, strict=True)} == known
    assert len(answers) == 400


def test_whoever_reads_the_needed_card_is_right_until_it_is_gone():
    def reads(asker, cards):
        needed = thin_book.needed(asker, cards)
        return (needed[:, None].float() @ cards[:, :, 32:64])[:, 0]

    scenes = thin_book.book(1)
    assert thin_book.without(reads, scenes, scenes.needed.roll(1, dims=1)) == 1
    assert thin_book.without(reads, scenes, scenes.needed) == 0


def test_what_the_cards_add_is_the_lead_over_the_best_rival():
    scenes = thin_book.book(2, 200)
    draw = torch.Generator().manual_seed(0)
    weights = torch.rand(200, 6, generator=draw).softmax(dim=-1)
    values = torch.randn(200, 6, 32, generator=draw)
    said = telegrams.SHARPNESS * (weights[:, None] @ values)[:, 0] @ telegrams.VECTORS.T
    leads = thin_book.leads(weights, values, scenes)
    assert 5 < (leads.sum(dim=1) > 0).sum() < 100  # some are right, most aren't
    for row, right, added in zip(said, scenes.answers, leads, strict=True):
        others = torch.cat([row[:right], row[right + 1 :]])
        assert torch.isclose(added.sum(), row[right] - others.max(), atol=1e-4)
