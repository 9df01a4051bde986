"""A run's checkpoint: what is damaged, hostile or missing is refused in a sentence, and nothing in it is run."""

import io
import json
import os
import pickle
import shutil
import zipfile

import pytest
import torch
from run_folder import ALPHABET, resave, stop_at

from helpers.data import CharTokenizer
from helpers.optim import TrainConfig
from helpers import checkpoint, errors
from helpers.checkpoint import Facts
from helpers.errors import RunError


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory):
    return tmp_path_factory.mktemp("stopped") / "run"


@pytest.fixture
def kept(stopped, stopped_once, tmp_path):
    if not stopped_once.exists():
        stopped(out_dir=stopped_once)
    shutil.copytree(stopped_once, tmp_path / "run")
    return tmp_path / "run" / "checkpoint.pt"


def test_a_checkpoint_stays_a_file_of_torch(kept):
    assert torch.load(kept, weights_only=True)["step"] == 5
    resave(kept, lambda state: None)
    assert checkpoint.load(kept.parent).step == 5  # what `resave` breaks below is broken by its change alone


def test_no_flipped_byte_and_no_cut_passes(kept):
    whole = kept.read_bytes()
    draw = torch.Generator().manual_seed(0)
    for place in torch.randint(len(whole), (60,), generator=draw).tolist():
        kept.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        with pytest.raises(RunError, match=r"checksum"):
            checkpoint.load(kept.parent)
    for place in [0, 1, 70, 71, 72, len(whole) - 1, *torch.randint(len(whole), (20,), generator=draw).tolist()]:
        kept.write_bytes(whole[:place])
        with pytest.raises(RunError, match=r"has no checksum: it is cut off"):
            checkpoint.load(kept.parent)


def first(state, part):
    return next(iter(state[part].values()))


HOSTILE = {
    "no dictionary": lambda s: [s],
    "a part is missing": lambda s: s.pop("history"),
    "a part too many": lambda s: s.update(more=1),
    "layers without end": lambda s: s["identity"]["model"].update(n_layer=10**7),
    "a thousand layers that aren't there": lambda s: s["identity"]["model"].update(n_layer=1000),
    "another size": lambda s: s["identity"]["model"].update(n_embd=64),
    "an alphabet too short": lambda s: s["identity"].update(alphabet="abc"),
    "a character twice": lambda s: s["identity"].update(alphabet="a" * 65),
    "no settings": lambda s: s["identity"].update(train={}),
    "a rate in words": lambda s: s["identity"]["train"].update(learning_rate="high"),
    "a setting too many": lambda s: s["identity"]["train"].update(lr=1e-3),
    "steps beyond counting": lambda s: s["identity"]["train"].update(max_steps=10**400),
    "a head unlike its table": lambda s: s["model"].update({"head.weight": s["model"]["head.weight"].clone() + 1}),
    "endless steps": lambda s: s["identity"]["train"].update(max_steps=float("inf")),
    "no weight": lambda s: s["model"].popitem(),
    "a weight too many": lambda s: s["model"].update(more=torch.zeros(1)),
    "a weight of another shape": lambda s: s["model"].update({"norm.weight": torch.ones(31)}),
    "a weight of another type": lambda s: s["model"].update({"norm.weight": torch.ones(32).double()}),
    "a weight that is no tensor": lambda s: s["best"].update({"norm.weight": [1.0] * 32}),
    "a weight that is no number": lambda s: first(s, "model").fill_(torch.nan),
    "a best weight that is infinite": lambda s: first(s, "best").fill_(torch.inf),
    "a snapshot that is no number": lambda s: s["snapshots"][2]["norm.weight"].fill_(torch.nan),
    "a snapshot that is infinite": lambda s: s["snapshots"][0]["norm.weight"].fill_(torch.inf),
    "a snapshot of another type": lambda s: s["snapshots"][2].update({"norm.weight": torch.ones(32)}),
    "a snapshot of another shape": lambda s: s["snapshots"][2].update({"norm.weight": torch.ones(31).half()}),
    "a snapshot without a weight": lambda s: s["snapshots"][4].popitem(),
    "a snapshot with a weight too many": lambda s: s["snapshots"][4].update(more=torch.ones(1).half()),
    "a snapshot that is none": lambda s: s["snapshots"].update({4: None}),
    "a snapshot that is missing": lambda s: s["snapshots"].pop(2),
    "a snapshot from the future": lambda s: s["snapshots"].update({8: s["snapshots"][4]}),
    "snapshots out of order": lambda s: s.update(snapshots=dict(reversed(s["snapshots"].items()))),
    "snapshots by name": lambda s: s.update(snapshots={str(step): w for step, w in s["snapshots"].items()}),
    "snapshots in a list": lambda s: s.update(snapshots=[*s["snapshots"].values()]),
    "moments of another shape": lambda s: first(s, "optimizer").update(exp_avg=torch.zeros(3)),
    "moments that are missing": lambda s: first(s, "optimizer").pop("exp_avg_sq"),
    "moments of nobody": lambda s: s["optimizer"].update(nobody=first(s, "optimizer")),
    "no moments": lambda s: s["optimizer"].clear(),
    "negative squares": lambda s: first(s, "optimizer")["exp_avg_sq"].fill_(-1.0),
    "moments that are no numbers": lambda s: first(s, "optimizer")["exp_avg"].fill_(torch.nan),
    "moments of another step": lambda s: first(s, "optimizer")["step"].fill_(7.0),
    "half the moments": lambda s: s["optimizer"].popitem(),
    "no history": lambda s: s["history"].clear(),
    "history out of order": lambda s: s["history"].reverse(),
    "a record from the future": lambda s: s["history"][-1].update(step=6),
    "a record without a loss": lambda s: s["history"][0].pop("val_loss"),
    "a loss that is no number": lambda s: s["history"][0].update(val_loss=float("nan")),
    "a loss in words": lambda s: s["history"][0].update(val_loss="low"),
    "a negative step": lambda s: s.update(step=-1),
    "a step that is no number": lambda s: s.update(step=5.0),
    "losses that don't fit": lambda s: s.update(losses=[1.0] * 9),
    "losses in a dictionary": lambda s: s.update(losses={1.0: 1}),
    "a loss that is a tensor": lambda s: s["history"][1].update(val_loss=torch.tensor(3.0)),
    "losses in words": lambda s: s.update(losses=["low"]),
    "a generator that is none": lambda s: s["generators"].update(batches=torch.zeros(10, dtype=torch.uint8)),
    "a generator of floats": lambda s: s["generators"].update(dropout=torch.zeros(5056)),
    "a weight of which one number is there": lambda s: s["model"].update({"norm.weight": torch.ones(1).expand(32)}),
    "moments of which one number is there": lambda s: view_of_one(first(s, "optimizer"), "exp_avg"),
    "squares of which one number is there": lambda s: view_of_one(first(s, "optimizer"), "exp_avg_sq"),
    "moments with rows and columns exchanged": lambda s: exchanged(s["optimizer"]["token_embedding.weight"]),
    "two moments in one place": lambda s: first(s, "optimizer").update(exp_avg=first(s, "optimizer")["exp_avg_sq"]),
    "a huge view of one number": lambda s: s["model"].update({"norm.weight": torch.ones(1).expand(10**12)}),
}


