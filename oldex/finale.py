"""The reader's own GPT learns from a text, live, and writes; and a page to show what came of it."""

import base64
import html
import io
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import torch
from jaxtyping import Int64
from torch import Tensor, nn

from exercises import growing, yours
from exercises.growing import called
from exercises.limit import TooLongError, at_most
from exercises.steps import STEPS, step_of
from helpers import checkpoint, errors, presets
from helpers.data import CharTokenizer, Corpus, split
from helpers.errors import HelpersError, RunError
from helpers.gpt import count_parameters
from helpers.training import evaluate
from pictures import plotting

SIZES = dict(context_length=64, n_layer=4, n_head=4, n_embd=128)  # those of the preset `laptop`
STEPS_OF_TRAINING, BATCH = 2000, 12
EVERY = 50  # steps between two points of the curve
NEEDED = {"MyGPT": "7f", "my_batch": "8b", "my_train": "8g"}
Curve = tuple[Sequence[float], Sequence[float]]  # steps, and the loss at each


class _EnoughError(BaseException):
    """The time is over. No Exception: a reader's `except Exception` must not swallow it."""


@dataclass
class Training:
    """What came of a training of the reader's GPT."""

    parameters: int
    steps: list[int]
    losses: list[float]
    seconds: float
    loss: float  # over the whole validation text
    sample: str


