"""Whoever stops a run of any kind, at any step, loses nothing: it ends as the undisturbed one, to the last bit."""

import dataclasses
import json

import pytest
import torch
from run_folder import ALPHABET, COUNTED, MUON, TODAY, end_of, resave

from helpers import optim, checkpoint
from helpers.modern import ModernGPT
from helpers.training import has_bfloat16
from helpers.checkpoint import load_model, is_trained
from helpers.errors import RunError

KINDS = {
    "the plain GPT with AdamW": ({}, {}),
    "today's GPT with Muon": (TODAY, MUON),
    "today's GPT with Muon in bfloat16": (TODAY, MUON | {"bfloat16_cpu": True}),
    "beside counts": (TODAY | COUNTED, MUON | {"bfloat16_cpu": True}),
}


@pytest.fixture(params=KINDS)
def of_kind(request, fresh):
    """What `go` takes for a run of one kind; each call makes the model anew."""
    sizes, settings = KINDS[request.param]
    if settings.get("bfloat16_cpu") and not has_bfloat16():
        pytest.skip("this processor has no bfloat16")
    return lambda: {"model": fresh(**sizes), "settings": settings}


EVERYWHERE = [[1], [5], [6], [7], [8], [5, 1], [3, 6]]


@pytest.mark.slow
@pytest.mark.parametrize("stops", [[[5, 2]], pytest.param(EVERYWHERE, marks=pytest.mark.torture)], ids=len)
def test_a_run_stopped_at_any_step_ends_like_the_undisturbed_one(go, stopped, of_kind, tmp_path, stops):
    """Stopped after the first update, before, at and after the change of windows, at a record, and twice."""
    go(**of_kind(), out_dir=tmp_path / "whole")
    whole = end_of(tmp_path / "whole")
    for steps in stops:
        folder = tmp_path / f"stopped after {steps}"
        stopped(at=steps[0], **of_kind(), out_dir=folder)
        for more in steps[1:]:
            stopped(at=more, **of_kind(), out_dir=folder, resume=True)
        assert checkpoint.load(folder).step == sum(steps)
        go(**of_kind(), out_dir=folder, resume=True)
        assert end_of(folder) == whole, steps


@pytest.mark.slow
def test_another_window_is_another_run(go, stopped, fresh):
    """The test above could pass with windows that change nothing: here they do."""
    stopped(model=fresh(**TODAY), settings=MUON)
    with pytest.raises(RunError, match=r"its windows is \(\(0.5, 4\),\), not \(\)"):
        go(model=fresh(**TODAY), settings=MUON | {"windows": ()}, resume=True)


# ---------------------------------------------------------------- who uses such a run
@pytest.mark.slow
def test_a_run_of_todays_gpt_can_be_used_like_any(go, fresh, tmp_path):
    model, kept = fresh(**TODAY), {}

    def keep(model, record):
        kept[record.step] = {name: weight.clone() for name, weight in model.state_dict().items()}

    go(model=model, settings=MUON, on_record=keep)
    loaded, tokenizer = checkpoint.load_model(tmp_path / "run")
    assert isinstance(loaded, ModernGPT) and loaded.config == model.config and not loaded.training
    tokens = tokenizer.encode(ALPHABET[:9])[None]
    assert torch.equal(loaded(tokens), model.eval()(tokens))
    for step, snapshot in checkpoint.load_snapshots(tmp_path / "run"):
        for name, weight in snapshot.state_dict().items():
            rounded = kept[step][name] if step == 12 else kept[step][name].half().float()
            assert torch.equal(weight, rounded), (step, name)
    assert is_trained(tmp_path / "run", "", model.config, 12)
    assert not is_trained(tmp_path / "run", "", dataclasses.replace(model.config, before=1), 12)


@pytest.mark.slow
def test_a_plain_gpt_does_not_go_on_with_the_run_of_todays(go, stopped, fresh):
    """Of equal sizes, they differ by the fields that only one of them has."""
    stopped(model=fresh(**TODAY))
    with pytest.raises(RunError, match="its rotary is True, not None"):
        go(resume=True)


@pytest.mark.slow
def test_the_view_of_such_a_run_tells_its_recipe(go, fresh, tmp_path):
    go(model=fresh(**TODAY), settings=MUON)
    view = json.loads((tmp_path / "run" / "config.json").read_text())
    assert view["train"]["optimizer"] == "muon" and view["train"]["windows"] == [[0.5, 4]]
    assert view["model"]["rotary"] is True and view["model"]["bigrams"] == 500


# ---------------------------------------------------------------- what is refused
MATRIX, TABLE = "blocks.0.mlp.0.weight", "tables.2.weight"


def adamws(matrix):
    return {"step": torch.tensor(5.0), "exp_avg": torch.zeros_like(matrix), "exp_avg_sq": torch.zeros_like(matrix)}