def view_of_one(moments, kind):
    """A fused optimizer would write as many numbers as the shape says: past the end of the one that there is."""
    moments[kind] = torch.full((1,), 1e-4).expand(moments[kind].shape)


def exchanged(moments):
    moments["exp_avg"] = moments["exp_avg"].mT.contiguous().mT


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_states_are_refused_in_a_sentence(kept, go, name):
    def change(state):
        changed = HOSTILE[name](state)
        return changed if isinstance(changed, list) else None

    resave(kept, change)
    loads = [lambda: go(resume=True)]
    if name != "half the moments":  # which are of no use to who only writes
        loads.append(lambda: checkpoint.load(kept.parent))
    for load in loads:
        with pytest.raises(RunError) as error:
            load()
        assert "can't be used: " in str(error.value) and "\n" not in str(error.value)


def test_an_archive_that_unfolds_is_refused(kept):
    packed = io.BytesIO()
    with zipfile.ZipFile(kept) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for part in old.namelist():
            new.writestr(part, old.read(part))
    kept.write_bytes(checkpoint.sign(packed.getvalue()))
    with pytest.raises(RunError, match="it is compressed"):
        checkpoint.load(kept.parent)


class Payload:
    """Unpickled, it makes a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_malicious_pickle_is_refused_and_does_not_run(kept, tmp_path):
    resave(kept, lambda state: state | {"losses": Payload(tmp_path / "pwned")})
    with pytest.raises(RunError, match="its content makes no sense"):
        checkpoint.load(kept.parent)
    assert not (tmp_path / "pwned").exists()
    torch.load(kept, weights_only=False)  # plain unpickling would have run it
    assert (tmp_path / "pwned").exists()
    with pytest.raises(RunError, match="has no checksum"):
        kept.write_bytes(pickle.dumps(Payload(tmp_path / "pwned again")))
        checkpoint.load(kept.parent)
    assert not (tmp_path / "pwned again").exists()


def test_checkpoints_that_are_not_there(tmp_path):
    os.mkfifo(tmp_path / "checkpoint.pt")
    with pytest.raises(RunError, match="is not a regular file"):
        checkpoint.load(tmp_path)
    for folder in (tmp_path / "gone", "a\0b"):
        with pytest.raises(RunError, match="no checkpoint at"):
            checkpoint.load(folder)


@pytest.mark.slow
def test_a_run_without_a_tokenizer_can_go_on_but_not_write(go, tmp_path):
    with pytest.raises(console.Stopped):
        go(facts=None, on_record=stop_at(4))
    go(facts=None, resume=True)
    with pytest.raises(RunError, match="was trained without a tokenizer"):
        checkpoint.load_model(tmp_path / "run")


@pytest.mark.slow
def test_the_identity_stands_in_the_folder_for_people_too(go, tmp_path):
    go(facts=Facts(CharTokenizer(ALPHABET), "none"))
    facts = json.loads((tmp_path / "run" / "config.json").read_text())
    assert facts["train"]["seed"] == 1 and facts["preset"] == "none" and facts["torch"] == torch.__version__
    assert len(facts["tokens_sha256"]) == 64 and facts["finished"] is True and facts["step"] == 12
    assert TrainConfig(**facts["train"] | {"betas": tuple(facts["train"]["betas"]), "windows": ()})
