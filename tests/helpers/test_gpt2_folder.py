"""GPT-2's files: read, written with, refused when damaged; results equal `transformers`'."""

import json
import warnings

import pytest
import safetensors.torch
import tokenizers
import torch
from gpt2_formulas import CONFIGS, START, close, config_of, formulas, some_tokens, weights_of

from helpers import gpt2
from helpers.commands import command
from helpers.errors import CorpusError, RunError
from helpers.sampling import generate, pieces


# ---------------------------------------------------------------- the folder
def byte_letters() -> list[str]:
    """The letters that byte-level BPE writes the 256 bytes with, byte by byte."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = iter(range(256, 512))
    return [chr(byte if byte in kept else next(rest)) for byte in range(256)]


@pytest.fixture
def folder(tmp_path):
    """Like GPT-2's: masks among weights, no prefix, no head; 256 bytes, 3 merges, 1 special."""
    config = config_of(n_positions=12)
    weights = weights_of(config) | {f"h.{i}.attn.bias": torch.ones(1, 1, 12, 12).tril() for i in range(2)}
    safetensors.torch.save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    vocab = {t: i for i, t in enumerate([*byte_letters(), "th", "the", "Ġthe", START])}
    tokenizer = tokenizers.implementations.ByteLevelBPETokenizer(vocab, [("t", "h"), ("th", "e"), ("Ġ", "the")])
    tokenizer.add_special_tokens([START])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_the_tokenizer_gives_bytes_and_merges(folder):
    _, tokenizer = gpt2.load(folder)
    assert tokenizer.encode(f"the theé{START}").tolist() == [257, 258, *"é".encode(), 259]
    for text in ("the other thé, 中文\n\t👩‍🚀 ", START, "", "\x00\x7f"):
        assert tokenizer.decode(tokenizer.encode(text).tolist()) == text
    with pytest.raises(CorpusError, match="no text in Unicode"):
        tokenizer.encode("a\udcff")


@torch.no_grad()
def test_a_folder_gives_the_model(folder):
    model, _ = gpt2.load(str(folder))
    config = json.loads((folder / "config.json").read_text())
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    assert close(model(some_tokens(config)), formulas(weights, config, some_tokens(config)))


def options_of(folder, *options: object) -> list[str]:
    return ["--weights", str(folder), *map(str, options)]


def test_the_command_prints_the_prompt_and_what_is_drawn(folder, capsys):
    model, tokenizer = gpt2.load(folder)
    for prompt, length, seed in (("the other", 40, 3), (None, 25, 1)):
        options = [
            "--length",
            length,
            "--seed",
            seed,
            "--temperature",
            1.3,
            "--top-k",
            99,
            "--top-p",
            0.9,
        ]
        assert command(gpt2.main, options_of(folder, *options, *(["--prompt", prompt] if prompt else []))) == 0
        tokens = generate(
            model,
            start := tokenizer.encode(prompt or START),
            length,
            **{"temperature": 1.3, "top_k": 99, "top_p": 0.9, "use_cache": False},
            generator=torch.Generator().manual_seed(seed),
        )
        assert capsys.readouterr().out == (prompt or "") + tokenizer.decode(tokens[len(start) :].tolist()) + "\n"


def test_a_letter_of_several_tokens_is_printed_whole(folder):
    _, tokenizer = gpt2.load(folder)
    text = "né 中 👩‍🚀 the\ufffd, and on"
    tokens = tokenizer.encode(text).tolist()
    letters = list(pieces(tokens, tokenizer.decode))
    assert "".join(letters) == text and letters[:3] == ["n", "é", " "] and "中" in letters
    cut = tokens[:6]  # in the middle of a letter
    assert "".join(pieces(cut, tokenizer.decode)) == tokenizer.decode(cut) == "né \ufffd"
    broken = [0xFF] * 40  # never a letter: it must not wait for ever
    assert [len(piece) for piece in pieces(broken, tokenizer.decode)] == [16, 16, 8]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prompt", ""], "the prompt is empty"),
        (["--prompt", "\udcff"], "no text in Unicode"),
        (["--temperature", "0"], "temperature must be"),
        (["--weights", "nowhere"], "nowhere has no file config.json"),
        (["--weights", "~no-such-user/x"], "~no-such-user/x has no file config.json"),
    ],
)
def test_the_command_refuses_in_a_sentence(folder, capsys, options, message):
    assert command(gpt2.main, options_of(folder, *options)) == 2
    output = capsys.readouterr()
    assert (
        output.out == "" and output.err.startswith("error: ") and message in output.err and output.err.count("\n") == 1
    )


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named_and_where_it_is_to_be_had(folder, name):
    (folder / name).unlink()
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch PWNED'\ntR.")
    with pytest.raises(RunError, match=rf"has no file {name}: .*/gpt2 \(a pytorch_model.bin may run any code"):
        gpt2.load(folder)
    (folder / name).mkdir()  # no file either
    with pytest.raises(RunError, match=f"has no file {name}"):
        gpt2.load(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_damaged_file_is_refused_by_name(folder, name):
    whole = (folder / name).read_bytes()
    cuts = [
        b"",
        b"\x00" * 100,
        whole[:-1],
        whole[: len(whole) // 2],
        whole[:7],
        b"[" * 100_000,
        b"\xff" * 50,
        b"null",
    ]
    for cut in cuts:
        (folder / name).write_bytes(cut)
        with pytest.raises(RunError, match=rf"can't read .*{name}, download it again"):
            gpt2.load(folder)


# ---------------------------------------------------------------- against the library
@pytest.fixture(scope="module")
def transformers():
    """The weekly workflow installs it; it must ask no network for anything."""
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


@pytest.mark.weekly
@pytest.mark.parametrize("i", range(len(CONFIGS)))
@torch.no_grad()
def test_it_computes_what_transformers_computes(transformers, i):
    their, tokens = theirs(transformers, CONFIGS[i]), some_tokens(CONFIGS[i])
    for model in (
        gpt2.from_hugging_face(their.state_dict(), their.config.to_dict()),
        gpt2.from_hugging_face(their.transformer.state_dict(), their.config.to_dict()),
    ):
        assert close(model(tokens), their(tokens).logits)


@pytest.mark.weekly
@torch.no_grad()
def test_a_folder_that_transformers_saved_writes_what_transformers_writes(transformers, folder, capsys):
    their = theirs(transformers, CONFIGS[0] | {"n_positions": 64})
    their.save_pretrained(folder)
    tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).model.save(str(folder))
    (folder / "tokenizer.json").unlink()
    their_tokenizer = transformers.GPT2Tokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    their_tokenizer.save_pretrained(folder)
    assert (folder / "tokenizer.json").exists()
    model, tokenizer = gpt2.load(folder)
    prompt = "the other thé"
    ids = torch.tensor([their_tokenizer.encode(prompt)])
    assert tokenizer.encode(prompt).tolist() == ids[0].tolist()
    assert close(model(ids), their(ids).logits)
    tokens = their.generate(ids, max_new_tokens=30, do_sample=False, eos_token_id=None, pad_token_id=0)[0]
    assert command(gpt2.main, options_of(folder, "--prompt", prompt, "--top-k", 1, "--length", 30)) == 0
    assert capsys.readouterr().out == their_tokenizer.decode(tokens) + "\n"
