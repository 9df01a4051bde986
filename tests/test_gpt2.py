"""GPT-2's weights in our GPT: the numbers are those of its formulas and of `transformers`; nothing else gets in."""

import json
import math
import os
import warnings
from types import SimpleNamespace

import pytest
import safetensors.torch
import tokenizers
import torch

from helpers import gpt2, sampling
from helpers.errors import CheckpointError, ConfigError, HelpersError, VocabularyError
from helpers.gpt import GPT, GPTConfig

START = "<|endoftext|>"
CONFIGS = [
    {"vocab_size": 260, "n_positions": 16, "n_layer": 2, "n_head": 2, "n_embd": 32},
    {"vocab_size": 300, "n_positions": 9, "n_layer": 1, "n_head": 1, "n_embd": 8},
    {"vocab_size": 261, "n_positions": 24, "n_layer": 3, "n_head": 6, "n_embd": 48},
]


def config_of(i: int = 0, **other) -> dict:
    """As much as the first config.json of GPT-2 says."""
    plain = {"model_type": "gpt2", "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05, "n_ctx": 1024}
    return plain | CONFIGS[i] | other


def weights_of(config: dict, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random weights, no bias 0 and no norm 1; embeddings as small as GPT-2's, so that the norms' epsilon counts."""
    V, T, L, _, C = (config[name] for name in CONFIGS[0])
    shapes = {"wte.weight": (V, C), "wpe.weight": (T, C), "ln_f.weight": (C,), "ln_f.bias": (C,)}
    layers = {"ln_1": (C, None), "attn.c_attn": (C, 3 * C), "attn.c_proj": (C, C), "ln_2": (C, None)}
    for i in range(L):
        for name, (rows, columns) in (layers | {"mlp.c_fc": (C, 4 * C), "mlp.c_proj": (4 * C, C)}).items():
            shapes[f"h.{i}.{name}.weight"] = (rows, columns) if columns else (rows,)
            shapes[f"h.{i}.{name}.bias"] = (columns or rows,)
    generator = torch.Generator().manual_seed(seed)
    scale = {"wte.weight": 0.02, "wpe.weight": 0.02}
    return {name: torch.randn(shape, generator=generator) * scale.get(name, 0.3) for name, shape in shapes.items()}


def formulas(weights: dict[str, torch.Tensor], config: dict, tokens: torch.Tensor) -> torch.Tensor:
    """GPT-2's logits from its own names, formula by formula, in float64."""
    C, H, T = config["n_embd"], config["n_head"], tokens.shape[1]
    w = {name: tensor.double() for name, tensor in weights.items()}

    def norm(x, name):
        x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def conv1d(x, name):
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    def heads(x):
        return x.unflatten(-1, (H, C // H)).transpose(1, 2)

    x = w["wte.weight"][tokens] + w["wpe.weight"][:T]
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    for i in range(config["n_layer"]):
        query, key, value = map(heads, conv1d(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn").split(C, dim=-1))
        scores = (query @ key.transpose(-2, -1) / math.sqrt(C // H)).masked_fill(future, -math.inf)
        x = x + conv1d((scores.softmax(-1) @ value).transpose(1, 2).flatten(2), f"h.{i}.attn.c_proj")
        h = conv1d(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
        gelu = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))  # Hendrycks and Gimpel 2016
        x = x + conv1d(gelu, f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


def some_tokens(config: dict) -> torch.Tensor:
    return torch.randint(config["vocab_size"], (3, config["n_positions"]), generator=torch.Generator().manual_seed(1))


def close(logits: torch.Tensor, wanted: torch.Tensor) -> bool:
    return bool((logits.double() - wanted).abs().max() < 1e-5)


# ---------------------------------------------------------------- the numbers
@pytest.mark.parametrize("i", range(len(CONFIGS)))
@torch.no_grad()
def test_it_computes_what_the_formulas_of_gpt2_say(i):
    config = config_of(i)
    weights, tokens = weights_of(config), some_tokens(config)
    model = gpt2.from_hugging_face(weights, config)
    assert close(model(tokens), formulas(weights, config, tokens)) and not model.training
    cache, pieces = model.new_cache(), tokens.split(4, dim=1)
    assert close(torch.cat([model(piece, cache) for piece in pieces], dim=1), formulas(weights, config, tokens))


@torch.no_grad()
def test_every_way_in_which_the_names_come_is_the_same_model():
    config = config_of()
    weights, tokens = weights_of(config), some_tokens(config)
    masks = {f"h.{i}.attn.bias": torch.ones(1, 1, 16, 16).tril() for i in range(2)}
    masks |= {f"h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(2)}
    head = {"lm_head.weight": weights["wte.weight"]}
    for buffers in ({}, masks):
        for prefix in ("", "transformer."):
            prefixed = {prefix + name: tensor for name, tensor in (weights | buffers).items()}
            for whole in (prefixed, prefixed | head):
                model = gpt2.from_hugging_face(whole, config | {"n_inner": None, "tie_word_embeddings": True})
                assert close(model(tokens), formulas(weights, config, tokens))
                assert model.head.weight is model.token_embedding.weight
    given = {name: tensor.clone() for name, tensor in weights.items()}
    torch.nn.init.zeros_(gpt2.from_hugging_face(weights, config).token_embedding.weight)
    assert all(given[name].equal(weights[name]) for name in weights)  # the caller's tensors are not ours


@torch.no_grad()
def test_half_precision_is_widened():
    config = config_of()
    for kind in (torch.float16, torch.bfloat16):
        weights, tokens = {name: tensor.to(kind) for name, tensor in weights_of(config).items()}, some_tokens(config)
        model = gpt2.from_hugging_face(weights, config)
        assert model.norm.weight.dtype == torch.float32 and close(model(tokens), formulas(weights, config, tokens))


def test_the_names_cover_our_model():
    ours = GPT(GPTConfig(7, 5, n_layer=3, n_head=2, n_embd=4, bias=True)).state_dict().keys()
    mapped = [name for group in gpt2.names(3).values() for name in group]
    assert sorted(mapped) == sorted(ours - {"head.weight"})


# ---------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"model_type": "gpt_neo"}, "model_type must be 'gpt2' as in GPT-2, not 'gpt_neo'"),
        ({"model_type": None}, "model_type must be 'gpt2'"),
        ({"activation_function": "gelu"}, "activation_function must be 'gelu_new' as in GPT-2, not 'gelu'"),
        ({"activation_function": None}, "activation_function must be 'gelu_new'"),
        ({"layer_norm_epsilon": 1e-6}, "layer_norm_epsilon must be 1e-05 as in GPT-2, not 1e-06"),
        ({"scale_attn_weights": False}, "scale_attn_weights must be True"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx must be False"),
        ({"reorder_and_upcast_attn": True}, "reorder_and_upcast_attn must be False"),
        ({"add_cross_attention": True}, "add_cross_attention must be False"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings must be True"),
        ({"n_inner": 64}, "n_inner must be 128 as in GPT-2, not 64"),
        ({"n_layer": "2"}, "config.json: n_layer must be a whole number from 1 to 1,000, not '2'"),
        ({"n_layer": 3}, r"the weights lack h.2.ln_1.weight: a GPT-2 with n_layer=3 has it"),
        ({"n_layer": 1}, r"the weights hold 'h.1.ln_1.weight': a GPT-2 with n_layer=1 has no such one"),
        ({"n_head": 5}, "config.json: n_head=5 does not divide n_embd=32"),
        ({"n_head": 0}, "n_head must be a whole number from 1"),
        ({"n_embd": 64}, r"wte.weight must have the shape \(260, 64\), as config.json says, not \(260, 32\)"),
        ({"n_embd": math.nan}, "n_embd must be a whole number"),
        ({"n_positions": 17}, r"wpe.weight must have the shape \(17, 32\), as config.json says, not \(16, 32\)"),
        ({"n_positions": 10**9}, "n_positions must be a whole number from 1 to 16,384, not 1000000000"),
        ({"vocab_size": 50257}, "wte.weight must have the shape"),
        ({"vocab_size": 10**30}, "vocab_size must be a whole number from 1 to"),
        ({"vocab_size": None}, "vocab_size must be a whole number"),
        ({"n_layer": 1000, "n_embd": 16384}, "the weights lack h.2.ln_1.weight"),
        ({"vocab_size": 1_000_000, "n_embd": 16384, "n_positions": 16384}, "wte.weight must have the shape"),
    ],
)
def test_a_config_of_another_model_is_refused_by_its_entry(other, message):
    with pytest.raises(CheckpointError, match=message):
        gpt2.from_hugging_face(weights_of(config_of()), config_of(**other))


def test_every_size_and_the_type_must_be_said():
    for name in ("model_type", *CONFIGS[0]):
        config = config_of()
        del config[name]
        with pytest.raises(CheckpointError, match=f"config.json: {name} must be .* not None"):
            gpt2.from_hugging_face(weights_of(config_of()), config)


@pytest.mark.parametrize("name", weights_of(config_of()))
def test_every_weight_is_needed_whole(name):
    config, weights = config_of(), weights_of(config_of())
    with pytest.raises(CheckpointError, match=f"the weights lack {name}"):
        gpt2.from_hugging_face({other: tensor for other, tensor in weights.items() if other != name}, config)
    first = (0,) * weights[name].ndim
    for wrong, message in (
        (weights[name][None], "must have the shape"),
        (weights[name][:-1], "must have the shape"),
        (weights[name].index_put([torch.tensor([i]) for i in first], torch.tensor(math.nan)), "holds NaN or infinity"),
        (weights[name].index_put([torch.tensor([i]) for i in first], torch.tensor(-math.inf)), "holds NaN or infinity"),
        (weights[name].double(), "must be a tensor of float32, float16 or bfloat16"),
        (weights[name].to(torch.int8), "must be a tensor of float32, float16 or bfloat16"),
        (weights[name].tolist(), "must be a tensor of float32, float16 or bfloat16"),
    ):
        with pytest.raises(CheckpointError, match=f"^{name} {message}"):
            gpt2.from_hugging_face(weights | {name: wrong}, config)


@pytest.mark.parametrize("name", ["h.0.mlp.c_fc.weight", "h.1.attn.c_attn.weight"])
def test_a_matrix_that_is_turned_already_is_refused(name):
    weights = weights_of(config_of())
    with pytest.raises(CheckpointError, match=f"{name} must have the shape"):
        gpt2.from_hugging_face(weights | {name: weights[name].T}, config_of())


@pytest.mark.parametrize(
    "name",
    ["h.0.crossattention.c_attn.weight", "h.0.attn.bias2", "h.2.attn.bias", "transformer.ln_f.bias", "score.weight", 7],
)
def test_a_weight_too_many_is_refused(name):
    with pytest.raises(CheckpointError, match=r"the weights hold .*: a GPT-2 with n_layer=2 has no such one"):
        gpt2.from_hugging_face(weights_of(config_of()) | {name: torch.zeros(32)}, config_of())


def test_two_sets_of_names_at_once_are_refused():
    weights = weights_of(config_of())
    with pytest.raises(CheckpointError, match=r"the weights hold 'wte.weight'"):
        gpt2.from_hugging_face(weights | {f"transformer.{n}": tensor for n, tensor in weights.items()}, config_of())


def test_a_head_of_its_own_is_refused():
    weights = weights_of(config_of())
    with pytest.raises(CheckpointError, match=r"lm_head.weight differs from wte.weight"):
        gpt2.from_hugging_face(weights | {"lm_head.weight": weights["wte.weight"] + 1}, config_of())
    with pytest.raises(CheckpointError, match=r"lm_head.weight must have the shape"):
        gpt2.from_hugging_face(weights | {"lm_head.weight": weights["wte.weight"][1:]}, config_of())


def test_no_state_dict_and_no_config():
    for weights, config in ((None, config_of()), ([], config_of()), ({}, None), ({}, [])):
        with pytest.raises(Exception, match=r"(weights|config)"):  # annotations are checked twice as the tests run
            gpt2.from_hugging_face(weights, config)


# ---------------------------------------------------------------- the folder
def byte_letters() -> list[str]:
    """The letters that byte-level BPE writes the 256 bytes with, byte by byte."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = iter(range(256, 512))
    return [chr(byte if byte in kept else next(rest)) for byte in range(256)]


@pytest.fixture
def folder(tmp_path):
    """A folder as GPT-2's own: masks among the weights, no prefix, no head; 256 bytes, 3 merges, one special token."""
    config = config_of(n_positions=12)
    weights = weights_of(config) | {f"h.{i}.attn.bias": torch.ones(1, 1, 12, 12).tril() for i in range(2)}
    safetensors.torch.save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    vocab = {token: i for i, token in enumerate([*byte_letters(), "th", "the", "Ġthe", START][: config["vocab_size"]])}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab), "utf-8")
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h\nth e\nĠ the\n", "utf-8")
    return tmp_path


def as_one_file(folder):
    """tokenizer.json instead of vocab.json and merges.txt."""
    tokenizer = tokenizers.implementations.ByteLevelBPETokenizer.from_file(
        str(folder / "vocab.json"), str(folder / "merges.txt")
    )
    tokenizer.add_special_tokens([START])
    tokenizer.enable_truncation(3)  # training may have left it there
    tokenizer.enable_padding(length=7)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "vocab.json").unlink()
    (folder / "merges.txt").unlink()
    return folder


def test_the_tokenizer_gives_bytes_and_merges_either_way(folder):
    for place in (folder, as_one_file(folder)):
        _, tokenizer = gpt2.load(place)
        assert tokenizer.encode(f"the theé{START}").tolist() == [257, 258, *"é".encode(), 259]
        for text in ("the other thé, 中文\n\t👩‍🚀 ", START, "", "\x00\x7f"):
            assert tokenizer.decode(tokenizer.encode(text).tolist()) == text
        with pytest.raises(VocabularyError, match="no text in Unicode"):
            tokenizer.encode("a\udcff")


@pytest.mark.parametrize("change", [{"normalizer": {"type": "Lowercase"}}, {"dropout": 0.5}])
def test_a_tokenizer_that_changes_the_text_is_refused(folder, change):
    path = as_one_file(folder) / "tokenizer.json"
    written = json.loads(path.read_text("utf-8"))
    (written["model"] if "dropout" in change else written).update(change)
    path.write_text(json.dumps(written), "utf-8")
    with pytest.raises(CheckpointError, match="is not GPT-2's: text must come back as it went in"):
        gpt2.load(folder)


@torch.no_grad()
def test_a_folder_gives_the_model(folder):
    model, _ = gpt2.load(str(folder))
    config = json.loads((folder / "config.json").read_text())
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    assert close(model(some_tokens(config)), formulas(weights, config, some_tokens(config)))


def command(folder, *options: object) -> list[str]:
    return ["--weights", str(folder), *map(str, options)]


def test_the_command_prints_the_prompt_and_what_is_drawn(folder, capsys):
    model, tokenizer = gpt2.load(folder)
    for prompt, length, seed in (("the other", 40, 3), (None, 25, 1)):
        options = ["--length", length, "--seed", seed, "--temperature", 1.3, "--top-k", 99, "--top-p", 0.9]
        assert gpt2.main(command(folder, *options, *(["--prompt", prompt] if prompt else []))) == 0
        drawn = sampling.generate(
            model,
            start := tokenizer.encode(prompt or START),
            length,
            **{"temperature": 1.3, "top_k": 99, "top_p": 0.9, "use_cache": False},
            generator=torch.Generator().manual_seed(seed),
        )
        assert capsys.readouterr().out == (prompt or "") + tokenizer.decode(drawn[len(start) :].tolist()) + "\n"


def test_a_letter_of_several_tokens_is_printed_whole(folder):
    _, tokenizer = gpt2.load(folder)
    text = "né 中 👩‍🚀 the\ufffd, and on"
    tokens = tokenizer.encode(text).tolist()
    shown = list(sampling.pieces(tokens, tokenizer.decode))
    assert "".join(shown) == text and shown[:3] == ["n", "é", " "] and "中" in shown
    cut = tokens[:6]  # in the middle of a letter
    assert "".join(sampling.pieces(cut, tokenizer.decode)) == tokenizer.decode(cut) == "né \ufffd"
    broken = [0xFF] * 40  # never a letter: it must not wait for ever
    assert [len(piece) for piece in sampling.pieces(broken, tokenizer.decode)] == [16, 16, 8]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prompt", ""], "the prompt is empty"),
        (["--prompt", "\udcff"], "no text in Unicode"),
        (["--temperature", "0"], "temperature must be"),
        (["--top-k", "0"], "top_k must be"),
        (["--top-p", "nan"], "top_p must be"),
        (["--length", "-1"], "max_new_tokens must be"),
        (["--seed", "-1"], "seed must be"),
        (["--num-samples", "0"], "num_samples must be"),
        (["--weights", "nowhere"], "nowhere has no file config.json"),
        (["--weights", "~no-such-user/x"], "~no-such-user/x has no file config.json"),
    ],
)
def test_the_command_refuses_in_a_sentence(folder, capsys, options, message):
    assert gpt2.main(command(folder, *options)) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("error: ") and message in said.err and said.err.count("\n") == 1


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.json", "merges.txt"])
def test_a_missing_file_is_named_and_where_it_is_to_be_had(folder, name):
    (folder / name).unlink()
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch PWNED'\ntR.")
    wanted = "tokenizer.json" if name == "vocab.json" else name
    with pytest.raises(CheckpointError, match=rf"has no file {wanted}: .*/gpt2 \(a pytorch_model.bin may run any code"):
        gpt2.load(folder)
    (folder / name).mkdir()  # no file either
    with pytest.raises(CheckpointError, match=f"has no file {name}"):
        gpt2.load(folder)


def test_a_pipe_is_no_file(folder):
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")  # reading it would wait for ever
    with pytest.raises(CheckpointError, match=r"has no file config.json"):
        gpt2.load(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.json", "merges.txt", "tokenizer.json"])
def test_a_damaged_file_is_refused_by_name(folder, name):
    if name == "tokenizer.json":
        as_one_file(folder)
    whole = (folder / name).read_bytes()
    cuts = [b"", b"\x00" * 100, whole[:-1], whole[: len(whole) // 2], whole[:7], b"[" * 100_000, b"\xff" * 50, b"null"]
    if name == "merges.txt":
        cuts = [b"\xff\xfe", b"t h e", b"x y\n" * 5, b"t q"]
    for cut in cuts:
        (folder / name).write_bytes(cut)
        with pytest.raises(HelpersError, match=r"(can't read .*it is cut off, damaged|config must be a dict)"):
            gpt2.load(folder)


def test_a_header_may_not_lie_about_sizes(folder):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for wrong in (2**63, len(whole), 100_000_001, 3):
        path.write_bytes(wrong.to_bytes(8, "little") + whole[8:])
        with pytest.raises(CheckpointError, match=r"can't read model.safetensors in .*: it is cut off, damaged"):
            gpt2.load(folder)


def test_a_gigantic_file_is_refused(folder):
    os.truncate(folder / "vocab.json", 10**12)  # takes no room on the disk
    with pytest.raises(CheckpointError, match=r"vocab.json has more than 20 MB"):
        gpt2.load(folder)


def test_weights_that_no_memory_holds_are_refused_before_they_are_read(monkeypatch):
    config = config_of(vocab_size=1_000_000, n_embd=16_384, n_layer=1)
    shapes = {name: tensor.shape for name, tensor in weights_of(config_of(n_layer=1)).items()}
    sizes = {260: 1_000_000} | {k * 32: k * 16_384 for k in (1, 3, 4)}
    huge = {name: torch.zeros(1).expand([sizes.get(n, n) for n in shape]) for name, shape in shapes.items()}
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=32e9))
    with pytest.raises(ConfigError, match="a model of this size takes 78 GB, and this machine has 32"):
        gpt2.from_hugging_face(huge, config)


def test_another_models_tokenizer_is_refused(folder):
    vocab = json.loads((folder / "vocab.json").read_text("utf-8"))
    for wrong in (vocab | {"more": 260}, {token: i for token, i in vocab.items() if token != START}):
        (folder / "vocab.json").write_text(json.dumps(wrong), "utf-8")
        with pytest.raises(CheckpointError, match=r"must know <\|endoftext\|>, and no id from vocab_size on"):
            gpt2.load(folder)


# ---------------------------------------------------------------- against the library
@pytest.fixture(scope="module")
def transformers():
    """Slow to import; it must ask no network for anything."""
    patch = pytest.MonkeyPatch()
    patch.setenv("HF_HUB_OFFLINE", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import transformers
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    yield transformers
    patch.undo()


def theirs(transformers, config: dict):
    torch.manual_seed(0)
    ids = {"bos_token_id": config["vocab_size"] - 1, "eos_token_id": config["vocab_size"] - 1}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**CONFIGS[0] | config | ids))
    model.load_state_dict({f"transformer.{n}": t for n, t in weights_of(config).items()}, strict=False)
    return model.eval()


@pytest.mark.slow
@pytest.mark.parametrize("i", range(len(CONFIGS)))
@torch.no_grad()
def test_it_computes_what_transformers_computes(transformers, i):
    their, tokens = theirs(transformers, CONFIGS[i]), some_tokens(CONFIGS[i])
    for model in (
        gpt2.from_hugging_face(their.state_dict(), their.config.to_dict()),
        gpt2.from_hugging_face(their.transformer.state_dict(), their.config.to_dict()),
    ):
        assert close(model(tokens), their(tokens).logits)


@pytest.mark.slow
@torch.no_grad()
def test_a_folder_that_transformers_saved_writes_what_transformers_writes(transformers, folder, capsys):
    their = theirs(transformers, CONFIGS[0] | {"n_positions": 64})
    their.save_pretrained(folder)
    their_tokenizer = transformers.GPT2Tokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    their_tokenizer.save_pretrained(folder)
    assert (folder / "tokenizer.json").exists()
    model, tokenizer = gpt2.load(folder)
    prompt = "the other thé"
    ids = torch.tensor([their_tokenizer.encode(prompt)])
    assert tokenizer.encode(prompt).tolist() == ids[0].tolist()
    assert close(model(ids), their(ids).logits)
    written = their.generate(ids, max_new_tokens=30, do_sample=False, eos_token_id=None, pad_token_id=0)[0]
    assert gpt2.main(command(folder, "--prompt", prompt, "--top-k", 1, "--length", 30)) == 0
    assert capsys.readouterr().out == their_tokenizer.decode(written) + "\n"
