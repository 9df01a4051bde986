"""The reader's own GPT learns from a text, live, and writes; and a page to show what came of it."""

import base64
import html
import io
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import torch
from torch import nn

from exercises import twin, yours
from exercises.judge import raised
from exercises.limits import TooLongError, at_most
from helpers import checkpoint, files, presets
from helpers.data import CharTokenizer, Corpus, split
from helpers.errors import HelpersError, RunError
from helpers.gpt import count_parameters
from helpers.loss import evaluate
from pictures import plotting

LAPTOP = presets.PRESETS["laptop"]
SIZES, STEPS, BATCH = LAPTOP.model, LAPTOP.training.max_steps, LAPTOP.training.batch_size
EVERY = 50  # steps between two points of the curve
NEEDED = ("MyGPT", "my_batch", "my_train")
Curve = tuple[Sequence[float], Sequence[float]]  # steps, and the loss at each


class EnoughError(BaseException):
    """The time is over. No Exception: a reader's `except Exception` must not swallow it."""


@dataclass
class Training:
    """What came of a training of the reader's GPT."""

    ours: Curve | None
    seconds: float = 0.0
    step: int = 0
    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    parameters: int = 0
    loss: float = 0.0  # over the whole validation text
    sample: str = ""

    def draw(self, name: str = "yours", others: str = "ours") -> None:
        """Losses against steps: the reader's, and ours in grey."""
        _, ax = plotting.figure(7, 4)
        curves = [(name, (self.steps, self.losses), plotting.COLORS[0], 2.5, 8)]
        if self.ours:
            curves.append((others, self.ours, "#888888", 1.5, -12))
        for label, (steps, losses), color, width, above in curves:
            ax.plot(steps, losses, color=color, linewidth=width)
            if len(steps):
                end = steps[-1], losses[-1]
                ax.annotate(label, end, (6, above), textcoords="offset points", color=color)
        ax.margins(x=0.1, y=0.12)
        ax.set(xlabel="step", ylabel="loss (nats per letter)", title=f"step {self.step:,}")


def learn(
    text: str,
    ours: Curve | None = None,
    *,
    seconds: float = 180.0,
    steps: int = STEPS,
) -> Training | None:
    """Your GPT, trained by your loop on `text` with the sizes of `laptop`, beside our curve.

    It ends after this many seconds, wherever it is then. Its weights are kept beside your file, and
    so is a page to show, my_gpt.html. Where something is missing, raises or makes no sense, one
    sentence says so.
    """
    path = yours.own_file()
    parts = yours.parts()
    missing = [name for name in NEEDED if name not in parts]
    if path is None or missing:
        print(f"Your own GPT trains here as soon as its parts are in your file. Missing: {', '.join(missing)}.")
        return None
    try:
        with at_most(seconds + 60):
            return _learn(text, Training(ours), parts, path, seconds, steps)
    except TooLongError:
        print(f"your GPT was still at work {seconds + 60:g} seconds after it began, and was stopped")
    except HelpersError as error:
        print(error)
    except Exception as error:  # a reader's code may raise anything, and the lesson goes on
        print(f"your GPT stopped: {raised(error)}")
    return None


def _learn(
    text: str, training: Training, parts: dict[str, Any], path: Path, seconds: float, steps: int
) -> Training | None:
    tokenizer = CharTokenizer.from_text(text)
    train_tokens, val_tokens = split(tokenizer.encode(text), SIZES["context_length"])
    torch.manual_seed(1)
    model = parts["MyGPT"](tokenizer.vocab_size, **SIZES)
    live = plotting.Live(training.draw, "The loss of your GPT as it learns, beside that of ours.")
    start = last_update = time.monotonic()
    recent: list[float] = []

    def report(step: int, loss: float) -> None:
        nonlocal last_update
        now = time.monotonic()
        training.step, training.seconds = step, now - start
        recent.append(float(loss))
        if step % EVERY == 0:
            training.steps.append(step)
            training.losses.append(sum(recent) / len(recent))
            recent.clear()
            if now - last_update > 2:  # a picture takes a while itself
                live.update()
                last_update = now
        if training.seconds > seconds:
            raise EnoughError

    try:
        parts["my_train"](model, train_tokens, steps, BATCH, report)
    except EnoughError:
        print(f"after {seconds:g} seconds it had made {training.step:,} of {steps:,} steps")
    if not training.step:
        print("your my_train has reported no step, so nothing can be shown: call report(step, loss) after each update")
        return None
    live.update()
    training.parameters = count_parameters(model)
    training.loss = evaluate(model, val_tokens, SIZES["context_length"])
    torch.save(model.state_dict(), path.with_suffix(".pt"))
    training.sample = write(model, parts, tokenizer, tokenizer.start_of_text, 400).strip()
    print(
        f"your GPT: {training.parameters:,} parameters, {training.seconds:.0f} s, "
        f"validation loss {training.loss:.3f}\n{training.sample}"
    )
    inside = twin.inside(model, tokenizer, SIZES, training.loss, training.step, text.lstrip()[:14])
    files.write(path.with_suffix(".html"), page(training, path, inside))
    print(f"\na page to show: {yours.called(path).replace('.py', '.html')}")
    return training