HOSTILE = {
    "no momentum": lambda o: o[MATRIX].clear(),
    "no matrix": lambda o: o.pop(MATRIX),
    "a momentum by another name": lambda o: o[MATRIX].update(momentum_buffer=o[MATRIX].pop("momentum")),
    "a momentum too many": lambda o: o[MATRIX].update(more=o[MATRIX]["momentum"].clone()),
    "a matrix by another name": lambda o: o.update({"blocks.9.mlp.0.weight": o.pop(MATRIX)}),
    "a momentum of another shape": lambda o: o[MATRIX].update(momentum=o[MATRIX]["momentum"].T.contiguous()),
    "a momentum of one number": lambda o: o[MATRIX].update(momentum=torch.zeros(1).expand(128, 32)),
    "a momentum that is no number": lambda o: o[MATRIX]["momentum"].fill_(torch.nan),
    "an infinite momentum": lambda o: o[MATRIX]["momentum"].fill_(torch.inf),
    "a momentum of another type": lambda o: o[MATRIX].update(momentum=o[MATRIX]["momentum"].double()),
    "a momentum that is no tensor": lambda o: o[MATRIX].update(momentum=0.0),
    "two momenta in one place": lambda o: o[MATRIX].update(momentum=o["blocks.1.mlp.0.weight"]["momentum"]),
    "AdamW's moments where Muon's belong": lambda o: o.update({MATRIX: adamws(o[MATRIX]["momentum"])}),
    "Muon's momentum where AdamW's belong": lambda o: o.update({TABLE: {"momentum": o[TABLE]["exp_avg"]}}),
}


@pytest.fixture(scope="module")
def of_muon(tmp_path_factory):
    """A checkpoint of a Muon run, once stopped; its bytes, by the name "checkpoint"."""
    return {}


@pytest.mark.torture
@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_momenta_are_refused_in_a_sentence(go, stopped, fresh, tmp_path, of_muon, name):
    path = tmp_path / "run" / "checkpoint.pt"
    if not of_muon:
        stopped(model=fresh(**TODAY), settings=MUON)
        of_muon["checkpoint"] = path.read_bytes()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(of_muon["checkpoint"])
    assert checkpoint.load(path.parent).step == 5

    def change(state):
        HOSTILE[name](state["optimizer"])

    resave(path, change)
    loads = [lambda: go(model=fresh(**TODAY), settings=MUON, resume=True)]
    if name != "no matrix":  # it might be frozen: only the model knows
        loads.append(lambda: checkpoint.load(path.parent))
    for load in loads:
        with pytest.raises(RunError, match="can't be used: its optimizer") as error:
            load()
        assert "\n" not in str(error.value)


@pytest.mark.slow
def test_an_optimizer_is_not_changed_in_the_middle_of_a_run(go, stopped, fresh):
    stopped(model=fresh(**TODAY), settings=MUON)
    with pytest.raises(RunError, match="its optimizer is muon, not adamw"):
        go(model=fresh(**TODAY), settings=MUON | {"optimizer": "adamw"}, resume=True)


# ---------------------------------------------------------------- runs from before
NEW = ("schedule", "decay", "optimizer", "muon_scale", "muon_momentum", "windows", "bfloat16_cpu")


@pytest.mark.slow
def test_a_run_from_before_there_was_a_choice_of_optimizers_goes_on(go, stopped, tmp_path):
    go(out_dir=tmp_path / "whole")
    stopped()
    train = checkpoint.load(tmp_path / "run").identity.train

    def as_it_was(state):
        state["identity"]["train"] = {name: value for name, value in train.items() if name not in NEW}

    resave(tmp_path / "run" / "checkpoint.pt", as_it_was)
    assert checkpoint.load_model(tmp_path / "run") and checkpoint.load_snapshots(tmp_path / "run")
    go(resume=True)
    assert end_of(tmp_path / "run") == end_of(tmp_path / "whole")


@pytest.mark.slow
def test_a_run_with_an_optimizer_of_ones_own_is_resumed_and_can_write(monkeypatch, stopped, go, tmp_path):
    """Whoever adds one to OPTIMIZERS must not learn after hours that its checkpoint is refused."""

    def sgd(model, config):
        return torch.optim.SGD(model.parameters(), lr=config.learning_rate, momentum=0.9)

    monkeypatch.setitem(optim.OPTIMIZERS, "sgd", sgd)
    settings = {"optimizer": "sgd"}
    stopped(settings=settings)
    resumed = go(settings=settings, resume=True)
    undisturbed = go(settings=settings, out_dir=tmp_path / "undisturbed")
    assert resumed.column("val_loss") == undisturbed.column("val_loss")
    load_model(tmp_path / "run")
