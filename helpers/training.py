"""Training: the loop of updates, the loss over a whole text, and a run that survives every stop.

python -m helpers.training --preset laptop --corpus FILE --out DIR --seed 1

The settings of a training stand in optim.py, sizes and recipes that work in presets.py, what a run
keeps in checkpoint.py, and all that several processes need in team.py.
"""

import importlib.util
import math
import platform
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, Integer
from torch import Tensor, nn

from helpers import checkpoint, errors, team
from helpers.checkpoint import History, Record, Run
from helpers.data import Corpus, Prepared, get_batch, open_corpus, split
from helpers.errors import ConfigError, CorpusError, RunError, Stopped, say
from helpers.gpt import count_parameters, evaluating
from helpers.optim import Optimizer, TrainConfig, learning_rate, make_optimizer
from helpers.presets import PRESETS, choose_preset, describe_loss, run_folder
from helpers.sampling import Drawing, generate


# ---------------------------------------------------------------- the loss
def cross_entropy(
    logits: Float[Tensor, "B T V"], targets: Int64[Tensor, "B T"], reduction: str = "mean"
) -> Float[Tensor, ""]:
    """Cross-entropy of logits against targets, in nats."""
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction=reduction)


class Loss(nn.Module):
    """The mean loss of a batch; a model may bring its own, as a method `loss(x, y)`."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, x: Int64[Tensor, "B T"], y: Int64[Tensor, "B T"]) -> Float[Tensor, ""]:
        if hasattr(self.model, "loss"):
            return self.model.loss(x, y)
        return cross_entropy(self.model(x), y)


class Rounded(nn.Module):
    """The same loss by weights rounded to bfloat16. What learns are the float32 weights: no small
    step is lost."""

    def __init__(self, loss_of: nn.Module):
        super().__init__()
        self.loss_of = loss_of

    def forward(self, x: Int64[Tensor, "B T"], y: Int64[Tensor, "B T"]) -> Float[Tensor, ""]:
        weights = {**dict(self.loss_of.named_parameters()), **dict(self.loss_of.named_buffers())}
        rounded = {
            name: weight.bfloat16()
            for name, weight in weights.items()
            if weight.is_floating_point()
        }
        return torch.func.functional_call(self.loss_of, rounded, (x, y))


def has_bfloat16() -> bool:
    """Whether the processor multiplies matrices in bfloat16; others only imitate it, and slowly."""
    known = torch.cpu.get_capabilities()
    return any(has for name, has in known.items() if name.endswith("bf16"))


# ---------------------------------------------------------------- the loop
def updates(
    model: nn.Module,
    tokens: Integer[Tensor, "N"],
    config: TrainConfig,
    optimizer: Optimizer,
    batches: torch.Generator,
    first_step: int = 0,
) -> Iterator[float]:
    """One update after the other, from `first_step` to `max_steps`; yields the loss of each batch.

    Model and tokens are on `config.device` already. `batches` draws the batches. A model with
    dropout gets new random numbers for each part of each batch, by seed and step: whoever goes on
    at step 100 need know nothing of those before. If a group of the optimizer has a "scale" (Muon's
    has), its learning rate is multiplied by it.
    """
    parts, mine = parts_of_a_batch(config)
    processes = team.place()[1]
    kind = torch.device(config.device).type
    loss_of: nn.Module = Loss(model)
    if kind == "cuda" and config.compile and importlib.util.find_spec("triton"):
        loss_of = torch.compile(loss_of)
    if kind == "cpu" and config.bfloat16_cpu and has_bfloat16():
        loss_of = Rounded(loss_of)
    loss_of = team.with_equal_gradients(loss_of, config.device)
    for step in range(first_step, config.max_steps):
        model.train()  # the caller may have evaluated it
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, config) * group.get("scale", 1.0)
        x, y = get_batch(tokens, *batch_shape(step, config, model.config.context_length), batches)
        optimizer.zero_grad()  # before the forward pass, which can use the memory that becomes free
        loss = torch.zeros((), device=x.device)
        for part in mine:
            its_x, its_y = x.tensor_split(parts)[part], y.tensor_split(parts)[part]
            share = len(its_x) / len(x)
            if getattr(model.config, "dropout", 0):
                torch.manual_seed(random.Random(f"{config.seed} {step} {part}").getrandbits(63))
            if processes > 1:  # as nanoGPT has it: DDP sends once a batch
                loss_of.require_backward_grad_sync = part == mine[-1]
            with torch.autocast(kind, torch.bfloat16, enabled=config.bfloat16 and kind == "cuda"):
                its_loss = loss_of(its_x, its_y)
            (its_loss * (share * processes)).backward()  # DDP takes the mean over the processes
            loss += its_loss.detach() * share
        nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
        optimizer.step()
        yield team.total(loss).item()


def parts_of_a_batch(config: TrainConfig) -> tuple[int, range]:
    """Into how many parts a batch is cut, and which of them this process computes, one after the
    other."""
    rank, processes = team.place()
    parts = processes * config.accumulate
    if config.batch_size < parts:
        raise ConfigError(
            f"a batch of {config.batch_size} can't be cut into {parts} parts: take a larger batch_size"
        )
    return parts, range(rank * config.accumulate, (rank + 1) * config.accumulate)


def batch_shape(step: int, config: TrainConfig, context_length: int) -> tuple[int, int]:
    """How many windows of which length update number `step` sees; every update sees about as many
    tokens."""
    window = context_length
    for share, length in config.windows:
        if step < math.ceil(share * config.max_steps):
            window = length
            break
    return config.batch_size * context_length // window, window


# ---------------------------------------------------------------- the loss over a whole text
@torch.no_grad()
def evaluate(model: nn.Module, tokens: Integer[Tensor, "N"], context_length: int) -> float:
    """Mean cross-entropy in nats per token over ALL of `tokens` but the first, which nothing
    predicts.

    They are cut into windows side by side, the last one shorter. Nothing is drawn: the same model
    gives the same number. CorpusError when there is nothing to predict.
    """
    if len(tokens) < 2:
        raise CorpusError(
            f"{len(tokens)} tokens leave nothing to predict: a split needs at least 2"
        )
    T = context_length
    whole = (len(tokens) - 1) // T * T
    at_once = max(1, 4096 // T)  # windows in a forward pass
    inputs = [*tokens[:whole].view(-1, T).split(at_once), tokens[None, whole:-1]]
    targets = [*tokens[1 : whole + 1].view(-1, T).split(at_once), tokens[None, whole + 1 :]]
    total = 0.0
    with evaluating(model):
        for x, y in zip(inputs, targets, strict=True):
            if y.numel():
                total += cross_entropy(model(x.long()), y.long(), reduction="sum").item()
    return total / (len(tokens) - 1)


# ---------------------------------------------------------------- a run
def train(
    model: nn.Module,
    train_tokens: Integer[Tensor, "N_train"],
    val_tokens: Integer[Tensor, "N_val"],
    config: TrainConfig,
    *,
    out_dir: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    corpus: Corpus | Prepared | None = None,
    preset: str = "",
    on_record: Callable[[nn.Module, Record], None] | None = None,
) -> History:
    """Train `model` in place, leave it with the weights of its best record, and return the history.

    At each of `record_steps` there is a record, and `on_record(model, record)` is called. With a
    folder `out_dir` the run is saved there, at every record and when Ctrl-C or a signal asks to
    stop; `resume` goes on from the last save to the same end, bit for bit on the same machine. What
    `corpus` and `preset` were, the run remembers.

    Before anything changes: CorpusError for tokens outside the vocabulary, RunError for a folder
    that can't be used, or holds another run. Later: RunError when the loss is no number any more or
    the disk is full (the last save stays), Stopped when somebody asks to stop.
    """
    folder = Path(out_dir) if out_dir is not None else None
    refuse_misfits(model, train_tokens, val_tokens)
    parts_of_a_batch(config)
    tokenizer = corpus.tokenizer if corpus else None
    settings = checkpoint.settings_of(model, config, train_tokens, val_tokens, tokenizer)
    team.refuse_differences(settings)
    about = {
        "preset": preset,
        "corpus": corpus.name if corpus else "",
        "corpus_sha256": corpus.sha256 if corpus else "",
        "shared_by": f"{team.place()[1]} processes",
        "torch": str(torch.__version__),
        "python": platform.python_version(),
    }
    run = Run(settings, asdict(model.config), about, tokenizer.to_json() if tokenizer else "")
    if folder is None and (resume or overwrite):
        raise ConfigError("out_dir must name the folder of the run; resume and overwrite need one")
    if folder and team.leads():
        checkpoint.refuse(folder, resume, overwrite)
        if resume:
            run = checkpoint.load_to_go_on(folder, settings)
            checkpoint.write_views(
                folder, run
            )  # a kill may have come after the checkpoint and before them
    run = team.from_leader(run)
    run.about = about

    model.to(config.device)
    train_tokens, val_tokens = train_tokens.to(config.device), val_tokens.to(config.device)
    optimizer = make_optimizer(model, config)
    batches = torch.Generator().manual_seed(config.seed)
    torch.manual_seed(config.seed)
    if resume:
        model.load_state_dict(run.model)
        optimizer.load_state_dict(run.optimizer)
        batches.set_state(run.batches)

    def keep() -> None:
        if folder and team.leads():
            run.model, run.optimizer = model.state_dict(), optimizer.state_dict()
            run.batches = batches.get_state()
            checkpoint.save(folder, run)

    def record_if_due() -> None:
        if run.step not in record_at or (run.history and run.history[-1].step == run.step):
            return
        if run.step == 0:
            run.losses = [first_loss(model, train_tokens, config)]
        val_loss = finite(evaluate(model, val_tokens, context_length), run.step)
        tokens = config.batch_size * context_length
        run.add_record(model, val_loss, learning_rate(run.step, config), tokens)
        keep()
        if on_record:
            on_record(model, run.history[-1])

    context_length, record_at = model.config.context_length, set(record_steps(config))
    with errors.stop_requests() as noted:
        record_if_due()
        started = time.perf_counter()
        for loss in updates(model, train_tokens, config, optimizer, batches, run.step):
            run.seconds += time.perf_counter() - started
            run.losses.append(finite(loss, run.step))
            run.step += 1
            record_if_due()
            # Whichever process was asked to stop, all stop after this step.
            if team.total(torch.tensor(len(noted))):
                keep()
                team.total(torch.zeros(1))  # torchrun ends all when one ends: first it is saved
                kept = "none of them saved"
                if folder:
                    kept = f"all saved in {folder}: resume continues from there"
                done = f"after {run.step:,} of {config.max_steps:,} steps"
                raise Stopped(noted[0] if noted else signal.SIGTERM, f"{done}, {kept}")
            started = time.perf_counter()
    model.load_state_dict(run.best)
    return run.history


def record_steps(config: TrainConfig) -> list[int]:
    """0, three early ones, where learning is fastest, every `eval_interval`, and `max_steps`."""
    early = {config.eval_interval // part for part in (10, 5, 2)}
    regular = range(0, config.max_steps, config.eval_interval)
    return sorted(step for step in {*early, *regular, config.max_steps} if step <= config.max_steps)


def print_record(model: nn.Module, record: Record) -> None:
    """For `on_record`: one line."""
    print(
        f"step {record.step:5}  train {record.train_loss:.4f}  val {record.val_loss:.4f}  "
        f"{record.tokens_per_second:8,.0f} tokens/s  learning rate {record.learning_rate:.1e}",
        flush=True,
    )


@torch.no_grad()
def first_loss(model: nn.Module, tokens: Integer[Tensor, "N"], config: TrainConfig) -> float:
    """The loss of the first batch, before anything is trained; the training gets the same batch."""
    batches = torch.Generator().manual_seed(config.seed)
    with evaluating(model):
        return Loss(model)(
            *get_batch(tokens, config.batch_size, model.config.context_length, batches)
        ).item()


def finite(loss: float, step: int) -> float:
    if not math.isfinite(loss):
        raise RunError(
            f"the loss is {loss} at step {step}: try a lower learning rate; what was saved is kept"
        )
    return loss


def refuse_misfits(model: nn.Module, train_tokens: Tensor, val_tokens: Tensor) -> None:
    """What would go wrong late, or without a word."""
    T, V = model.config.context_length, model.config.vocab_size
    for name, tokens in (("training", train_tokens), ("validation", val_tokens)):
        if len(tokens) <= T:
            raise CorpusError(
                f"the {name} split has {len(tokens)} tokens: a context of {T} needs at least {T + 1}"
            )
        if not 0 <= int(tokens.min()) <= int(tokens.max()) < V:
            raise CorpusError(
                f"the {name} split has a token outside the vocabulary of 0 .. {V - 1}"
            )
    if any(p.dtype != torch.float32 for p in model.parameters()):
        raise ConfigError(
            "weights are trained in float32: model.float() makes them so; bfloat16 is a setting"
        )


# ---------------------------------------------------------------- the command
def main(arguments: list[str]) -> None:
    """A text, a preset and a folder, from the command line to `train`."""
    abouts = "; ".join(f"{name}: {preset.about}" for name, preset in PRESETS.items())
    recipes = f"presets: {abouts}"
    does = "Train a GPT on a text."
    parser = errors.Options("python -m helpers.training", description=does, epilog=recipes)
    add = parser.add_argument
    add("--preset", default="laptop", help=f"size and recipe: {', '.join(PRESETS)} (laptop)")
    add("--corpus", help="UTF-8 text, or folder of helpers.data (tiny Shakespeare, found)")
    add("--out", help="folder for the run (build/runs/ and the preset, with what differs)")
    add("--seed", type=int, default=1, help="for weights, batches, dropout and sample (1)")
    add("--max-steps", type=int, help="number of updates (the preset's)")
    add("--device", default="auto", help="auto (default), cpu, cuda, cuda:N or mps")
    add("--resume", action="store_true", help="go on with the run in --out, to the same end")
    add("--overwrite", action="store_true", help="replace the run in --out by a new one")
    add("--accumulate", type=int, default=1, help="cut each batch into N pieces, to save memory")
    add("--time-out", type=float, default=300, help="seconds to wait for another process (300)")
    add("--prompt", help="what the sample continues (a newline)")
    add("--temperature", type=float, default=0.8, help="of the sample: below 1 is safer (0.8)")
    add("--sample-length", type=int, default=500, help="characters in sample.txt (500)")
    told = parser.parse_args(arguments)
    with team.gathered(told.time_out):
        train_and_show(told)


def train_and_show(told: Any) -> None:
    hear = say if team.leads() else lambda *_: None
    device = team.device_of(told.device)
    preset = choose_preset(told.preset, max_steps=told.max_steps, seed=told.seed, device=device)
    config = replace(preset.training, accumulate=told.accumulate)
    drawing = Drawing(told.temperature)  # refused now, not after the training
    corpus = open_corpus(told.corpus)
    hear(corpus)
    tokenizer = corpus.tokenizer
    prompt = tokenizer.encode(tokenizer.start_of_text if told.prompt is None else told.prompt)
    if not len(prompt) or told.sample_length < 0:
        raise ConfigError(
            "the sample needs a prompt of at least one character, and a length of at least 0"
        )
    train_tokens, val_tokens = split(corpus.tokens, preset.model["context_length"])
    torch.manual_seed(config.seed)
    model = preset.build(tokenizer.vocab_size, train_tokens)
    folder = Path(told.out).expanduser() if told.out else run_folder(told.preset, preset, corpus)
    rounds = config.bfloat16_cpu and torch.device(config.device).type == "cpu" and has_bfloat16()
    size, threads = count_parameters(model), torch.get_num_threads()
    shared = f", shared by {team.place()[1]} processes" if team.place()[1] > 1 else ""
    hear(
        f"{size:,} parameters on {config.device}, {threads} threads{', bfloat16' * rounds}{shared}"
    )
    resume = team.from_leader(
        told.resume or (team.RESTARTS > 0 and (folder / "checkpoint.pt").exists())
    )
    if resume and team.leads():
        settings = checkpoint.settings_of(model, config, train_tokens, val_tokens, tokenizer)
        hear(checkpoint.progress(folder, checkpoint.load_to_go_on(folder, settings)))
    history = train(
        model,
        train_tokens,
        val_tokens,
        config,
        out_dir=folder,
        resume=resume,
        overwrite=told.overwrite and not resume,
        corpus=corpus,
        preset=told.preset,
        on_record=print_record if team.leads() else None,
    )
    if not team.leads():
        return
    sample = folder / "sample.txt"
    if not sample.exists():  # a finished run that is resumed has its own
        dice = torch.Generator().manual_seed(config.seed)
        start = prompt.to(config.device)
        tokens = generate(
            model, start, told.sample_length, temperature=drawing.temperature, generator=dice
        )
        errors.write(sample, tokenizer.decode(tokens))
    hear(describe_loss(history.best.val_loss, corpus.name, preset))
    hear(f"---- {errors.shown(sample)} ----\n{sample.read_text(encoding='utf-8')}")


if __name__ == "__main__":
    sys.exit(errors.command(main))