@torch.no_grad()
def write(model: nn.Module, parts: dict[str, Any], tokenizer: CharTokenizer, prompt: str, count: int) -> str:
    """What the model writes: by the reader's own function, or likely letters one by one."""
    tokens = tokenizer.encode(prompt)
    by_reader = parts.get("my_fast_write") or parts.get("my_write")
    if by_reader:
        return tokenizer.decode(by_reader(model, tokens, count, 0.8, 0.95))
    model.eval()
    for _ in range(count):
        logits = model(tokens[None, -SIZES["context_length"] :])[0, -1]
        tokens = torch.cat([tokens, torch.multinomial((logits / 0.8).softmax(dim=-1), 1)])
    return tokenizer.decode(tokens)


def write_again(text: str, prompt: str, length: int = 300) -> str | None:
    """What your trained GPT writes after `prompt`; None, and a sentence, where it can't."""
    path = yours.own_file()
    parts = yours.parts()
    if path is None or not {"MyGPT", "my_write"} <= set(parts) or not _weights(path).exists():
        print("Your GPT writes here as soon as it has trained (08) and step 9h is in your file.")
        return None
    tokenizer = CharTokenizer.from_text(text)
    try:
        with at_most(60):
            model = parts["MyGPT"](tokenizer.vocab_size, **SIZES)
            model.load_state_dict(torch.load(_weights(path), weights_only=True))
            return write(model, parts, tokenizer, prompt, length)
    except TooLongError:
        print("your GPT was still writing after a minute, and was stopped")
    except Exception as error:  # another vocabulary, other names of its parts, or a mistake
        print(f"your GPT can't write with the weights that it learned ({raised(error)}): train it")
    return None


def _weights(path: Path) -> Path:
    return path.with_suffix(".pt")


# ---------------------------------------------------------------- ours, beside it
def ours(corpus: Corpus) -> Curve | None:
    """The curve of `laptop`'s run on this text, if there is one on this machine."""
    try:
        history = checkpoint.load(_our_run(corpus)).history
    except RunError:
        return None
    return history.column("step")[1:], history.column("train_loss")[1:]


def show_ours(corpus: Corpus) -> None:
    """Print what our `laptop` wrote, for whoever wants to read it beside their own."""
    sample = _our_run(corpus) / "sample.txt"
    if yours.own_file() and sample.exists():
        print(f"\nours writes:\n{sample.read_text(encoding='utf-8')[:400].strip()}")


def _our_run(corpus: Corpus) -> Path:
    return presets.run_folder("laptop", presets.choose_preset("laptop"), corpus)


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
  pre {{ font: 14px/1.5 ui-monospace, monospace; white-space: pre-wrap; }}
  pre {{ background: #f5f3ee; padding: 1rem; }}
  img {{ max-width: 100%; }}
</style>
<h1>I built a GPT</h1>
<p>{parameters} parameters, {progress}. It learned to write letter by letter, in {seconds} seconds
on a processor; its loss on text that it never saw is {loss} nats per letter.</p>
<h2>It writes</h2>
<pre>{sample}</pre>
<h2>It learned</h2>
<img src="data:image/png;base64,{curve}" alt="The loss of my GPT over {steps} steps.">
{inside}
<h2>I wrote</h2>
<ol>
{solved}
</ol>
<details><summary>All of it</summary><pre>{source}</pre></details>
</html>
"""


def page(training: Training, path: Path, inside: str) -> str:
    """Steps solved, the curve, what it writes, how large it is and what is `inside`, as one HTML file."""
    training.draw("mine", "the lesson's")
    picture = io.BytesIO()
    plt.gcf().savefig(picture, format="png", dpi=120, bbox_inches="tight")
    plt.close()
    steps = yours.read(path)
    titles = [yours.BY_LABEL[label].title for label in yours.solved(steps)]
    return PAGE.format(
        parameters=f"{training.parameters:,}",
        progress=yours.progress(steps),
        seconds=f"{training.seconds:.0f}",
        loss=f"{training.loss:.3f}",
        sample=html.escape(training.sample),
        curve=base64.b64encode(picture.getvalue()).decode(),
        steps=f"{training.step:,}",
        inside=inside,
        solved="\n".join(f"<li>{html.escape(title)}</li>" for title in titles),
        source=html.escape(path.read_text(encoding="utf-8")),
    )
