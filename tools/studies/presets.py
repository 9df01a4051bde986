"""Train the three-minute presets with some seeds; store losses and texts for notebook 08.

python -m tools.studies presets            both
python -m tools.studies presets counted    one of them

The runs are ordinary ones, in build/runs: those that are there already go on, and one that is
finished is only read.
"""

import math
import sys
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor, nn

from helpers import checkpoint, commands, files, training
from helpers.checkpoint import is_run
from helpers.commands import Options, say
from helpers.counted import CountedGPT
from helpers.counting import KneserNey
from helpers.data import CharTokenizer, Corpus, first_to_validate, load_corpus, split
from helpers.gpt import GPT, evaluating
from helpers.loss import evaluate
from helpers.optim import has_bfloat16
from helpers.presets import choose_preset, run_folder
from helpers.sampling import generate
from helpers.tables import MEASURED, csv_table
from tools.studies.header import header

# For counted: seeds that played no part in choosing its settings.
SEEDS = {
    "three-minutes": (1, 2),
    "counted": (21, 22, 23),
}
LENGTH = 420
TEMPERATURE = 0.8
TOP_P = 0.9


def main(arguments: list[str]) -> None:
    parser = Options(prog="python -m tools.studies presets", description=__doc__.splitlines()[0])
    parser.add_argument("preset", nargs="?", choices=SEEDS, help="only this one (all)")
    options = parser.parse_args(arguments)
    corpus = load_corpus()
    for preset in [options.preset] if options.preset else SEEDS:
        folders = {seed: run_folder(preset, choose_preset(preset, seed=seed), corpus) for seed in SEEDS[preset]}
        for seed, folder in folders.items():
            resume = ["--resume"] if is_run(folder) else []
            if status := commands.command(
                training.main,
                ["--preset", preset, "--seed", str(seed), "--out", str(folder), *resume],
            ):
                sys.exit(status)  # why, has been said
        files.write(MEASURED / f"{preset}.txt", account(folders, corpus, counts=preset == "counted"))
        files.write(MEASURED / f"{preset}.csv", curve(folders[SEEDS[preset][0]], corpus))
        say(f"stored in {MEASURED / preset}.txt and .csv")


def curve(folder: Path, corpus: Corpus) -> str:
    """The records of a run as a table, with the letters that it had read."""
    run = checkpoint.load(folder)
    a_step = run.settings["batch_size"] * run.sizes["context_length"]
    lines = [
        {"step": record.step, "letters": record.step * a_step}
        | {name: round(getattr(record, name), 4) for name in ("train_loss", "val_loss", "seconds")}
        for record in run.history
    ]
    comments = [*comments_of(corpus), f"seed {run.settings['seed']}"]
    return csv_table(lines, comments)


def comments_of(corpus: Corpus) -> list[str]:
    number_format = "bfloat16" if has_bfloat16() else "float32"
    return header("presets", f"{torch.get_num_threads()} threads", number_format, corpus=corpus)


def account(folders: dict[int, Path], corpus: Corpus, counts: bool) -> str:
    """Where the numbers come from, how each run fared, and what the first one's model writes."""
    cut = first_to_validate(len(corpus.text))
    training, validation = corpus.text[:cut], corpus.text[cut:]
    first, folder = next(iter(folders.items()))
    text = sample(*checkpoint.load_model(folder))
    copies = [longest_copy(validation[i : i + len(text)], training) for i in range(0, 20 * LENGTH, LENGTH)]
    lines = [
        *comments_of(corpus),
        *(how_it_fared(seed, folder, corpus) for seed, folder in folders.items()),
        *([the_mean_of(folders, corpus), counting_alone(corpus)] if counts else []),
        f"longest copy from the training text: {longest_copy(text, training)!r}; "
        f"in as much of the validation text, {min(map(len, copies))} to {max(map(len, copies))} letters",
        f"the model of seed {first}, temperature {TEMPERATURE}, top-p {TOP_P}, writes:",
    ]
    return "".join(f"# {line}\n" for line in lines) + text


def how_it_fared(seed: int, folder: Path, corpus: Corpus) -> str:
    """Its loss in windows side by side, as in training, and the seconds; of one that counts, also reading on."""
    history = checkpoint.load(folder).history
    fared = f"seed {seed}: loss {history.best.val_loss:.4f} after {history[-1].seconds:.0f} s"
    model, tokenizer = checkpoint.load_model(folder)
    if not isinstance(model, CountedGPT):
        return fared
    _, val_tokens = split(tokenizer.encode(corpus.text), model.config.context_length)
    fared += f"; reading on {reading_on(model, val_tokens, model.config.context_length):.4f}"
    return f"{fared}, and counting what it reads {reading_and_counting(model, val_tokens):.4f}"


