"""The studies of lessons 03 to 09: their networks are the lessons', and each hides what its name says."""

import re

import nbformat
import pytest
import torch

from helpers import checks, presets, telegrams
from helpers.attention import attention
from helpers.counted import CountedConfig
from helpers.data import BUNDLED_PLAY, load_corpus, split
from helpers.gpt import GPT, GPTConfig
from helpers.models import build_gpt
from helpers.optim import TrainConfig
from helpers.rooms import thin_book
from helpers.rooms.experiments import CHOOSE
from helpers.rooms.heads import loss_without
from helpers.rooms.museum_curves import Museum
from helpers.rooms.towers import tower
from helpers.tables import csv_table, read_table
from helpers.training import train
from tools.lessons import named
from tools.studies import heads, law, networks, norms, reward, sampling, tokens
from tools.studies import presets as presets_study
from tools.studies.__main__ import STUDIES, measure
from tools.studies.asking import MIRRORS, Looked, Mirror, Scored, Wide
from tools.studies.law import BATCH, LAYERS, WIDTHS, Law, T
from tools.studies.many_heads import Guesser as HeadsGuesser
from tools.studies.many_heads import TwoAnswers
from tools.studies.masks import Guesser
from tools.studies.masks import losses as losses_of
from tools.studies.norms import Norms, Rated
from tools.studies.replacing import STARTS, Towers, at_the_start, pages
from tools.studies.sampling import Sampling
from tools.studies.thin_book import Student, students

INPUTS, ANSWERS = telegrams.look_up("hero", 200, torch.Generator().manual_seed(0))
WEIGHTS = torch.full((200, 1, 6), 1 / 6)


# ---------------------------------------------------------------- 05, the thin book
def test_the_student_is_attention():
    student = Student().eval()
    asker, cards = INPUTS
    context, _ = attention(student.W_query(asker)[:, None], student.W_key(cards), student.W_value(cards))
    checks.close(student(asker, cards), context[:, 0], tolerance=1e-6)


@pytest.mark.parametrize("hidden, on_needed, on_others", [
    ("looks", True, True), ("the needed card", True, False), ("all other cards", False, True),
])  # fmt: skip
def test_looks_are_hidden_at_the_cards_that_are_named(hidden, on_needed, on_others):
    torch.manual_seed(0)
    dropped = students(hidden, 0.5)().looks(WEIGHTS, *INPUTS)[:, 0]
    needed = thin_book.needed(*INPUTS)
    for places, is_dropped in ((needed, on_needed), (~needed, on_others)):
        zeros = (dropped[places] == 0).float().mean()
        assert 0.3 < zeros < 0.7 if is_dropped else zeros == 0


def test_shaken_looks_are_as_far_from_what_they_were_as_dropped_ones_and_never_gone():
    torch.manual_seed(0)
    shaken, dropped = (students(hidden, 0.25)().looks(WEIGHTS, *INPUTS) for hidden in ("looks, shaken", "looks"))
    assert shaken.min() > 0 and dropped.min() == 0
    assert torch.isclose((shaken - WEIGHTS).std(), (dropped - WEIGHTS).std(), rtol=0.1)


def test_whole_words_are_gone_or_whole_and_a_look_loses_single_numbers():
    torch.manual_seed(0)
    boxes = students("whole words", 0.25)().words(torch.ones(500, 96)).view(500, 3, 32)
    assert torch.equal(boxes.amin(dim=2), boxes.amax(dim=2)) and 0.2 < (boxes[:, :, 0] == 0).float().mean() < 0.3
    student = students("numbers of looks", 0.5)()
    numbers = student.brought(torch.ones(500, 6, 32))
    assert 0.4 < (numbers == 0).float().mean() < 0.6 and ((numbers == 0).any(dim=2) & (numbers > 0).any(dim=2)).all()
    checks.close(student.eval()(*INPUTS), (weights_of(student) @ student.W_value(INPUTS[1]))[:, 0], tolerance=1e-5)


