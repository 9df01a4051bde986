"""Training: the loop of updates, a run that survives a kill, and the command.

python -m helpers.training --preset laptop --corpus FILE --out DIR --seed 1

The settings of a training stand in optim.py, its loss in loss.py, sizes and recipes that work in
presets.py, what a run keeps in checkpoint.py, and all that several processes need in team.py.
"""

import math
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Integer
from torch import Tensor, nn

from helpers import team
from helpers.checkpoint import (
    History,
    Record,
    Run,
    describe_progress,
    load_for_resume,
    new_run,
    refuse_folder,
    save,
    was_launched_now,
)
from helpers.commands import Options, command, say, stop_requests
from helpers.data import Corpus, PreparedCorpus, get_batch, open_corpus, split
from helpers.errors import ConfigError, RunError, Stopped
from helpers.files import write
from helpers.gpt import count_parameters, evaluating
from helpers.loss import Loss, computes_in_bfloat16_on_cpu, evaluate, loss_module
from helpers.loss import cross_entropy as cross_entropy  # lessons find it here
from helpers.optim import Optimizer, TrainConfig, make_optimizer, rate_at
from helpers.presets import PRESETS, choose_preset, describe_loss, run_folder
from helpers.sampling import generate

SAMPLE = 500  # tokens that the command writes in the end


# ---------------------------------------------------------------- the loop
def updates(
    model: nn.Module,
    tokens: Integer[Tensor, "N"],
    config: TrainConfig,
    optimizer: Optimizer,
    generator: torch.Generator,
    first_step: int = 0,
) -> Iterator[float]:
    """One update after the other, from `first_step` to `max_steps`; yields the loss of each batch.

    Model and tokens are on `config.device` already; `generator` draws the batches. If a group of
    the optimizer has a "scale" (Muon's has), its learning rate is multiplied by it.
    """
    parts, own_parts = micro_batches(config)
    processes = team.size()
    compute_loss, precision = loss_module(model, config)
    for step in range(first_step, config.max_steps):
        model.train()  # the caller may have evaluated it
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, config) * group.get("scale", 1.0)
        B, T = batch_shape(step, config, model.config.context_length)
        x, y = get_batch(tokens, B, T, generator)
        optimizer.zero_grad()  # before the forward pass, which can use the memory that becomes free
        loss = torch.zeros((), device=x.device)
        for part in own_parts:
            micro_x, micro_y = x.tensor_split(parts)[part], y.tensor_split(parts)[part]
            share = len(micro_x) / len(x)  # of all parts together: 1
            if model.config.dropout:
                torch.manual_seed(dropout_seed(config, step, part))
            if processes > 1:  # gradients are sent once a batch, as in nanoGPT
                compute_loss.require_backward_grad_sync = part == own_parts[-1]
            with precision:
                micro_loss = compute_loss(micro_x, micro_y)
            # DDP leaves the mean of the processes' gradients. Their sum is that of the whole batch.
            (micro_loss * (share * processes)).backward()
            loss += micro_loss.detach() * share
        if config.grad_clip:
            nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
        optimizer.step()
        yield team.total(loss).item()


def dropout_seed(config: TrainConfig, step: int, part: int) -> int:
    """Each part of each batch has a seed of its own, so a resume needs no state of dropout."""
    return random.Random(f"{config.seed} {step} {part}").getrandbits(63)


def micro_batches(config: TrainConfig) -> tuple[int, range]:
    """Into how many parts a batch is cut, and which of them this process computes.

    Of two processes with accumulate=3, the first has (6, range(0, 3)), the second (6, range(3, 6)).
    """
    parts = team.size() * config.accumulate
    if config.batch_size < parts:
        raise ConfigError(f"a batch of {config.batch_size} can't be cut into {parts} parts")
    first = team.rank() * config.accumulate
    return parts, range(first, first + config.accumulate)


