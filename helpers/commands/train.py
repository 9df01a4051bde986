"""python -m helpers.training: train a GPT on a text, into the folder of a run.

python -m helpers.training --preset laptop --corpus FILE --out DIR --seed 1
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from tqdm import tqdm

from helpers.commands.writing import prompt_of
from helpers.core.counted import build_gpt
from helpers.core.data import split
from helpers.core.gpt import count_parameters
from helpers.core.optim import TrainConfig
from helpers.core.precision import has_bfloat16
from helpers.core.sampling import Temperature, stream
from helpers.runs.checkpoint import load_model
from helpers.runs.folder import folder_named, is_run, status, write_sample
from helpers.runs.presets import PRESETS, choose_preset, describe_loss, run_folder
from helpers.runs.state import Facts, Identity
from helpers.runs.train import print_record, train
from helpers.scaling.sharing import Sharing
from helpers.scaling.team import device_of, gathered, one_voice, restarts
from helpers.support import console
from helpers.support.guards import Count, Length, Positive, options
from helpers.world.corpus import open_corpus

SAMPLE = "sample.txt"


def main(arguments: list[str] | None = None) -> int:
    """The command; the exit status is as in `console.command`."""
    return console.command(_command, arguments)


def _command(arguments: list[str]) -> None:
    with one_voice() as store:
        told = _parser().parse_args(arguments)
        _check(told.sample_length, told.temperature, told.accumulate, told.time_out)
        with gathered(store, told.time_out) as team:
            _train(told, Sharing(team, told.accumulate, told.fsdp))


def _train(told: argparse.Namespace, sharing: Sharing) -> None:
    team = sharing.team
    device = device_of(told.device, team)
    preset = choose_preset(told.preset, max_steps=told.max_steps, seed=told.seed, device=device)
    sharing.check(preset.training)
    corpus = open_corpus(told.corpus)
    console.say(corpus)
    tokenizer = corpus.tokenizer
    prompt = prompt_of(told.prompt, tokenizer)
    train_tokens, val_tokens = split(corpus.tokens, preset.model["context_length"])
    torch.manual_seed(preset.training.seed)
    model = build_gpt(preset.model_config(tokenizer.vocab_size, len(train_tokens)))
    folder = run_folder(told.preset, preset, corpus) if told.out is None else folder_named(told.out, "--out")
    facts = Facts(tokenizer, told.preset, corpus)
    console.say(
        f"{count_parameters(model):,} parameters on {_machine(sharing.settings(preset.training))}{_shared_by(sharing)}"
    )
    restarted = team.largest(restarts()) > 0  # torchrun counts on each machine
    resume = team.from_leader(told.resume or (restarted and is_run(folder)))
    with _saying_what_is_kept(lambda: _what_is_kept(folder)):
        if resume and team.leads:
            asked = Identity.of(model, preset.training, train_tokens, val_tokens, facts)
            console.say(status(folder, asked))
        history = train(
            model,
            train_tokens,
            val_tokens,
            preset.training,
            out_dir=folder,
            resume=resume,
            overwrite=told.overwrite and not resume,
            facts=facts,
            on_record=print_record,
            sharing=sharing,
        )
    if not team.leads:
        return
    if sharing.fsdp:  # the others have the rest of this model, and are gone
        model, _ = load_model(folder)
    if not (folder / SAMPLE).exists():  # a finished run that is resumed has its sample
        with _saying_what_is_kept(lambda: f"{console.shown(folder)} keeps the trained model: resume writes the sample"):
            dice = torch.Generator().manual_seed(preset.training.seed)
            start = prompt.to(next(model.parameters()).device)
            letters = stream(model, start, told.sample_length, temperature=told.temperature, generator=dice)
            write_sample(folder, tokenizer.decode([*prompt.tolist(), *_watched(letters, told.sample_length)]))
    console.say(describe_loss(history.best.val_loss, corpus.name, preset))
    console.say(f"---- {console.shown(folder / SAMPLE)} ----")
    console.say((folder / SAMPLE).read_text(encoding="utf-8"))


def _parser() -> argparse.ArgumentParser:
    parser = console.Options(
        prog="python -m helpers.training",
        description="Train a GPT on a text and write config, history, tokenizer, checkpoint and sample into a folder.",
        epilog="presets: " + "; ".join(f"{name}: {preset.about}" for name, preset in PRESETS.items()),
    )
    parser.add_argument("--preset", default="laptop", help=f"size and recipe: {', '.join(PRESETS)} (default: laptop)")
    parser.add_argument("--corpus", help="UTF-8 text, or folder of helpers.data (default: tiny Shakespeare, found)")
    parser.add_argument("--out", help="folder for the run (default: build/runs/ and the preset, with what differs)")
    parser.add_argument("--seed", type=int, default=1, help="for weights, batches, dropout and sample (default: 1)")
    parser.add_argument("--max-steps", type=int, help="number of updates (default: the preset's)")
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda, cuda:N or mps")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out, to the same end")
    parser.add_argument("--overwrite", action="store_true", help="replace the run in --out by a new one")
    parser.add_argument("--accumulate", type=int, default=1, help="cut each batch into N pieces, to save memory")
    parser.add_argument("--fsdp", action="store_true", help="with torchrun: cut the weights too, for large models")
    parser.add_argument("--time-out", type=float, default=300, help="seconds to wait for another process (300)")
    parser.add_argument("--prompt", help="what the sample continues (default: a newline)")
    parser.add_argument("--temperature", type=float, default=0.8, help="of the sample: below 1 is safer (default: 0.8)")
    parser.add_argument("--sample-length", type=int, default=500, help="characters in sample.txt (default: 500)")
    return parser


@options
def _check(sample_length: Length, temperature: Temperature, accumulate: Count, time_out: Positive) -> None:
    """Refuse now what would show only after the training."""


def _shared_by(sharing: Sharing) -> str:
    return f", shared by {sharing}" if sharing.parts > 1 else ""


def _machine(training: TrainConfig) -> str:
    on = f"{training.device}, {torch.get_num_threads()} threads"
    if not training.bfloat16_cpu or torch.device(training.device).type != "cpu":
        return on
    if has_bfloat16():
        return f"{on}, bfloat16"
    return f"{on}, float32 (this processor has no bfloat16: the same steps take about twice as long)"


def _watched(letters: Iterator[int], count: int) -> Iterable[int]:
    """The letters of the sample as they are drawn. In a terminal a bar grows; a log gets a line if they are many."""
    if not sys.stderr.isatty():
        if count > 10_000:
            console.note(f"the model is trained; writing {count:,} letters into {SAMPLE}")
        return letters
    return tqdm(letters, total=count, desc=f"writing {SAMPLE}", unit=" letters", leave=False)


@contextmanager
def _saying_what_is_kept(kept: Callable[[], str]) -> Iterator[None]:
    """A stop inside says what is kept, unless it says so already."""
    try:
        yield
    except console.Stopped as stopped:
        raise console.Stopped(stopped.number, stopped.told or kept()) from None


def _what_is_kept(folder: Path) -> str:
    if not is_run(folder):
        return "nothing was saved yet"
    return f"{console.shown(folder)} keeps what was saved: resume continues from there"