def weights_of(student):
    query, key = student.W_query(INPUTS[0])[:, None], student.W_key(INPUTS[1])
    return attention(query, key, student.W_value(INPUTS[1]))[1]


def test_nothing_is_hidden_in_evaluation():
    for hidden in ("looks", "words", "whole words", "noise on words", "looks, shaken", "the needed card"):
        student = students(hidden, 0.25)().eval()
        assert torch.equal(student(*INPUTS), student(*INPUTS))


# ---------------------------------------------------------------- 03, the mirror and the root
@pytest.mark.parametrize("kind", MIRRORS)
def test_a_mirror_scores_both_ways_alike(kind):
    people = telegrams.embed(torch.arange(8))
    table = Mirror(kind).table(people, people)
    assert torch.allclose(table, table.T, atol=1e-6) == (kind != "two matrices")


def test_a_hidden_own_card_gets_no_weight():
    mirror = Mirror("own card hidden")
    asker, cards = INPUTS
    own = (cards[:, :, :32] * asker[:, None]).sum(dim=-1) > 0.5
    things = telegrams.nearest_words(cards[own][:, 32:64])
    said = mirror(asker, cards) @ telegrams.VECTORS.T
    assert said.gather(1, things[:, None]).abs().max() < 1e-6


def test_the_root_divides_and_a_start_multiplies_twice():
    def scores(*settings):
        torch.manual_seed(0)
        return Wide(*settings).scores(*INPUTS)

    plain = scores(64, 1.0, False)
    checks.close(scores(64, 1.0, True), plain / 8, tolerance=1e-6)
    checks.close(scores(64, 4.0, False), 16 * plain, tolerance=1e-5)


# ---------------------------------------------------------------- 04, masks
def test_only_a_model_with_a_mask_in_each_layer_is_causal():
    tokens = torch.randint(9, (2, 16), generator=torch.Generator().manual_seed(0))
    for masked in ([True], [True, True]):
        torch.manual_seed(0)
        checks.causal(Guesser(9, masked), tokens)
    for masked in ([False], [True, False], [False, True]):
        torch.manual_seed(0)
        with pytest.raises(AssertionError):
            checks.causal(Guesser(9, masked), tokens)


def test_without_places_letters_lie_in_a_bag():
    torch.manual_seed(0)
    model, tokens = Guesser(9, [False], places=False), torch.arange(9)[None]
    turned = torch.tensor([8, 3, 5, 0, 1, 7, 6, 2, 4])
    checks.close(model(tokens)[:, turned], model(tokens[:, turned]), tolerance=1e-5)