def batch_shape(step: int, config: TrainConfig, context_length: int) -> tuple[int, int]:
    """How many windows update `step` sees, and their length: about as many tokens at every step."""
    for share, length in config.windows:
        if step < math.ceil(share * config.max_steps):
            return config.batch_size * context_length // length, length
    return config.batch_size, context_length


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
    corpus: Corpus | PreparedCorpus | None = None,
    preset: str = "",
    on_resume: Callable[[Run], None] | None = None,
    on_record: Callable[[nn.Module, Record], None] | None = None,
) -> History:
    """Train `model` in place, leave it with the weights of its best record, and return the history.

    At each of `record_steps` there is a record, and `on_record(model, record)` is called. With a
    folder `out_dir` the run is saved there, at every record and when Ctrl-C or a signal asks to
    stop; `resume` goes on from the last save to the same end, bit for bit on the same machine, and
    begins with `on_resume(run)`. What `corpus` and `preset` were, the run remembers.

    Before anything changes: ConfigError for a batch that can't be cut into `accumulate` pieces,
    RunError for a folder that can't be used, or holds another run. Later: RunError when the loss is
    no longer a number or the disk is full (the last save stays), Stopped when somebody asks to stop.
    """
    if out_dir is None and (resume or overwrite):
        raise ConfigError("out_dir must name the folder of the run; resume and overwrite need one")
    micro_batches(config)  # refuses a batch that is too small
    # Of several processes, the leader alone reads and writes the folder.
    folder = Path(out_dir) if out_dir is not None and team.is_leader() else None
    new = new_run(model, config, train_tokens, val_tokens, corpus, preset)
    run = start_or_resume(new, folder, resume, overwrite)
    if on_resume and resume:
        on_resume(run)

    model.to(config.device)
    train_tokens, val_tokens = train_tokens.to(config.device), val_tokens.to(config.device)
    optimizer = make_optimizer(model, config)
    generator = torch.Generator().manual_seed(config.seed)  # of the batches
    torch.manual_seed(config.seed)  # for a model that draws numbers of its own
    if resume:
        model.load_state_dict(run.model)
        optimizer.load_state_dict(run.optimizer)
        generator.set_state(run.batches)

    def save_all() -> None:
        if folder:
            run.take_state(model, optimizer, generator)
            save(folder, run)

    to_record = record_steps(config)
    losses = updates(model, train_tokens, config, optimizer, generator, run.step)
    with stop_requests() as signals:
        while True:
            if run.step in to_record and not run.has_record():  # a resume may have it already
                record = measure(run, model, train_tokens, val_tokens, config)
                run.add(record, model)
                save_all()
                if on_record:
                    on_record(model, record)
            if team.any_has(signals):  # whichever process got one, all stop
                save_all()
                team.wait()  # when one process ends, torchrun ends all: not before the leader saved
                raise stopped(signals, run, out_dir)
            if run.step >= config.max_steps:
                break
            started = time.perf_counter()
            loss = next(losses)
            run.seconds += time.perf_counter() - started
            run.losses.append(finite(loss, run.step))
            run.step += 1
    model.load_state_dict(run.best)  # which needn't be the last
    return run.history


def start_or_resume(new: Run, folder: Path | None, resume: bool, overwrite: bool) -> Run:
    """The new run, or the one in the leader's folder, if `resume`: the same in every process."""
    team.refuse_differences(new.settings)
    run = new
    if folder:
        refuse_folder(folder, resume, overwrite)
        if resume:
            run = load_for_resume(folder, new.settings)
            run.about = new.about
    return team.broadcast(run)


def stopped(signals: list[int], run: Run, out_dir: str | Path | None) -> Stopped:
    """What the user reads after a stop; another process may have got the signal."""
    after = f"after {run.step:,} of {run.settings['max_steps']:,} steps"
    saved = f"all saved in {out_dir}: resume continues from there"
    result = f"{after}, {'none of them saved' if out_dir is None else saved}"
    return Stopped(signals[0] if signals else signal.SIGTERM, result)


