"""GPT-2 in our GPT: the weights that OpenAI published (Radford et al. 2019), as Hugging Face names
and stores them.

python -m helpers.gpt2 --weights FOLDER --prompt "Once upon a time"
"""

import json
import os
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
LARGEST = 20_000_000  # bytes of a file without weights
FILES = (
    "copy config.json, model.safetensors and tokenizer.json from GPT-2's public repository, "
    "openai-community/gpt2 (a pytorch_model.bin may run any code when it is opened, so it never is)"
)


class BytePairTokenizer:
    """Frequent runs of UTF-8 bytes <-> ids, as GPT-2 has them; `tokenizer` is one of the library of
    that name."""

    def __init__(self, tokenizer: Any, start_of_text: str = "\n"):
        self.tokenizer = tokenizer
        self.start_of_text = start_of_text

    @property
    def vocab_size(self) -> int:
        return self.tokenizer.get_vocab_size()

    def encode(self, text: str) -> Int64[Tensor, "T"]:
        """Ids of `text`; CorpusError when it isn't Unicode, which a terminal of another encoding
        may hand over."""
        try:
            return torch.tensor(
                self.tokenizer.encode(text, add_special_tokens=False).ids, dtype=torch.long
            )
        except TypeError:
            raise CorpusError(f"this is no text in Unicode: {reprlib.repr(text)}") from None

    def decode(self, ids: Integer[Tensor, "T"] | Sequence[int]) -> str:
        return self.tokenizer.decode([int(i) for i in ids], skip_special_tokens=False)


def gives_back_every_byte(tokenizer: Any) -> bool:
    """Whether a tokenizer of the library merges bytes, in one way only, and changes no text."""
    kind = json.loads(tokenizer.to_str())["model"]
    if kind["type"] != "BPE" or kind.get("dropout"):
        return False
    text = "".join(map(chr, range(0x180))) + " A\u0e2a\U0001f642"
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    return tokenizer.decode(ids, skip_special_tokens=False) == text


def names(n_layer: int) -> dict[str, list[str]]:
    """The name of each tensor of GPT-2 -> ours: one, or three for c_attn."""
    layers = dict(MODEL)
    for i in range(n_layer):
        for name, ours in BLOCK.items():
            layers[f"h.{i}.{name}"] = [f"blocks.{i}.{our}" for our in ours]
    tensors = {}
    for name, ours in layers.items():
        kinds = ["weight"] if name in ("wte", "wpe") else ["weight", "bias"]
        for kind in kinds:
            tensors[f"{name}.{kind}"] = [f"{our}.{kind}" for our in ours]
    return tensors


def from_hugging_face(weights: Mapping[str, Any], config: dict[str, Any]) -> GPT:
    """GPT-2 from a state dict and the content of config.json, in evaluation mode and without
    dropout.

    The names may start with "transformer."; the masks (attn.bias, attn.masked_bias) are passed
    over; lm_head.weight may be there if it equals wte.weight. RunError names any other tensor that
    is missing, left over, of another shape or type, or not finite, and an entry of `config` that
    makes another model of it.
    """
    sizes = _sizes(config)
    wanted = _names_in(weights, sizes.n_layer)
    with torch.device("meta"):  # shapes without memory
        shapes = {name: tensor.shape for name, tensor in GPT(sizes).state_dict().items()}
    state: dict[str, Tensor] = {}
    for name, ours in wanted.items():
        state |= zip(ours, _parts(name, weights[name], len(ours), shapes[ours[0]]), strict=True)
    table = state["token_embedding.weight"]
    head = state.setdefault("head.weight", table)
    if not head.equal(table):
        raise RunError(
            "lm_head.weight differs from wte.weight: GPT-2's head and embedding share one matrix"
        )
    model = GPT(sizes)
    model.load_state_dict(state)
    for block in model.blocks:
        # GPT-2 learned with this approximation; ours is the exact function
        block.mlp[1] = nn.GELU(approximate="tanh")
    return model.eval()


def _sizes(config: dict[str, Any]) -> GPTConfig:
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


def _names_in(weights: Mapping[str, Any], n_layer: int) -> dict[str, list[str]]:
    """`names` as these weights write them; RunError when one is missing or left over."""
    prefix = "transformer." if "transformer.wte.weight" in weights else ""
    wanted = {prefix + name: ours for name, ours in names(n_layer).items()}
    for name in wanted:
        if name not in weights:
            raise RunError(f"the weights lack {name}: a GPT-2 with n_layer={n_layer} has it")
    if "lm_head.weight" in weights:
        wanted["lm_head.weight"] = ["head.weight"]
    masks = {
        f"{prefix}h.{i}.attn.{name}" for i in range(n_layer) for name in ("bias", "masked_bias")
    }
    for name in weights:
        if name not in wanted and name not in masks:
            raise RunError(
                f"the weights hold {name!r}: a GPT-2 with n_layer={n_layer} has no such one"
            )
    return wanted