def test_covering_changes_nothing_behind_a_mask():
    x, y = torch.randint(9, (2, 50, 16), generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    model = Guesser(9, [True])
    checks.close(losses_of(model, x, y, covered=True), losses_of(model, x, y), tolerance=1e-5)


# ---------------------------------------------------------------- 06, several heads
@pytest.mark.parametrize("behind", ["nothing", "a matrix", "two matrices", "an MLP"])
def test_only_the_bend_tells_an_mlp_from_matrices(behind):
    """What stands behind one head is linear in its context, unless there is a bend."""
    torch.manual_seed(0)
    part = TwoAnswers(1, behind).behind
    x, y = torch.randn(2, 5, 64)
    straight = torch.allclose(part(x + y) - part(y), part(x) - part(torch.zeros(64)), atol=1e-5)
    assert straight == (behind != "an MLP")


def test_heads_share_a_width():
    """One head or four: as many parameters, and cards are looked at by each."""
    sizes = [sum(p.numel() for p in HeadsGuesser(65, heads, 2, mlp=True).parameters()) for heads in (1, 4)]
    assert sizes[0] == sizes[1]
    network = TwoAnswers(2, "nothing")
    network(*INPUTS)
    assert network.weights.shape == (200, 2, 1, 6)


# ---------------------------------------------------------------- 07, layers that replace
@pytest.mark.parametrize("adds", [True, False])
def test_towers_side_by_side_are_the_lessons_each_with_numbers_of_its_own(adds):
    torch.manual_seed(0)
    together = Towers(3, adds, networks=2)
    x, _ = pages("give", 2, 5, torch.Generator().manual_seed(0))
    for network in (0, 1):
        alone = tower(3, adds)()
        for layer, looks in enumerate(part for part in alone.modules() if hasattr(part, "W_out")):
            for name in ("query", "key", "value", "out"):
                matrix = getattr(together, name)[layer, network].detach()
                getattr(looks, f"W_{name}").weight.data = matrix.T
        checks.close(together(x)[network], alone(x[network]), tolerance=1e-5)


def test_starts_are_as_large_as_their_names_say():
    """Six layers keep a gradient, or lose all but a thousandth of it."""
    found = {}
    for name, start in STARTS.items():
        torch.manual_seed(0)
        towers = Towers(6, adds=False, networks=4)
        start(towers)
        found[name] = at_the_start(towers)
    assert found["PyTorch's"]["gradient"] < 0.005 < 0.1 < found["larger"]["gradient"]
    assert found["handing on"]["differ"] < 1e-3 and found["own line"]["differ"] > 0.3


# ---------------------------------------------------------------- 07, norms
@pytest.mark.slow
def test_norms_hold_a_stream_that_is_far_too_loud(monkeypatch):
    """Of two models whose letters are a thousand times as large, the one without norms is far surer, and wrong."""
    build = norms.GPT

    def loud(config):
        model = build(config)
        model.position_embedding.weight.data *= 1000
        return model

    monkeypatch.setattr(norms, "GPT", loud)
    corpus = load_corpus(BUNDLED_PLAY)
    losses = [Norms().measure(Rated(held, "nothing", 1e-9, 0, steps=1), corpus)["loss"] for held in (True, False)]
    assert losses[0] < 5 < losses[1]


@pytest.mark.slow
@pytest.mark.parametrize("held_by", ["clipping", "warm-up"])
def test_each_way_to_hold_a_training_does_something(held_by):
    corpus = load_corpus(BUNDLED_PLAY)
    losses = [Norms().measure(Rated(False, how, 0.03, 0, 3), corpus)["loss"] for how in ("nothing", held_by)]
    assert losses[0] != losses[1]


# ---------------------------------------------------------------- 09, sampling
@pytest.fixture
def tiny(monkeypatch):
    """A text, and a network that writes it badly in no time."""
    corpus = load_corpus(BUNDLED_PLAY)
    torch.manual_seed(0)
    model = GPT(GPTConfig(corpus.tokenizer.vocab_size, context_length=32, n_layer=1, n_head=1, n_embd=8))
    model.token_embedding.weight.data *= 8  # it is sure of itself, so that settings differ
    monkeypatch.setattr(sampling, "network", lambda name: (model, corpus.tokenizer))
    monkeypatch.setattr(sampling, "book", lambda: {"the", "and"})
    monkeypatch.setattr(sampling, "TEXTS", 5)
    return corpus


@pytest.mark.slow
def test_each_rule_writes_by_its_setting(tiny):
    runs = {run[1:]: run for run in Sampling().plan([]) if run.letters == 48 and run.dice < 2}
    lines = {how: Sampling().measure(run._replace(letters=20), tiny) for how, run in runs.items()}
    assert len({(line["nats"], line["fourgrams"]) for line in lines.values()}) == len(lines)
    assert all(line["different"] <= line["found"] <= line["words"] for line in lines.values())
    nats = {how[:2]: line["nats"] for how, line in lines.items()}
    assert nats["top-k", 1] < nats["cooling", 0.4] < nats["cooling", 1.0]
    assert nats["best of 8", "by the model"] < nats["cooling", 1.0]


def test_no_network_is_trained_twice_side_by_side():
    study = Sampling()
    first = study.missing([])
    assert [run.network for run in first] == list(sampling.NETWORKS)
    line = first[0]._asdict()
    assert {run.network for run in study.missing([line])} == set(sampling.NETWORKS)
    assert all(run.rule == "human" for run in study.missing([line]) if run.network != line["network"])


def test_a_rule_is_held_against_cooling_where_the_same_share_is_found():
    def lines(rule, points):
        return [{"rule": rule, "value": share, "words": 100, "found": share, "different": many, "dice": dice}
                for share, spread in points.items() for dice, many in enumerate(spread)]  # fmt: skip

    cooled = lines("cooling", {50: (100, 100, 100), 80: (130, 130, 130), 90: (110, 110, 110)})
    assert sampling.against(cooled, lines("nucleus", {60: (111, 114, 117)})) == "+4 ± 2"  # 3 / √3
    assert sampling.against(cooled, lines("nucleus", {95: (90, 90, 90)})) == ""
    once = [[line for line in some if line["dice"] == 0] for some in (cooled, lines("nucleus", {60: (112,)}))]
    assert sampling.against(*once) == "+2"


# ---------------------------------------------------------------- all of them
@pytest.mark.slow
def test_a_run_of_each_study_gives_a_line_that_is_known_again(monkeypatch, tmp_path, tiny):
    monkeypatch.setitem(STUDIES, "museum", Museum(windows=4))
    names = ("museum", "thin_book", "mirror", "root", "masks", "two_questions", "heads_worth", "norms", "replacing")
    first = {name: STUDIES[name].plan([])[0]._replace(steps=2) for name in names}
    first |= {name: STUDIES[name].plan([])[0] for name in ("sampling", "tokens", "reward")}
    monkeypatch.setattr(tokens, "STEPS", dict.fromkeys(tokens.STEPS, 2))
    monkeypatch.setattr(reward, "before", lambda corpus, seed: tiny_gpt(corpus.tokenizer.vocab_size, reward.T))
    monkeypatch.setattr(reward, "BEGINNINGS", 1)
    for name, run in first.items():
        study, line = STUDIES[name], measure(name, str(BUNDLED_PLAY), "cpu", run)
        (tmp_path / "t.csv").write_text(csv_table([line], ["made by: a test"]), "utf-8")
        (read,) = read_table(tmp_path / "t.csv")[1]
        assert study.run_of(read) == run and study.report([read])
        assert len(set(study.plan([]))) == len(study.plan([]))


def test_a_table_without_both_words_for_truth_is_read_as_it_was_written(tmp_path):
    """`divided` is True or False, and a run is found again by it."""
    line = Scored(32, 1.0, False, 2, 0.01, 0)._asdict() | Looked("one matrix", 2, 0.01, 0)._asdict()
    (tmp_path / "t.csv").write_text(csv_table([line], ["made by: a test"]), "utf-8")
    assert read_table(tmp_path / "t.csv")[1][0]["divided"] is False


# ---------------------------------------------------------------- 08, heads
@pytest.mark.slow
def test_a_watched_training_goes_on_after_a_kill_as_if_there_had_been_none(monkeypatch, tmp_path):
    monkeypatch.setattr(presets, "RUNS", tmp_path / "whole")
    whole = networks.watched("smoke", 4, 1, at=(2, 4))
    monkeypatch.setattr(presets, "RUNS", tmp_path / "killed")
    killed = networks.watched("smoke", 4, 1, at=(2,))  # what it did after step 2 is lost
    assert networks.watched("smoke", 4, 1, at=(2, 4)) == killed
    for step in (0, 2, 4):
        mine, other = (torch.load(networks.snapshot(folder, step)) for folder in (killed, whole))
        assert mine["losses"] == other["losses"] and len(mine["losses"]) == step
        assert all(torch.equal(mine["model"][name], weight) for name, weight in other["model"].items())


def test_a_table_of_heads_has_what_each_looks_at_and_costs(monkeypatch):
    monkeypatch.setattr(heads, "WINDOWS", 4)
    torch.manual_seed(0)
    model = GPT(GPTConfig(4, context_length=8, n_layer=2, n_head=2, n_embd=8)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    tokens = torch.randint(4, (100,))
    lines = heads.look_into(model, tokens, seed=7)
    assert [(line["layer"], line["head"]) for line in lines] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    for line in lines:
        one = (line["layer"] - 1, line["head"] - 1)
        rise = loss_without(model, tokens[:33], [one]) - loss_without(model, tokens[:33], [])
        assert line["seed"] == 7 and line["cost"] == pytest.approx(
            (line["first_half"] + line["second_half"]) / 2, abs=1e-4
        )
        assert abs(rise - line["cost"]) < 0.05 and line["zeros"] != line["cost"] != line["by_hand"]
    keenest = max(lines, key=lambda line: line["one_back"])
    assert heads.keenest(lines) == (keenest["layer"] - 1, keenest["head"] - 1)


def test_the_law_s_budgets_are_spent():
    for operations, widths in WIDTHS.items():
        for width in widths:
            spent = law.steps_of(width, operations) * BATCH * T * (6 * law.weights_of(width) + 12 * LAYERS * width * T)
            assert abs(spent - operations) < 0.02 * operations
    study = Law()
    runs = study.missing([])
    assert {run.part for run in runs} == {CHOOSE} and len(runs) == len(set(runs)) == 5 * 5 * 3
    lines = [run._asdict() | {"loss": abs(run.rate - 6e-3)} for run in runs]  # as if the middle rate were best
    reported = study.missing(lines)
    assert {run.rate for run in reported} == {6e-3} and len(reported) == 5 * 5 * 3
    weights = {law.weights_of(width) for widths in WIDTHS.values() for width in widths}
    model = GPT(GPTConfig(65, T, n_layer=LAYERS, n_head=4, n_embd=16))
    of_matrices = sum(p.numel() for p in model.blocks.parameters() if p.dim() > 1)
    assert of_matrices + 65 * 16 in weights


# ---------------------------------------------------------------- 13, what three minutes are worth
def tiny_gpt(vocab_size, T):
    torch.manual_seed(1)
    return GPT(GPTConfig(vocab_size, T, n_layer=1, n_head=2, n_embd=8)).eval()


def test_reading_on_no_letter_but_the_first_lacks_a_past():
    text, T = torch.randint(5, (3 * 8 + 1,), generator=torch.Generator().manual_seed(1)), 8
    model = tiny_gpt(5, T)
    losses = [torch.nn.functional.cross_entropy(model(text[None, :T])[0], text[1 : T + 1], reduction="none")]
    for begin in (4, 8, 12, 16):
        says = model(text[None, begin : begin + T])[0, 4:]
        losses.append(torch.nn.functional.cross_entropy(says, text[begin + 5 : begin + 9], reduction="none"))
    assert presets_study.reading_on(model, text, T) == pytest.approx(torch.cat(losses).mean().item(), abs=1e-5)


@pytest.mark.slow
def test_the_account_of_counted_holds_what_speedrun_reads(tmp_path):
    corpus = load_corpus(BUNDLED_PLAY)
    train_tokens, val_tokens = split(corpus.tokens, 16)
    sizes = dict(vocab_size=corpus.tokenizer.vocab_size, context_length=16, n_layer=1, n_head=1, n_embd=8)
    model = build_gpt(CountedConfig(**sizes, counted=len(train_tokens), lengths=(2, 4)))
    model.count(train_tokens)
    config = TrainConfig(batch_size=4, max_steps=2, eval_interval=2)
    train(model, train_tokens, val_tokens, config, out_dir=tmp_path / "run", corpus=corpus)
    account = presets_study.account(dict.fromkeys((1, 2, 3), tmp_path / "run"), corpus, counts=True)
    notebook = nbformat.read(named("speedrun"), as_version=4)
    (cell,) = [
        cell.source for cell in notebook.cells if "counting what it reads" in cell.source and "re." in cell.source
    ]
    for pattern in re.findall(r'r"(.+?)"', cell):
        assert len(re.findall(pattern, account)) >= 3, pattern
    before, after = (float(re.findall(rf"{way} ([\d.]+)", account)[0]) for way in ("reading on", "what it reads"))
    assert after < before  # its people speak again and again
