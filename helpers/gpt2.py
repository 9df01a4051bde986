"""GPT-2 in our GPT: the weights that OpenAI published (Radford et al. 2019), in Hugging Face's form.

python -m helpers.gpt2 --weights FOLDER --prompt "Once upon a time"
"""

import json
import os
import re
import reprlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from jaxtyping import Int64, Integer
from tokenizers import Tokenizer
from tokenizers.implementations import ByteLevelBPETokenizer
from torch import Tensor, nn

from helpers.errors import ConfigError, CorpusError, HelpersError, RunError, command
from helpers.gpt import GPT, GPTConfig
from helpers.sampling import options_of, print_texts

# Hugging Face's names -> ours
SIZES = {
    "vocab_size": "vocab_size",
    "n_positions": "context_length",
    "n_layer": "n_layer",
    "n_head": "n_head",
    "n_embd": "n_embd",
}
MODEL = {"wte": ["token_embedding"], "wpe": ["position_embedding"], "ln_f": ["norm"]}
BLOCK = {
    "ln_1": ["norm1"],
    "attn.c_attn": ["attention.W_query", "attention.W_key", "attention.W_value"],  # side by side
    "attn.c_proj": ["attention.out_proj"],
    "ln_2": ["norm2"],
    "mlp.c_fc": ["mlp.0"],
    "mlp.c_proj": ["mlp.2"],
}
MASK = re.compile(r"h\.\d+\.attn\.(masked_)?bias")  # saved among the weights; ours makes its own
# What else changes the numbers: config.json may leave it out, but say nothing else.
PLAIN: dict[str, Any] = {
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "scale_attn_weights": True,
    "tie_word_embeddings": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
}
START_OF_TEXT = "<|endoftext|>"  # what stands between the documents that GPT-2 read
FILES = (
    "copy config.json, model.safetensors and tokenizer.json from GPT-2's public repository, "
    "openai-community/gpt2 (a pytorch_model.bin may run any code when it is opened, so it never is)"
)


# ---------------------------------------------------------------- the weights
def names(n_layer: int) -> dict[str, list[str]]:
    """The name of each tensor of GPT-2 -> ours: one, or three for c_attn."""
    layers = dict(MODEL)
    for i in range(n_layer):
        for name, ours in BLOCK.items():
            layers[f"h.{i}.{name}"] = [f"blocks.{i}.{our}" for our in ours]
    tensors = {}
    for name, ours in layers.items():
        for kind in ["weight"] if name in ("wte", "wpe") else ["weight", "bias"]:
            tensors[f"{name}.{kind}"] = [f"{our}.{kind}" for our in ours]
    return tensors


def from_hugging_face(weights: Mapping[str, Tensor], config: dict[str, Any]) -> GPT:
    """GPT-2 from a state dict and the content of config.json, in evaluation mode, without dropout.

    The names may start with "transformer."; masks are passed over; lm_head.weight may be there if
    it equals wte.weight. RunError names a tensor that is missing, left over or of another shape,
    and an entry of `config` that makes another model of it.
    """
    sizes = sizes_of(config)
    ours_of = names(sizes.n_layer)
    theirs = {name.removeprefix("transformer."): tensor for name, tensor in weights.items()}
    table = theirs.get("wte.weight")
    head = theirs.pop("lm_head.weight", table)
    for name in ours_of:
        if name not in theirs:
            raise RunError(f"the weights lack {name}: a GPT-2 with n_layer={sizes.n_layer} has it")
    for name in theirs:
        if name not in ours_of and not MASK.fullmatch(name):
            raise RunError(f"the weights hold {name}: a plain GPT-2 has no such one")
    if not torch.equal(head, table):
        raise RunError("lm_head.weight differs from wte.weight: in GPT-2 they are one matrix")

    with torch.device("meta"):  # shapes without memory
        shapes = {name: tensor.shape for name, tensor in GPT(sizes).state_dict().items()}
    state = {"head.weight": table}
    for name, ours in ours_of.items():
        # GPT-2 computes x @ W, nn.Linear x @ W.T
        turned = ".c_" in name and name.endswith("weight")
        parts = (theirs[name].T if turned else theirs[name]).chunk(len(ours))
        for our, part in zip(ours, parts, strict=True):
            if part.shape != shapes[our]:
                raise RunError(f"{name} has another shape than config.json says")
            state[our] = part
    model = GPT(sizes)
    model.load_state_dict(state)
    for block in model.blocks:  # GPT-2 learned with this approximation; ours is the exact function
        block.mlp[1] = nn.GELU(approximate="tanh")
    return model.eval()