def learn(
    text: str,
    ours: Mapping[str, Curve] | None = None,
    *,
    seconds: float = 180.0,
    steps: int = STEPS_OF_TRAINING,
    seed: int = 1,
) -> Training | None:
    """Your GPT, trained by your loop on `text` with the sizes of `laptop`: its curve beside `ours`, what it writes.

    It ends after so many seconds, wherever it stands. Its weights are kept beside your file, and so is a page to show,
    my_gpt.html. Where something is missing, raises or makes no sense, one sentence says so.
    """
    path = growing.place()
    found = yours.parts(quiet=True) if path else {}
    missing = [label for name, label in NEEDED.items() if name not in found]
    if path is None or missing:
        wanted = ", ".join(missing or NEEDED.values())
        print(f"Your own GPT will train here as soon as its steps are in your file. Missing: {wanted}.")
        return None
    try:
        with at_most(seconds + 60):
            return _learn(text, dict(ours or {}), found, path, seconds, steps, seed)
    except TooLongError:
        print(f"your GPT was still at work {seconds + 60:g} seconds after it began, and was stopped")
    except HelpersError as error:
        print(error)
    except Exception as error:  # a reader's code may raise anything, and the lesson goes on
        print(f"your GPT stopped: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    return None


def ours(corpus: Corpus) -> dict[str, Curve]:
    """The curve of `laptop`'s run on this text, if there is one on this machine."""
    preset = presets.choose_preset("laptop")
    try:
        history = checkpoint.load(presets.run_folder("laptop", preset, corpus)).history
    except RunError:
        return {}
    return {"ours": (history.column("step")[1:], history.column("train_loss")[1:])}


def show_ours(corpus: Corpus, letters: int = 400) -> None:
    """Print what our `laptop` wrote, for whoever wants to read it beside their own; nothing where nobody reads."""
    sample = presets.run_folder("laptop", presets.choose_preset("laptop"), corpus) / "sample.txt"
    if growing.place() and sample.exists():
        print(f"\nours writes:\n{sample.read_text(encoding='utf-8')[:letters].strip()}")


def _learn(
    text: str, ours: dict[str, Curve], found: dict[str, Any], path: Path, seconds: float, steps: int, seed: int
) -> Training | None:
    tokenizer = CharTokenizer.from_text(text)
    train_tokens, val_tokens = split(tokenizer.encode(text), SIZES["context_length"])
    torch.manual_seed(seed)
    model = found["MyGPT"](tokenizer.vocab_size, **SIZES)
    curve = _Curve(ours, seconds, steps)
    try:
        found["my_train"](model, train_tokens, steps, BATCH, curve.report)
    except _EnoughError:
        print(f"after {seconds:g} seconds it had made {curve.step:,} of {steps:,} steps; that's where it stands")
    if not curve.step:
        print("your my_train has reported no step, so there is nothing to show: step 8g says how")
        return None
    curve.finish()
    loss = evaluate(model, val_tokens, SIZES["context_length"])
    torch.save(model.state_dict(), path.with_suffix(".pt"))
    sample = _sample(model, found, tokenizer)
    training = Training(count_parameters(model), curve.steps, curve.losses, curve.seconds, loss, sample)
    print(f"your GPT: {training.parameters:,} parameters, {curve.seconds:.0f} s, validation loss {loss:.3f}\n{sample}")
    errors.write(path.with_suffix(".html"), page(training, ours, path))
    print(f"\na page to show: {called(path).replace('.py', '.html')}")
    return training


class _Curve:
    """Takes the reports of a training, draws them now and then, and ends it when its time is over."""

    def __init__(self, ours: Mapping[str, Curve], seconds: float, steps: int):
        self.ours = ours
        self.end = time.monotonic() + seconds
        self.start = time.monotonic()
        self.seconds = 0.0
        self.total = steps
        self.step = 0
        self.recent: list[float] = []
        self.steps: list[int] = []
        self.losses: list[float] = []
        self.live = plotting.Live(self.draw, "The loss of your GPT as it learns, beside that of ours.")
        self.drawn = 0.0

    def report(self, step: int, loss: float) -> None:
        self.step = step
        self.seconds = time.monotonic() - self.start
        self.recent.append(float(loss))
        if step % EVERY == 0:
            self.steps.append(step)
            self.losses.append(sum(self.recent) / len(self.recent))
            self.recent = []
            if time.monotonic() - self.drawn > 2:  # a picture takes a while itself
                self.live.update()
                self.drawn = time.monotonic()
        if time.monotonic() > self.end:
            raise _EnoughError

    def finish(self) -> None:
        if self.steps:
            self.live.update()

    def draw(self) -> None:
        draw({"yours": (self.steps, self.losses)} | dict(self.ours), f"step {self.step:,} of {self.total:,}")


def draw(curves: Mapping[str, Curve], title: str) -> None:
    """Losses against steps: yours, and others in grey."""
    _, ax = plotting.figure(7, 4)
    for i, (name, (steps, losses)) in enumerate(curves.items()):
        color = plotting.COLORS[0] if i == 0 else "#888888"
        ax.plot(steps, losses, color=color, linewidth=2.5 if i == 0 else 1.5)
        if len(steps):
            above = 8 if i == 0 else -12
            ax.annotate(name, (steps[-1], losses[-1]), (6, above), textcoords="offset points", color=color)
    ax.margins(x=0.1, y=0.12)
    ax.set(xlabel="step", ylabel="loss (nats per letter)", title=title)


def _sample(model: nn.Module, found: dict[str, Any], tokenizer: CharTokenizer, length: int = 400) -> str:
    """What the model writes after a newline: by the reader's own `my_write`, or likely letters one by one."""
    prompt = tokenizer.encode(tokenizer.start_of_text)
    write: Callable[..., Tensor] = found.get("my_fast_write") or found.get("my_write") or _write
    return tokenizer.decode(write(model, prompt, length, 0.8, 0.95)).strip()


@torch.no_grad()
def _write(
    model: nn.Module, prompt: Int64[Tensor, "T"], n: int, temperature: float, top_p: float
) -> Int64[Tensor, "T_all"]:
    """For whoever hasn't come to notebook 09 yet."""
    model.eval()
    tokens = prompt
    for _ in range(n):
        logits = model(tokens[None, -SIZES["context_length"] :])[0, -1]
        tokens = torch.cat([tokens, torch.multinomial((logits / temperature).softmax(dim=-1), 1)])
    return tokens


def write_again(text: str, prompt: str, length: int = 300) -> str | None:
    """What your trained GPT writes after `prompt`, by your own function; None, and a sentence, where that can't be."""
    path = growing.place()
    found = yours.parts(quiet=True) if path else {}
    if path is None or not {"MyGPT", "my_write"} <= set(found) or not path.with_suffix(".pt").exists():
        print("Your GPT writes here as soon as it has trained (notebook 08) and step 9h is in your file.")
        return None
    tokenizer = CharTokenizer.from_text(text)
    try:
        with at_most(60):
            model = found["MyGPT"](tokenizer.vocab_size, **SIZES)
            model.load_state_dict(torch.load(path.with_suffix(".pt"), weights_only=True))
            write = found.get("my_fast_write") or found["my_write"]
            written = write(model, tokenizer.encode(prompt), length, 0.8, 0.95)
            return tokenizer.decode(written)
    except TooLongError:
        print("your GPT was still writing after a minute, and was stopped")
    except Exception as error:  # another vocabulary, other names of its parts, or an error of the reader's
        print(f"your GPT can't write with the weights that it learned ({type(error).__name__}): train it again")
    return None


# ---------------------------------------------------------------- a page to show
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>My GPT</title>
<style>
  body {{ font: 17px/1.55 Georgia, serif; max-width: 44rem; margin: 3rem auto; padding: 0 1rem; }}
  body {{ color: #222; background: #fff; }}
  h1, h2 {{ font-weight: normal; }}
  pre {{ font: 14px/1.5 ui-monospace, monospace; white-space: pre-wrap; background: #f5f3ee; padding: 1rem; }}
  img {{ max-width: 100%; }}
  li.todo {{ color: #767676; }}
</style>
<h1>I built a GPT</h1>
<p>{parameters} parameters, {lines} lines of Python, {solved} of {all} steps. It learned to write letter by letter, in
{seconds} seconds on a processor; its loss on text that it never saw is {loss} nats per letter.</p>
<h2>It writes</h2>
<pre>{sample}</pre>
<h2>It learned</h2>
<img src="data:image/png;base64,{curve}" alt="The loss of my GPT falls from {first} to {last} over {steps} steps.">
<h2>I wrote</h2>
<ol>
{list}
</ol>
<details><summary>All of it</summary><pre>{source}</pre></details>
</html>
"""


def page(training: Training, ours: Mapping[str, Curve], path: Path) -> str:
    """Steps solved, the curve, what it writes and how large it is, as one HTML file that needs nothing else."""
    grown = growing.read(path)
    others = {"the lesson's" if name == "ours" else name: curve for name, curve in ours.items()}
    draw({"mine": (training.steps, training.losses)} | others, "")
    picture = io.BytesIO()
    plt.gcf().savefig(picture, format="png", dpi=120, bbox_inches="tight")
    plt.close()
    source = path.read_text(encoding="utf-8")
    return PAGE.format(
        parameters=f"{training.parameters:,}",
        lines=source.count("\n"),
        solved=len(grown.solved),
        all=len(STEPS),
        seconds=f"{training.seconds:.0f}",
        loss=f"{training.loss:.3f}",
        sample=html.escape(training.sample),
        curve=base64.b64encode(picture.getvalue()).decode(),
        first=f"{training.losses[0]:.2f}" if training.losses else "",
        last=f"{training.losses[-1]:.2f}" if training.losses else "",
        steps=f"{training.steps[-1]:,}" if training.steps else "0",
        list="\n".join(map(_line, (step.label for step in STEPS), [grown.solved] * len(STEPS))),
        source=html.escape(source),
    )


def _line(label: str, solved: Sequence[str]) -> str:
    step = step_of(label)
    mark = "" if label in solved else ' class="todo"'
    return f"<li{mark}>{html.escape(step.title) if step else ''}</li>"
