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
from torch import Tensor, nn

from helpers.commands import command
from helpers.errors import ConfigError, CorpusError, RunError
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
# Masks, of which ours makes its own, and the head, which is wte.
PASSED_OVER = re.compile(r"h\.\d+\.attn\.(masked_)?bias|lm_head\.weight")
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
        for name, our_names in BLOCK.items():
            layers[f"h.{i}.{name}"] = [f"blocks.{i}.{our}" for our in our_names]
    tensors = {}
    for name, our_names in layers.items():
        for kind in ["weight"] if name in ("wte", "wpe") else ["weight", "bias"]:
            tensors[f"{name}.{kind}"] = [f"{our}.{kind}" for our in our_names]
    return tensors


def from_hugging_face(weights: Mapping[str, Tensor], config: dict[str, Any]) -> GPT:
    """GPT-2 from a state dict and the content of config.json, in evaluation mode, without dropout.

    The names may start with "transformer."; masks and lm_head.weight are passed over. RunError names
    a tensor that is missing, left over or of another shape, and an entry of `config` that makes
    another model of it.
    """
    sizes = sizes_of(config)
    mapping = names(sizes.n_layer)
    tensors = {name.removeprefix("transformer."): tensor for name, tensor in weights.items()}
    tensor_names = {name for name in tensors if not PASSED_OVER.fullmatch(name)}
    for name in sorted(mapping.keys() ^ tensor_names):
        verb = "lack" if name in mapping else "hold"
        raise RunError(f"the weights {verb} {name}: a GPT-2 with n_layer={sizes.n_layer} doesn't")
    state = {"head.weight": tensors["wte.weight"]}
    for name, our_names in mapping.items():
        # GPT-2 computes x @ W, nn.Linear x @ W.T
        turned = ".c_" in name and name.endswith("weight")
        parts = (tensors[name].T if turned else tensors[name]).chunk(len(our_names))
        state |= zip(our_names, parts, strict=True)
    model = GPT(sizes)
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise RunError(f"the weights have other shapes than config.json says: {error}") from None
    for block in model.blocks:  # GPT-2 learned with this approximation; ours is the exact function
        block.mlp[1] = nn.GELU(approximate="tanh")
    return model.eval()


def sizes_of(config: dict[str, Any]) -> GPTConfig:
    """The sizes that config.json says. RunError when it says more than sizes: another model."""
    fields: dict[str, Any] = {our: config.get(name) for name, our in SIZES.items()}
    try:
        sizes = GPTConfig(**fields, bias=True)
    except ConfigError as error:
        raise RunError(f"config.json: {error}".replace("context_length", "n_positions")) from None
    expected = PLAIN | {"model_type": "gpt2"}
    if config.get("n_inner") is not None:
        expected["n_inner"] = 4 * sizes.n_embd
    for name, value in expected.items():
        entry = config.get(name, PLAIN.get(name))
        if entry != value:
            raise RunError(f"config.json: {name} must be {value!r} as in GPT-2, not {reprlib.repr(entry)}")
    return sizes


# ---------------------------------------------------------------- the folder
class BytePairTokenizer:
    """Frequent runs of UTF-8 bytes <-> ids, as GPT-2 has them; around one of Hugging Face's."""

    start_of_text = START_OF_TEXT

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer

    def encode(self, text: str) -> Int64[Tensor, "T"]:
        """Ids of `text`; CorpusError when it isn't Unicode, as a terminal may hand over."""
        try:
            ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        except TypeError:
            raise CorpusError(f"this is no text in Unicode: {text!r:.60}") from None
        return torch.tensor(ids, dtype=torch.long)

    def decode(self, ids: Integer[Tensor, "T"] | Sequence[int]) -> str:
        return self.tokenizer.decode([int(i) for i in ids], skip_special_tokens=False)


def load(folder: str | Path) -> tuple[GPT, BytePairTokenizer]:
    """GPT-2 and its tokenizer from a folder with config.json, model.safetensors and tokenizer.json.

    RunError when a file is missing or damaged, or as in `from_hugging_face`. Nothing is ever
    unpickled.
    """
    folder = Path(os.path.expanduser(folder))
    config = _read(folder / "config.json", lambda path: dict(json.loads(Path(path).read_bytes())))
    tokenizer = _read(folder / "tokenizer.json", Tokenizer.from_file)
    weights = _read(folder / "model.safetensors", safetensors.torch.load_file)
    return from_hugging_face(weights, config), BytePairTokenizer(tokenizer)


def _read(path: Path, reader: Callable[[str], Any]) -> Any:
    """What `reader` makes of a file; RunError when it isn't there, or is something else."""
    if not path.is_file():
        raise RunError(f"{path.parent} has no file {path.name}: {FILES}")
    try:
        return reader(str(path))
    except Exception as error:  # each reader has its own
        raise RunError(f"can't read {path}, download it again: {error}") from None


# ---------------------------------------------------------------- the command
def main(arguments: list[str]) -> None:
    parser = options_of("python -m helpers.gpt2", "Write with GPT-2.", "tokens", length=200)
    files = "config.json, model.safetensors, tokenizer.json"
    parser.add_argument("--weights", required=True, help=f"folder with {files}")
    options = parser.parse_args(arguments)
    print_texts(*load(options.weights), options)


if __name__ == "__main__":
    sys.exit(command(main))