def sizes_of(config: dict[str, Any]) -> GPTConfig:
    """The sizes that config.json says. RunError when it says more than sizes: another model."""
    ours: dict[str, Any] = {our: config.get(name) for name, our in SIZES.items()}
    try:
        sizes = GPTConfig(**ours, bias=True)
    except ConfigError as error:
        raise RunError(f"config.json: {error}".replace("context_length", "n_positions")) from None
    expected = PLAIN | {"model_type": "gpt2"}
    if config.get("n_inner") is not None:
        expected["n_inner"] = 4 * sizes.n_embd
    for name, value in expected.items():
        found = config.get(name, PLAIN.get(name))
        if found != value:
            raise RunError(
                f"config.json: {name} must be {value!r} as in GPT-2, not {reprlib.repr(found)}"
            )
    return sizes


# ---------------------------------------------------------------- the folder
class BytePairTokenizer:
    """Frequent runs of UTF-8 bytes <-> ids, as GPT-2 has them; around one of Hugging Face's."""

    start_of_text = START_OF_TEXT

    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer

    def encode(self, text: str) -> Int64[Tensor, "T"]:
        """Ids of `text`; CorpusError when it isn't Unicode, as a terminal may hand over."""
        try:
            ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        except TypeError:
            raise CorpusError(f"this is no text in Unicode: {reprlib.repr(text)}") from None
        return torch.tensor(ids, dtype=torch.long)

    def decode(self, ids: Integer[Tensor, "T"] | Sequence[int]) -> str:
        return self.tokenizer.decode([int(i) for i in ids], skip_special_tokens=False)


def load(folder: str | Path) -> tuple[GPT, BytePairTokenizer]:
    """GPT-2 and its tokenizer from a folder with config.json, model.safetensors and tokenizer.json.

    Instead of the last, vocab.json and merges.txt will do. RunError when a file is missing or
    damaged, or as in `from_hugging_face`. Nothing is ever unpickled.
    """
    folder = Path(os.path.expanduser(folder))
    config = _read(folder, lambda path: dict(json.loads(Path(path).read_bytes())), "config.json")
    if (folder / "vocab.json").exists() and not (folder / "tokenizer.json").exists():
        tokenizer = _read(folder, ByteLevelBPETokenizer.from_file, "vocab.json", "merges.txt")
    else:
        tokenizer = _read(folder, Tokenizer.from_file, "tokenizer.json")
    weights = _read(folder, safetensors.torch.load_file, "model.safetensors")
    model = from_hugging_face(weights, config)
    ids = tokenizer.get_vocab()
    if START_OF_TEXT not in ids or max(ids.values()) >= model.config.vocab_size:
        raise RunError(
            f"the tokenizer in {folder} must know <|endoftext|>, and no id from vocab_size on"
        )
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.add_special_tokens([START_OF_TEXT])  # vocab.json doesn't say that it is one
    return model, BytePairTokenizer(tokenizer)


def _read(folder: Path, reader: Callable[..., Any], *file_names: str) -> Any:
    """What `reader` makes of files in a folder; RunError when one can't be used."""
    paths = [folder / name for name in file_names]
    try:
        for path in paths:
            _refuse_another_file(path)
        return reader(*map(str, paths))
    except (HelpersError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in Rust is no Exception
        why = getattr(error, "strerror", None) or "it is cut off or damaged"
        raise RunError(f"can't read {' and '.join(file_names)} in {folder}: {why}") from None


def _refuse_another_file(path: Path) -> None:
    if not path.is_file():
        raise RunError(f"{path.parent} has no file {path.name}: {FILES}")
    with path.open("rb") as file:
        start = file.read(100).lstrip().lower()
    if start.startswith(b"version https://git-lfs"):
        raise RunError(f"{path} is only a pointer of git-lfs: download the file itself")
    if start.startswith(b"<") and b"\0" not in start:  # what safetensors begin with has zeros
        raise RunError(f"{path} is a web page: download the file itself")


# ---------------------------------------------------------------- the command
def main(arguments: list[str]) -> None:
    options = options_of("python -m helpers.gpt2", "Write with GPT-2.", "tokens", length=200)
    files = "config.json, model.safetensors, tokenizer.json"
    options.add_argument("--weights", required=True, help=f"folder with {files}")
    chosen = options.parse_args(arguments)
    print_texts(*load(chosen.weights), chosen)


if __name__ == "__main__":
    sys.exit(command(main))
