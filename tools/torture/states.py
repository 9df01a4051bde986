"""States made by hand to mislead or to crash whoever loads them: the checksum is right, the content is not."""

import collections
import hashlib
import io
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch

from helpers.runs import checkpoint
from tools.torture import small
from tools.torture.checkpoints import refused_by_both, signed_state, state
from tools.torture.harness import Attempt, group
from tools.torture.small import MUON, PLAIN, Kind, plain


def _nodes(value: object, path: tuple = ()) -> list[tuple]:
    """The paths of all parts of a state, and of their parts."""
    found = [path]
    if isinstance(value, dict):
        found += [node for name, inner in value.items() for node in _nodes(inner, (*path, name))]
    elif isinstance(value, list):
        found += [node for i, inner in enumerate(value) for node in _nodes(inner, (*path, i))]
    return found


def _get(value: Any, path: tuple) -> Any:
    for name in path:
        value = value[name]
    return value


def _wrong(value: object, random: Random) -> object:
    """Something that must not stand where `value` stood."""
    anywhere = [None, {"a": 1}, [[]], b"bytes", (1, 2), 1j]
    if isinstance(value, torch.Tensor):
        numbers = value.float() if value.is_floating_point() else value
        choices = [3, "x", value.flatten().repeat(2)[:-1], value[..., None]]
        choices += [value.to(torch.complex64), numbers.to(torch.int64)]
        choices += [value.bool(), torch.zeros(1).expand(10**9), torch.zeros(0), torch.empty(3, device="meta")]
        choices += [value.double(), torch.eye(3).to_sparse()]
        if (
            value.numel() > 1
        ):  # a view that claims more numbers than there are, and rows and columns exchanged in memory
            choices += [value.flatten()[:1].expand(value.numel()).view(value.shape)]
            choices += [value.mT.contiguous().mT] if value.dim() > 1 and min(value.shape) > 1 else []
        if value.is_floating_point():
            choices += [value.half(), torch.full_like(value, math.nan), torch.full_like(value, math.inf)]
    elif isinstance(value, bool):
        choices = [2, "yes", math.nan]
    elif isinstance(value, int):
        choices = [-1, 10**30, 10**400, 1.5, math.nan, "3", True, torch.tensor(3)]
    elif isinstance(value, float):
        choices = [math.nan, math.inf, -1.0, 10**400, "3", True, torch.tensor(3.0)]
    elif isinstance(value, str):
        choices = [3, True, ["a"]]
    elif isinstance(value, dict):
        choices = ["x", {}, {**value, "more": 1}, dict(list(value.items())[1:]), {3: 4}, list(value)]
    else:
        choices = ["x", 3, {}, [*value, None], [*value, *value], value[::-1] if len(value) > 1 else [None]]
    return random.choice([*choices, random.choice(anywhere)])


def _one_thing_wrong(random: Random, kind: Kind) -> tuple[str, bytes]:
    parts = state(kind)
    while True:
        top = random.choice(list(parts))
        path = random.choice(_nodes(parts[top], (top,)))
        old = _get(parts, path)
        new = _wrong(old, random)
        if not _same(old, new):
            break
    _get(parts, path[:-1])[path[-1]] = new
    return f"{'/'.join(map(str, path))} = {_short(new)}", signed_state(parts)


def _same(old: object, new: object) -> bool:
    if isinstance(new, torch.Tensor) and (new.is_sparse or new.is_meta or new.shape != getattr(old, "shape", None)):
        return False  # without writing out a view of 10**9 numbers
    return type(old) is type(new) and plain(old) == plain(new)