def _parts(name: str, tensor: Any, count: int, part: tuple[int, ...]) -> tuple[Tensor, ...]:
    """A tensor of GPT-2 cut into `count` of ours, each of the shape `part`. RunError for one that
    isn't so."""
    if not isinstance(tensor, Tensor) or tensor.dtype not in (
        torch.float32,
        torch.float16,
        torch.bfloat16,
    ):
        raise RunError(f"{name} must be a tensor of float32, float16 or bfloat16")
    turned = ".c_" in name and name.endswith("weight")  # GPT-2 computes x @ W, nn.Linear x @ W.T
    whole = (count * part[0], *part[1:])
    shape = whole[::-1] if turned else whole
    if tensor.shape != shape:
        raise RunError(
            f"{name} must have the shape {shape}, as config.json says, not {(*tensor.shape,)}"
        )
    if not tensor.isfinite().all():
        raise RunError(f"{name} holds NaN or infinity: weights must be finite numbers")
    return (tensor.T if turned else tensor).chunk(count)


def load(folder: str | Path) -> tuple[GPT, BytePairTokenizer]:
    """GPT-2 and its tokenizer from a folder with config.json, model.safetensors and tokenizer.json.

    Instead of the last, vocab.json and merges.txt will do. RunError when a file is missing or
    damaged, or as in `from_hugging_face`. Nothing is ever unpickled.
    """
    folder = Path(os.path.expanduser(folder))
    config = _read(folder, _entries, "config.json")
    tokenizer = _tokenizer(folder)
    model = from_hugging_face(
        _read(folder, safetensors.torch.load_file, "model.safetensors"), config
    )
    ids = tokenizer.get_vocab()
    if START_OF_TEXT not in ids or max(ids.values()) >= model.config.vocab_size:
        raise RunError(
            f"the tokenizer in {folder} must know <|endoftext|>, and no id from vocab_size on"
        )
    tokenizer.add_special_tokens([START_OF_TEXT])  # vocab.json doesn't say that it is one
    return model, BytePairTokenizer(tokenizer, START_OF_TEXT)


def _tokenizer(folder: Path) -> Any:
    """The tokenizer in a folder, as one file or as two; RunError for one that changes a text."""
    in_two_files = os.path.lexists(folder / "vocab.json") and not os.path.lexists(
        folder / "tokenizer.json"
    )
    if in_two_files:
        tokenizer = _read(folder, ByteLevelBPETokenizer.from_file, "vocab.json", "merges.txt")
    else:
        tokenizer = _read(folder, Tokenizer.from_file, "tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if not gives_back_every_byte(tokenizer):
        raise RunError(
            f"the tokenizer in {folder} is not GPT-2's: text must come back as it went in"
        )
    return tokenizer


def _entries(path: str) -> dict[str, Any]:
    """The content of a file in JSON; RunError unless it is names and values."""
    content = json.loads(Path(path).read_bytes())
    if not isinstance(content, dict):
        raise RunError(f"{path} must hold names and values in braces, as GPT-2's does")
    return content


def _read(folder: Path, reader: Callable[..., Any], *names: str) -> Any:
    """What `reader` makes of files in a folder; RunError when one can't be used."""
    paths = [folder / name for name in names]
    try:
        for path in paths:
            _refuse_another_file(path)
        return reader(*map(str, paths))
    except (HelpersError, KeyboardInterrupt, SystemExit):
        raise
    except (
        BaseException
    ) as error:  # a hostile file raises nearly anything, and a panic of Rust's is no Exception
        why = (
            getattr(error, "strerror", None) or "it is cut off, damaged, or larger than the memory"
        )
        raise RunError(f"can't read {' and '.join(names)} in {folder}: {why}") from None


def _refuse_another_file(path: Path) -> None:
    if not path.is_file():
        raise RunError(f"{path.parent} has no file {path.name}: {FILES}")
    if path.stat().st_size > LARGEST and path.name != "model.safetensors":
        raise RunError(f"{path} has more than 20 MB: it is not GPT-2's")


def main(arguments: list[str]) -> None:
    parser = options_of("python -m helpers.gpt2", "Write with GPT-2.", "tokens", length=200)
    parser.add_argument(
        "--weights",
        required=True,
        help="folder with config.json, model.safetensors, tokenizer.json",
    )
    told = parser.parse_args(arguments)
    print_texts(*load(told.weights), told)


if __name__ == "__main__":
    sys.exit(command(main))