def record_steps(config: TrainConfig) -> list[int]:
    """0, every `eval_interval`, and `max_steps`; and 0.1, 0.2 and 0.5 of the first interval."""
    early = {config.eval_interval // part for part in (10, 5, 2)}
    regular = range(0, config.max_steps, config.eval_interval)
    return sorted(step for step in {*early, *regular, config.max_steps} if step <= config.max_steps)


def measure(run: Run, model: nn.Module, train_tokens: Tensor, val_tokens: Tensor, config: TrainConfig) -> Record:
    """The record of the run's step: the validation loss, and means since the record before."""
    T = model.config.context_length
    losses = run.losses or [first_loss(model, train_tokens, config)]  # at step 0
    seconds = run.seconds - (run.history[-1].seconds if run.history else 0)
    tokens = len(losses) * config.batch_size * T
    return Record(
        step=run.step,
        train_loss=sum(losses) / len(losses),
        val_loss=finite(evaluate(model, val_tokens, T), run.step),
        seconds=run.seconds,
        tokens_per_second=tokens / seconds if seconds else 0.0,
        learning_rate=rate_at(run.step, config),
    )


def print_record(model: nn.Module, record: Record) -> None:
    """For `on_record`: one line."""
    team.say(
        f"step {record.step:5}  train {record.train_loss:.4f}  val {record.val_loss:.4f}  "
        f"{record.tokens_per_second:8,.0f} tokens/s  learning rate {record.learning_rate:.1e}"
    )


@torch.no_grad()
def first_loss(model: nn.Module, tokens: Integer[Tensor, "N"], config: TrainConfig) -> float:
    """The loss of the first batch (of whole windows), before any update."""
    batches = torch.Generator().manual_seed(config.seed)
    x, y = get_batch(tokens, config.batch_size, model.config.context_length, batches)
    with evaluating(model):
        return Loss(model)(x, y).item()


def finite(loss: float, step: int) -> float:
    """The loss; RunError when it is NaN or infinite."""
    if math.isfinite(loss):
        return loss
    raise RunError(f"the loss is {loss} at step {step}: try a lower learning rate; a run that was saved is kept")


# ---------------------------------------------------------------- the command
def main(arguments: list[str]) -> None:
    """A text, a preset and a folder, from the command line to `train`."""
    recipes = "; ".join(f"{name}: {preset.about}" for name, preset in PRESETS.items())
    parser = Options(
        prog="python -m helpers.training",
        description="Train a GPT on a text.",
        epilog=f"presets: {recipes}",
    )
    add = parser.add_argument
    add("--preset", default="laptop", help=f"size and recipe: {', '.join(PRESETS)} (laptop)")
    add("--corpus", help="UTF-8 text, or folder of helpers.data (tiny Shakespeare, found)")
    add("--out", help="folder for the run (build/runs/ and the preset, with what differs)")
    add("--seed", type=int, default=1, help="for weights, batches, dropout and sample (1)")
    add("--max-steps", type=int, help="number of updates (the preset's)")
    add("--device", default="auto", help="auto (default), cpu, cuda, cuda:N or mps")
    add("--resume", action="store_true", help="go on with the run in --out, to the same end")
    add("--overwrite", action="store_true", help="replace the run in --out by a new one")
    add("--accumulate", type=int, default=1, help="micro-batches of a batch, to save memory (1)")
    add("--time-out", type=float, default=300, help="seconds to wait for another process (300)")
    options = parser.parse_args(arguments)
    with team.connected(options.time_out, options.device):
        train_by_options(options)


def train_by_options(options: Any) -> None:
    """Train as the command's options say, and write a sample."""
    preset = choose_preset(
        options.preset,
        max_steps=options.max_steps,
        seed=options.seed,
        device=team.own_device(options.device),
    )
    config = replace(preset.training, accumulate=options.accumulate)
    corpus = open_corpus(options.corpus)
    team.say(corpus)
    train_tokens, val_tokens = split(corpus.tokens, preset.model["context_length"])
    torch.manual_seed(config.seed)
    model = preset.build(corpus.tokenizer.vocab_size, train_tokens)
    team.say(describe_work(model, config))
    out = options.out or run_folder(options.preset, preset, corpus)
    folder = Path(os.path.expanduser(out))
    restarted = team.broadcast(team.is_leader() and team.RESTARTS > 0 and was_launched_now(folder))
    history = train(
        model,
        train_tokens,
        val_tokens,
        config,
        out_dir=folder,
        resume=options.resume or restarted,
        overwrite=options.overwrite and not restarted,
        corpus=corpus,
        preset=options.preset,
        on_resume=lambda run: team.say(describe_progress(folder, run)),
        on_record=print_record,
    )
    team.say(describe_loss(history.best.val_loss, corpus.name, preset))
    if team.is_leader():
        generator = torch.Generator().manual_seed(config.seed)
        prompt = corpus.tokenizer.encode(corpus.tokenizer.start_of_text).to(config.device)
        tokens = generate(model, prompt, SAMPLE, temperature=0.8, generator=generator)
        text = corpus.tokenizer.decode(tokens)
        write(folder / "sample.txt", text)
        say(f"---- {folder / 'sample.txt'} ----\n{text}")


def describe_work(model: nn.Module, config: TrainConfig) -> str:
    """One line: how large the model is, and what computes it."""
    bfloat16 = ", bfloat16" if computes_in_bfloat16_on_cpu(config) else ""
    shared = f", shared by {team.size()} processes" if team.size() > 1 else ""
    return (
        f"{count_parameters(model):,} parameters on {config.device}, "
        f"{torch.get_num_threads()} threads{bfloat16}{shared}"
    )


if __name__ == "__main__":
    sys.exit(command(main))
