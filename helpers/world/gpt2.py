"""GPT-2 in our GPT: the weights that OpenAI published (Radford et al. 2019), as Hugging Face names and stores them.

helpers/commands/gpt2.py writes with them (`make gpt2`).
"""

import json
import os
import reprlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from jaxtyping import Int64
from tokenizers import Tokenizer
from tokenizers.implementations import ByteLevelBPETokenizer
from torch import Tensor, nn

from helpers.core.gpt import GPT, GPTConfig
from helpers.support.errors import CheckpointError, ConfigError, HelpersError, VocabularyError

# Hugging Face's names -> ours
SIZES = {"vocab_size": "vocab_size", "n_positions": "context_length"} | {n: n for n in ("n_layer", "n_head", "n_embd")}
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
PLAIN: dict[str, Any] = {"activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}
PLAIN |= dict.fromkeys(("scale_attn_weights", "tie_word_embeddings"), True)
PLAIN |= dict.fromkeys(("scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"), False)
FILES = (
    "copy config.json, model.safetensors and tokenizer.json from GPT-2's public repository, openai-community/gpt2 "
    "(a pytorch_model.bin may run any code when it is opened, so it never is)"
)


def names(n_layer: int) -> dict[str, list[str]]:
    """The name of each tensor of GPT-2 -> ours: one, or three for c_attn."""
    layers = {**MODEL}
    for i in range(n_layer):
        layers |= {f"h.{i}.{name}": [f"blocks.{i}.{our}" for our in ours] for name, ours in BLOCK.items()}
    return {
        f"{name}.{kind}": [f"{our}.{kind}" for our in ours]
        for name, ours in layers.items()
        for kind in (("weight",) if name in ("wte", "wpe") else ("weight", "bias"))
    }


def from_hugging_face(weights: Mapping[str, Any], config: dict[str, Any]) -> GPT:
    """GPT-2 from a state dict and the content of config.json, in evaluation mode and without dropout.

    The names may start with "transformer."; the masks (attn.bias, attn.masked_bias) are passed over; lm_head.weight may
    be there if it equals wte.weight. CheckpointError names any other tensor that is missing, left over, of another
    shape or type, or not finite, and an entry of `config` that makes another model of it.
    """
    sizes = _sizes(config)
    prefix = "transformer." if "transformer.wte.weight" in weights else ""
    wanted = {prefix + name: ours for name, ours in names(sizes.n_layer).items()}
    masks = {f"{prefix}h.{i}.attn.{name}" for i in range(sizes.n_layer) for name in ("bias", "masked_bias")}
    if lacking := [name for name in wanted if name not in weights]:
        raise CheckpointError(f"the weights lack {lacking[0]}: a GPT-2 with n_layer={sizes.n_layer} has it")
    if "lm_head.weight" in weights:
        wanted["lm_head.weight"] = ["head.weight"]
    if surplus := [name for name in weights if name not in wanted and name not in masks]:
        raise CheckpointError(f"the weights hold {surplus[0]!r}: a GPT-2 with n_layer={sizes.n_layer} has no such one")
    with torch.device("meta"):  # shapes without memory
        shapes = {name: tuple(tensor.shape) for name, tensor in GPT(sizes).state_dict().items()}
    ours: dict[str, Tensor] = {}
    for name, parts in wanted.items():
        turned = ".c_" in name and name.endswith("weight")  # GPT-2 computes x @ W, nn.Linear x @ W.T
        shape = (len(parts) * shapes[parts[0]][0], *shapes[parts[0]][1:])
        _refuse_another(name, weights[name], shape[::-1] if turned else shape)
        ours |= zip(parts, (weights[name].T if turned else weights[name]).chunk(len(parts)), strict=True)
    model = GPT(sizes)
    if infinite := [name for name in wanted if not weights[name].isfinite().all()]:
        raise CheckpointError(f"{infinite[0]} holds NaN or infinity: weights must be finite numbers")
    if not ours.setdefault("head.weight", ours["token_embedding.weight"]).equal(ours["token_embedding.weight"]):
        raise CheckpointError("lm_head.weight differs from wte.weight: GPT-2's head and embedding share one matrix")
    model.load_state_dict(ours)
    for block in model.blocks:
        block.mlp[1] = nn.GELU(approximate="tanh")  # GPT-2 learned with this approximation; ours is the exact function
    return model.eval()


def _sizes(config: dict[str, Any]) -> GPTConfig:
    said: dict[str, Any] = {ours: config.get(name) for name, ours in SIZES.items()}
    try:
        sizes = GPTConfig(**said, bias=True)
    except ConfigError as error:
        raise CheckpointError(f"config.json: {error}".replace("context_length", "n_positions")) from None
    plain = PLAIN | {"model_type": "gpt2", "n_inner": None if config.get("n_inner") is None else 4 * sizes.n_embd}
    for name, allowed in plain.items():
        if (found := config.get(name, PLAIN.get(name))) != allowed:
            raise CheckpointError(f"config.json: {name} must be {allowed!r} as in GPT-2, not {reprlib.repr(found)}")
    return sizes


def _refuse_another(name: str, tensor: Any, shape: tuple[int, ...]) -> None:
    if not isinstance(tensor, Tensor) or tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise CheckpointError(f"{name} must be a tensor of float32, float16 or bfloat16")
    if tensor.shape != shape:
        raise CheckpointError(f"{name} must have the shape {shape}, as config.json says, not {(*tensor.shape,)}")


class BytePairTokenizer:
    """GPT-2's tokenizer, with the methods of `CharTokenizer`: frequent runs of UTF-8 bytes <-> ids."""

    start_of_text = "<|endoftext|>"  # what stands between the documents that GPT-2 read

    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer

    def encode(self, text: str) -> Int64[Tensor, "T"]:
        """Ids of `text`; VocabularyError when it isn't Unicode, which a terminal of another encoding may hand over."""
        try:
            return torch.tensor(self.tokenizer.encode(text, add_special_tokens=False).ids, dtype=torch.long)
        except TypeError:
            raise VocabularyError(f"this is no text in Unicode: {reprlib.repr(text)}") from None

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(list(ids), skip_special_tokens=False)


def load(folder: str | Path) -> tuple[GPT, BytePairTokenizer]:
    """GPT-2 and its tokenizer from a folder with config.json, model.safetensors and tokenizer.json.

    Instead of the last, vocab.json and merges.txt will do. CheckpointError when a file is missing or damaged, or as in
    `from_hugging_face`. Nothing is ever unpickled.
    """
    folder = Path(os.path.expanduser(folder))
    config = _read(folder, _entries, "config.json")
    if not os.path.lexists(folder / "tokenizer.json") and os.path.lexists(folder / "vocab.json"):
        tokenizer = _read(folder, ByteLevelBPETokenizer.from_file, "vocab.json", "merges.txt")
    else:
        tokenizer = _read(folder, Tokenizer.from_file, "tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if not _gives_back_every_byte(tokenizer):
        raise CheckpointError(f"the tokenizer in {folder} is not GPT-2's: text must come back as it went in")
    model = from_hugging_face(_read(folder, safetensors.torch.load_file, "model.safetensors"), config)
    ids = tokenizer.get_vocab()
    if BytePairTokenizer.start_of_text not in ids or max(ids.values()) >= model.config.vocab_size:
        raise CheckpointError(f"the tokenizer in {folder} must know <|endoftext|>, and no id from vocab_size on")
    tokenizer.add_special_tokens([BytePairTokenizer.start_of_text])  # vocab.json doesn't say that it is one
    return model, BytePairTokenizer(tokenizer)


def _entries(path: str) -> dict[str, Any]:
    content = json.loads(Path(path).read_bytes())
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} must hold names and values in braces, as GPT-2's does")
    return content


def _gives_back_every_byte(tokenizer: Any) -> bool:
    said, text = json.loads(tokenizer.to_str())["model"], "".join(map(chr, range(0x180))) + " A\u0e2a\U0001f642"
    encoded = tokenizer.encode(text, add_special_tokens=False).ids
    plain = said["type"] == "BPE" and not said.get("dropout")
    return plain and tokenizer.decode(encoded, skip_special_tokens=False) == text


def _read(folder: Path, how: Callable[..., Any], *files: str) -> Any:
    try:
        for path in (folder / name for name in files):
            if not path.is_file():
                raise CheckpointError(f"{folder} has no file {path.name}: {FILES}")
            if path.stat().st_size > 20_000_000 and path.name != "model.safetensors":
                raise CheckpointError(f"{path} has more than 20 MB: it is not GPT-2's")
        return how(*(str(folder / name) for name in files))
    except (HelpersError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a hostile file raises nearly anything, and a panic of Rust's is no Exception
        why = getattr(error, "strerror", None) or "it is cut off, damaged, or larger than the memory"
        raise CheckpointError(f"can't read {' and '.join(files)} in {folder}: {why}") from None
