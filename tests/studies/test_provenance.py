"""What a table says of the code that made it: a formula or a variant that changes is seen, all else is not."""

import importlib
import re
import shutil
import sys
from dataclasses import replace
from functools import partial

import provenance
import pytest
import study as tool

from helpers.data import BUNDLED_PLAY, load_corpus
from helpers.errors import ConfigError
from helpers.modern import rotate
from helpers.studies import ladder
from helpers.studies.ladder import Ladder
from helpers.studies.parts import PARTS, STUDIES
from helpers.training import updates

MODEL = '''"""A model."""
from functools import partial

from .formulas import scores

HEADS = 4

class Model:
    """It multiplies."""

    def forward(self, x):
        """Forward."""
        if x is None:
            raise ValueError("nothing given")
        return self.join(scores(x, HEADS))  # all heads

    def join(self, x):
        return x + 1

def start_at_zero(model, size):
    model.size = size

change = partial(start_at_zero, size=0)
'''
FORMULAS = '''
from . import constants

def scores(x, heads):
    """Scores."""
    return x * heads / constants.ROOT

def somebody_elses(x):
    return x + 2
'''
CONSTANTS = "ROOT = 2\nUNUSED = 3\n"


@pytest.fixture
def digest(tmp_path, monkeypatch):
    """The digest of what `Model.forward` and `change` lead to, in a package with the given files."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def of(model=MODEL, formulas=FORMULAS, constants=CONSTANTS, names=("model", "formulas", "constants")):
        folder = tmp_path / "invented"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, text in zip(names, (model, formulas, constants), strict=True):
            (folder / f"{name}.py").write_text(text, "utf-8")
        (folder / "__init__.py").write_text("", "utf-8")
        for name in [name for name in sys.modules if name.split(".")[0] == "invented"]:
            del sys.modules[name]
        importlib.invalidate_caches()
        module = importlib.import_module(f"invented.{names[0]}")
        start = (module.Model.forward, module.change)
        return provenance.digest(provenance.sources(*start, packages=["invented"]))

    return of


def changed(text, old, new):
    assert old in text
    return text.replace(old, new)


def test_moving_and_rewording_keep_the_digest(digest):
    before = digest()
    assert digest() == before
    moved = changed(MODEL, ".formulas", ".rules")
    assert digest(model=moved, names=("room", "rules", "constants")) == before
    for old, new in (
        ('"""Forward."""', '"""From the inputs to the outputs."""'),
        ('        """Forward."""\n', ""),
        ("# all heads", "# every head"),
        ("nothing given", "there is nothing here"),
        ("HEADS = 4\n", "OTHERS = 5\nHEADS = 4\n\n\n"),
    ):
        assert digest(model=changed(MODEL, old, new)) == before, new
    assert digest(formulas=changed(FORMULAS, "x + 2", "x + 3")) == before  # nobody computes with it
    assert digest(constants=changed(CONSTANTS, "UNUSED = 3", "UNUSED = 4")) == before


def test_a_formula_or_a_constant_that_changes_changes_the_digest(digest):
    before = digest()
    for old, new in (
        ("x + 1", "x + 2"),  # a method that is called by another
        ("HEADS = 4", "HEADS = 5"),
        ("model.size = size", "model.size = size + 1"),  # inside a partial
        ("if x is None", "if x is True"),
    ):
        assert digest(model=changed(MODEL, old, new)) != before, new
    assert digest(formulas=changed(FORMULAS, "x * heads", "x + heads")) != before
    assert digest(constants=changed(CONSTANTS, "ROOT = 2", "ROOT = 3")) != before


def test_settings_that_are_equal_are_written_alike_and_others_are_not():
    study = STUDIES["parts"]
    written = provenance.written(study)
    assert written == provenance.written(replace(study)) and not re.search("0x[0-9a-f]+", written)
    backwards = dict(reversed(PARTS.items()))
    assert provenance.written(backwards) == provenance.written(PARTS)
    for name, variant in PARTS.items():
        for other in (
            replace(variant, sizes={**variant.sizes, "n_layer": 7}),
            replace(variant, recipe={**variant.recipe, "weight_decay": 0.3}),
            replace(variant, change=partial(rotate, sin=1)),
            replace(variant, optimizer=rotate),
        ):
            assert provenance.written(replace(study, variants=PARTS | {name: other})) != written
    assert provenance.written(replace(study, margin=0.06)) != written


def test_a_rung_that_changes_changes_the_settings_of_the_ladder(monkeypatch):
    def settings():
        return tool.identity(Ladder(), load_corpus(BUNDLED_PLAY), "cpu")[3]

    before = settings()
    assert settings() == before
    higher = replace(ladder.RUNGS["Muon"], recipe={**ladder.RUNGS["Muon"].recipe, "learning_rate": 0.02})
    monkeypatch.setattr(Ladder, "variants", ladder.RUNGS | {"Muon": higher})
    assert settings() != before


@pytest.mark.parametrize("study", [STUDIES["parts"], STUDIES["modern"], Ladder()], ids=["parts", "modern", "ladder"])
def test_it_reaches_all_that_computes_and_nothing_that_only_reports(study):
    found = provenance.sources(type(study).plan, type(study).measure, study.variants)
    names = {match[1] for text in found if (match := re.search(r"^(?:def|class) (\w+)", text, re.M))}
    computes = "attention GPT Block KVCache ModernAttention rotate ngram_rows updates get_batch split cross_entropy "
    computes += "evaluate adamw orthogonal Muon cosine warmup_stable_decay TrainConfig Loss build recipe"
    assert set(computes.split()) <= names
    assert not {"report", "judge", "verdicts", "holm", "table"} & names
    if study is STUDIES["parts"]:
        changes = {"attend", "post_norm", "Nothing", "sinusoids", "remove_positions", "sgd_with_decay"}
        assert {*changes, "last_place_loss", "no_worse_than_guessing", "_choose", "metric"} <= names
        assert "MOST_RATES = 5" in found


def test_a_lambda_is_refused_as_it_has_no_source_of_its_own():
    with pytest.raises(ConfigError, match="<lambda> has no name of its own in its file: write a function"):
        provenance.sources(lambda model: None)


def test_the_comments_of_a_growing_table_are_compared_but_for_the_first(tmp_path):
    path = tmp_path / "table.csv"
    assert provenance.read_growing(path, ["made by: us"]) == []
    line = {"variant": "a", "loss": 1.5}
    path.write_text(tool.csv_table([line], ["made by: somebody", "text"]), "utf-8")
    assert provenance.read_growing(path, ["made by: us", "text"]) == [line]


def test_a_function_behind_a_decorator_is_the_function():
    """In tests, annotations are checked at run time by a wrapper around each function; the digest knows none of it."""
    assert any(text.startswith("def updates(") for text in provenance.sources(updates))