def _short(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"tensor {tuple(value.shape)} {value.dtype}"
    return ascii(value)[:60] if not isinstance(value, int) or abs(value) < 10**50 else "10**400"


def _with(**changes: object) -> Callable[[dict], None]:
    """Entries by path, as in model__n_layer for parts["identity"]["model"]["n_layer"]."""

    def change(parts: dict):
        for path, value in changes.items():
            *place, last = path.split("__")
            _get(parts, tuple(place))[last] = value

    return change


def _each(part: str, function: Callable[[torch.Tensor], object]) -> Callable[[dict], None]:
    def change(parts: dict):
        parts[part] = {name: function(tensor) for name, tensor in parts[part].items()}

    return change


def _moments(kind: str, function: Callable[[torch.Tensor], object]) -> Callable[[dict], None]:
    def change(parts: dict):
        for moments in parts["optimizer"].values():
            moments[kind] = function(moments[kind])

    return change


def _generator(name: str, make: Callable[[torch.Tensor], object]) -> Callable[[dict], None]:
    def change(parts: dict):
        parts["generators"][name] = make(parts["generators"][name])

    return change


def _garbage(state: torch.Tensor) -> torch.Tensor:
    return torch.randint(256, state.shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(7))


def _huge_index(state: torch.Tensor) -> torch.Tensor:
    """A Mersenne Twister that is told to read far behind its 624 numbers."""
    state = state.clone()
    state[8:24] = 127
    return state


def _renamed(part: str) -> Callable[[dict], None]:
    def change(parts: dict):
        parts[part] = {name + "x": value for name, value in parts[part].items()}

    return change


def _cyclic(parts: dict) -> None:
    parts["identity"]["model"]["self"] = parts


def _swapped_history(parts: dict) -> None:
    parts["history"].reverse()


def _other_alphabet(change: Callable[[str], str]) -> Callable[[dict], None]:
    def apply(parts: dict):
        parts["identity"]["alphabet"] = change(parts["identity"]["alphabet"])

    return apply


STATES: dict[str, Callable[[dict], None]] = {
    "10**7 layers": _with(identity__model__n_layer=10**7),
    "1,000 layers": _with(identity__model__n_layer=1000),
    "a width of 10**6": _with(identity__model__n_embd=10**6),
    "a context of 10**6": _with(identity__model__context_length=10**6),
    "a vocabulary of 1,114,112": _with(identity__model__vocab_size=0x110000),
    "a vocabulary of 10**9": _with(identity__model__vocab_size=10**9),
    "heads that don't divide": _with(identity__model__n_head=3),
    "no heads": _with(identity__model__n_head=0),
    "a negative context": _with(identity__model__context_length=-8),
    "dropout 1": _with(identity__model__dropout=1.0),
    "dropout NaN": _with(identity__model__dropout=math.nan),
    "bias 'yes'": _with(identity__model__bias="yes"),
    "a bias that isn't there": _with(identity__model__bias=True),
    "an unknown setting of the model": _with(identity__model__norm="rms"),
    "an alphabet of one more": _other_alphabet(lambda a: a + "ø"),
    "an alphabet of one less": _other_alphabet(lambda a: a[1:]),
    "a character twice": _other_alphabet(lambda a: a[1] + a[1:]),
    "an unsorted alphabet": _other_alphabet(lambda a: a[::-1]),
    "an alphabet of 10**7": _other_alphabet(lambda a: a * 10**6),
    "an alphabet of lone surrogates": _other_alphabet(lambda a: "".join(map(chr, range(0xD800, 0xD800 + len(a))))),
    "steps as text": _with(step="15"),
    "step 10**9": _with(step=10**9),
    "step beyond the end": _with(step=small.MAX_STEPS + 1),
    "step -1": _with(step=-1),
    "max_steps 0": _with(identity__train__max_steps=0),
    "max_steps as text": _with(identity__train__max_steps="30"),
    "no history": _with(history=[]),
    "a history backwards": _swapped_history,
    "a history of texts": _with(history=["step 0"]),
    "losses of another number": _with(losses=[1.0] * 100),
    "losses that are texts": _with(losses=["a"]),
    "NaN losses": lambda parts: parts.update(losses=[math.nan] * max(1, len(parts["losses"]))),
    "weights float16": _each("model", torch.Tensor.half),
    "weights float64": _each("model", torch.Tensor.double),
    "weights complex": _each("model", lambda t: t.to(torch.complex64)),
    "weights whole numbers": _each("model", torch.Tensor.long),
    "weights flat": _each("model", torch.Tensor.flatten),
    "weights NaN": _each("model", lambda t: t * math.nan),
    "weights infinite": _each("model", lambda t: t + math.inf),
    "weights empty": _with(model={}),
    "weights renamed": _renamed("model"),
    "weights expanded to 10**12": _each("model", lambda t: torch.zeros(1).expand(10**12)),
    "weights sparse": _each("model", lambda t: t.to_sparse()),
    "weights on no device": _each("model", lambda t: t.to("meta")),
    "best float16": _each("best", torch.Tensor.half),
    "best NaN": _each("best", lambda t: t * math.nan),
    "best empty": _with(best={}),
    "best renamed": _renamed("best"),
    "best as lists": _each("best", torch.Tensor.tolist),
    "best expanded to 10**12": _each("best", lambda t: torch.zeros(1).expand(10**12)),
    "best of None": _with(best=None),
    "best a number": _with(best=15),
    "moments transposed": _moments("exp_avg", lambda t: t.T.contiguous() if t.dim() == 2 else t[:-1]),
    "moments of one number": _moments("exp_avg", lambda t: t.flatten()[:1]),
    "moments empty": _moments("exp_avg_sq", lambda t: torch.zeros(0)),
    "moments float16": _moments("exp_avg", torch.Tensor.half),
    "moments NaN": _moments("exp_avg", lambda t: t * math.nan),
    "squares negative": _moments("exp_avg_sq", lambda t: -t - 1),
    "squares infinite": _moments("exp_avg_sq", lambda t: t + math.inf),
    "moments numbers": _moments("exp_avg", lambda t: 0.5),
    "moments at step -1": _moments("step", lambda t: t * 0 - 1),
    "moments at step 1e30": _moments("step", lambda t: t * 0 + 1e30),
    "moments at step NaN": _moments("step", lambda t: t * math.nan),
    "moments at many steps": _moments("step", lambda t: t.expand(7)),
    "moments expanded to 10**12": _moments("exp_avg", lambda t: torch.zeros(1).expand(10**12)),
    "no moments": _with(optimizer={}),
    "moments renamed": _renamed("optimizer"),
    "moments by number": lambda parts: parts.update(optimizer=dict(enumerate(parts["optimizer"].values()))),
    "another optimizer": _with(identity__train__optimizer="muon"),
    "an unknown optimizer": _with(identity__train__optimizer="Sophia"),
    "an unknown schedule": _with(identity__train__schedule="linear"),
    "windows without end": _with(identity__train__windows=((math.inf, 4),)),
    "a generator of zeros": _generator("batches", torch.zeros_like),
    "a generator of garbage": _generator("batches", _garbage),
    "a generator too short": _generator("batches", lambda s: s[:100]),
    "a generator of floats": _generator("batches", torch.Tensor.float),
    "a generator that reads behind its end": _generator("batches", _huge_index),
    "dropout's generator of garbage": _generator("dropout", _garbage),
    "dropout's generator a text": _generator("dropout", lambda s: "seed"),
    "dropout's generator that reads behind its end": _generator("dropout", _huge_index),
    "no generators": _with(generators={}),
    "a state that holds itself": _cyclic,
    "seconds below zero": _with(seconds=-1.0),
    "an unknown part": _with(extra=1),
}  # fmt: skip


def _momenta(function: Callable[[torch.Tensor], object]) -> Callable[[dict], None]:
    def change(parts: dict):
        for kept in parts["optimizer"].values():
            if "momentum" in kept:
                kept["momentum"] = function(kept["momentum"])

    return change


def _momenta_renamed(parts: dict) -> None:
    for kept in parts["optimizer"].values():
        if "momentum" in kept:
            kept["momentum_buffer"] = kept.pop("momentum")


def _adamws_for_muons(parts: dict) -> None:
    for kept in parts["optimizer"].values():
        if "momentum" in kept:
            matrix = kept.pop("momentum")
            step = torch.tensor(float(parts["step"]))
            kept.update(step=step, exp_avg=torch.zeros_like(matrix), exp_avg_sq=torch.zeros_like(matrix))


def _muons_for_adamws(parts: dict) -> None:
    parts["optimizer"] = {name: {"momentum": weight.clone()} for name, weight in parts["model"].items()}


def _momenta_in_one_place(parts: dict) -> None:
    first: dict[tuple, torch.Tensor] = {}
    for kept in parts["optimizer"].values():
        if "momentum" in kept:
            kept["momentum"] = first.setdefault(tuple(kept["momentum"].shape), kept["momentum"])


MUON_STATES: dict[str, Callable[[dict], None]] = {
    "momenta transposed": _momenta(lambda t: t.T.contiguous() if t.shape[0] != t.shape[1] else t[:-1]),
    "momenta with rows and columns exchanged": _momenta(lambda t: t.mT.contiguous().mT),
    "momenta of one number": _momenta(lambda t: t.flatten()[:1]),
    "momenta of one number that claim to be many": _momenta(lambda t: torch.zeros(1).expand(t.shape)),
    "momenta expanded to 10**12": _momenta(lambda t: torch.zeros(1).expand(10**12)),
    "momenta float16": _momenta(torch.Tensor.half),
    "momenta NaN": _momenta(lambda t: t * math.nan),
    "momenta infinite": _momenta(lambda t: t + math.inf),
    "momenta numbers": _momenta(lambda t: 0.5),
    "momenta sparse": _momenta(lambda t: t.to_sparse()),
    "momenta on no device": _momenta(lambda t: t.to("meta")),
    "momenta renamed": _momenta_renamed,
    "momenta in one place": _momenta_in_one_place,
    "AdamW's moments where Muon's belong": _adamws_for_muons,
    "Muon's momenta where AdamW's belong": _muons_for_adamws,
    "no moments at all": _with(optimizer={}),
    "AdamW as the optimizer": _with(identity__train__optimizer="adamw"),
    "windows of text": _with(identity__train__windows=(("half", 4),)),
    "a window wider than any": _with(identity__train__windows=((0.5, 10**9),)),
    "a window of nothing": _with(identity__train__windows=((0.5, 0),)),
    "a list of windows": _with(identity__train__windows=[[0.5, 4]]),
    "tables without end": _with(identity__model__bigrams=10**12),
    "another table": _with(identity__model__bigrams=99),
    "no table": _with(identity__model__bigrams=0),
    "1,000 tables of the tokens before": _with(identity__model__before=1000),
    "a plain model": lambda parts: [
        parts["identity"]["model"].pop(name) for name in list(parts["identity"]["model"]) if name not in small.SIZES
    ],
}


# ---------------------------------------------------------------- archives that were made by hand
def _rewritten(change: Callable[[str, bytes], bytes | None], compression: int = zipfile.ZIP_STORED) -> bytes:
    """The checkpoint with other files in its archive, signed anew."""
    packed = io.BytesIO()
    source = PLAIN.half / "checkpoint.pt"
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(packed, "w", compression) as new:
        for name in old.namelist():
            if (content := change(name, old.read(name))) is not None:
                new.writestr(name, content)
    return checkpoint.sign(packed.getvalue())


def _pickled(content: bytes) -> bytes:
    return _rewritten(lambda name, old: content if name.endswith("data.pkl") else old)


def _bomb() -> bytes:
    return _rewritten(lambda name, old: b"\0" * 300_000_000 if name.endswith("/0") else old, zipfile.ZIP_DEFLATED)


ARCHIVES: dict[str, Callable[[], bytes]] = {
    "compressed": lambda: _rewritten(lambda name, old: old, zipfile.ZIP_DEFLATED),
    "a zip bomb": _bomb,
    "a storage cut off": lambda: _rewritten(lambda name, old: old[:10] if name.endswith("/0") else old),
    "a storage left out": lambda: _rewritten(lambda name, old: None if name.endswith("/0") else old),
    "no pickle": lambda: _rewritten(lambda name, old: None if name.endswith("data.pkl") else old),
    "an empty pickle": lambda: _pickled(b""),
    "half a pickle": lambda: _rewritten(lambda name, old: old[: len(old) // 2] if name.endswith("data.pkl") else old),
    "100,000 lists in one another": lambda: _pickled(b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b"."),
    "a pickle that asks for 4 GB": lambda: _pickled(b"\x80\x02X\xff\xff\xff\xffabc."),
    "a pickle that asks for 2**60 bytes": lambda: _pickled(b"\x80\x04\x8d" + (2**60).to_bytes(8, "little") + b"abc."),
    "a frame of 2**60 bytes": lambda: _pickled(b"\x80\x04\x95" + (2**60).to_bytes(8, "little") + b"N."),
    "a memo index of 2**31": lambda: _pickled(b"\x80\x02Nr\xff\xff\xff\x7f."),
    "an int of 10**6 digits": lambda: _pickled(b"\x80\x02I" + b"9" * 10**6 + b"\n."),
    "no zip at all": lambda: checkpoint.sign(b"PK\5\6" + b"\0" * 18),
    "a list": lambda: signed_state([1, 2]),
    "a tensor": lambda: signed_state(torch.zeros(3)),
    "a text": lambda: signed_state("state"),
    "None": lambda: signed_state(None),
    "another's checkpoint": lambda: signed_state({"model": {}, "iter_num": 3, "config": {}}),
    "weights alone": lambda: signed_state(state()["best"]),
    "an ordered dict": lambda: signed_state(collections.OrderedDict(model=torch.zeros(2))),
    "a whole model": lambda: signed_state(torch.nn.Linear(2, 2)),
    "no checksum": lambda: signed_state(state())[:-71] + b"\0" * 71,
    "the checksum of nothing": lambda: signed_state(state())[:-64] + hashlib.sha256(b"").hexdigest().encode(),
    "a checksum in capitals": lambda: signed_state(state())[:-64] + signed_state(state())[-64:].upper(),
}


@group("hostile states", count=300, quick=12, seconds=15)
def hostile_states(k: int, random: Random, folder: Path) -> tuple[str, Attempt]:
    by_hand = [(PLAIN, name) for name in (*STATES, *ARCHIVES)] + [(MUON, name) for name in MUON_STATES]
    Random(1).shuffle(by_hand)  # so that the first few are of both kinds
    kind, name = by_hand[k] if k < len(by_hand) else (random.choice((PLAIN, MUON)), "")
    if name in ARCHIVES:
        content = ARCHIVES[name]()
    elif name:
        parts = state(kind)
        (STATES if kind is PLAIN else MUON_STATES)[name](parts)
        content = signed_state(parts)
    else:
        name, content = _one_thing_wrong(random, kind)
    return f"{kind.preset}: {name}", lambda: refused_by_both(content, folder, kind)