@torch.no_grad()
def reading_on(model: nn.Module, tokens: Integer[Tensor, "N"], T: int) -> float:
    """Mean cross-entropy in nats per token, as one reads a book: no window of T but the first begins without a past.

    Each begins half a window before the end of the last one, and what it says of that half doesn't count. The last few
    tokens, which fill no window, are left out. (`evaluate` forgets everything where a window ends.)
    """
    with evaluating(model):
        losses = [surprise_in(model, windows) for windows in tokens.long().unfold(0, T + 1, T // 2).split(32)]
    return of_the_new(losses)


@torch.no_grad()
def reading_and_counting(model: CountedGPT, tokens: Integer[Tensor, "N"], every: int = 1000) -> float:
    """The same of a model that also counts what it has read, anew after about `every` tokens; weights stay as they are.

    So it isn't the same model any more at the end, and its loss is no rival to that of one which stays (Krause et al.
    2018, Dynamic Evaluation of Neural Sequence Models, do so with gradients).
    """
    T, counted = model.config.context_length, model.text
    losses, read = [], 0
    try:
        with evaluating(model):
            for windows in tokens.long().unfold(0, T + 1, T // 2).split(max(1, every // (T // 2))):
                losses.append(surprise_in(model, windows))
                read += T // 2 * len(windows)
                model.text = torch.cat([counted, tokens[: read + T // 2].to(counted)])
    finally:
        model.text = counted
    return of_the_new(losses)


def surprise_in(model: nn.Module, windows: Integer[Tensor, "B T_plus_1"]) -> Float[Tensor, "B T"]:
    return F.cross_entropy(model(windows[:, :-1]).float().mT, windows[:, 1:], reduction="none")


def of_the_new(losses: list[Float[Tensor, "_ T"]]) -> float:
    """The mean over windows; the first half of all but the first has been predicted before."""
    by_place = torch.cat(losses)
    return torch.cat([by_place[0], by_place[1:, by_place.shape[1] // 2 :].flatten()]).mean().item()


class Mean(nn.Module):
    """What several models say together: the logarithm of the mean of their probabilities."""

    def __init__(self, models: Iterable[nn.Module]):
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, tokens: Tensor) -> Tensor:
        log_p = [model(tokens).float().log_softmax(dim=-1) for model in self.models]
        return torch.stack(log_p).logsumexp(dim=0) - math.log(len(log_p))


def the_mean_of(folders: dict[int, Path], corpus: Corpus) -> str:
    """The losses of the mean of every two models and of all; n models cost n trainings."""
    loaded = {seed: checkpoint.load_model(folder) for seed, folder in folders.items()}
    model, tokenizer = next(iter(loaded.values()))
    T = model.config.context_length
    _, val_tokens = split(tokenizer.encode(corpus.text), T)
    losses = []
    for seeds in [*combinations(loaded, 2), tuple(loaded)]:
        mean = Mean(loaded[seed][0] for seed in seeds)
        loss, on = evaluate(mean, val_tokens, T), reading_on(mean, val_tokens, T)
        losses.append(f"{' and '.join(map(str, seeds))} {loss:.4f}, reading on {on:.4f}")
    return f"the mean of what several say: {'; '.join(losses)}"


def counting_alone(corpus: Corpus) -> str:
    """The loss on the whole validation text of each length of context, none of which is cut off."""
    tokens, longest = corpus.tokens.long(), 8
    train_tokens, val_tokens = split(tokens, longest)
    counts, losses = KneserNey(train_tokens, len(corpus.alphabet), longest), []
    for windows in val_tokens.unfold(0, longest + 1, 1).split(4096):
        p, _ = counts.probabilities(windows[:, :-1], range(longest + 1))
        losses.append(-p[:, -1].log().gather(2, windows[:, -1, None, None].expand(-1, longest + 1, 1))[..., 0])
    numbers = ", ".join(f"{loss:.3f}" for loss in torch.cat(losses).mean(dim=0).tolist())
    return f"counts alone, by contexts of 0 to {longest} letters: loss {numbers}"


def longest_copy(text: str, source: str) -> str:
    """The longest piece of `text` that stands in `source` too."""
    longest = ""
    for start in range(len(text)):
        while (piece := text[start : start + len(longest) + 1]) in source and len(piece) > len(longest):
            longest = piece
    return longest


def sample(model: GPT, tokenizer: CharTokenizer, top_p: float = TOP_P) -> str:
    """What the model writes, without the line that it has not ended."""
    prompt = tokenizer.encode(tokenizer.start_of_text)
    generator = torch.Generator().manual_seed(1)
    tokens = generate(model, prompt, LENGTH, temperature=TEMPERATURE, top_p=top_p, generator=generator)
    return tokenizer.decode(tokens).strip().rsplit("\n", 1)[0] + "\n"
