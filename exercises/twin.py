"""The reader's own GPT in the playground's microscope, as far as it computes what ours does."""

import base64
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import torch
from torch import Tensor, nn

from helpers.data import CharTokenizer
from helpers.gpt import GPT, GPTConfig
from pictures import host
from pictures.packing import pack

Shapes = dict[tuple[int, ...], list[Tensor]]  # the weights of each shape, in order
LEFT_OUT = (
    "<p>The playground of the course would show all that my GPT computes. It can't show this one, "
    "which computes in a way of its own.</p>"
)
SCRIPT = """<h2>Look inside</h2>
<p>It writes here, in your browser, and shows all that it computes. (How it learned is left out: it
was kept only as it is now.)</p>
<div id="play"></div>
<script type="module">
{code}
const letters = atob("{model}");
mount(document.getElementById("play"), {{
  model: Uint8Array.from(letters, (letter) => letter.charCodeAt(0)), text: {line} }});
</script>"""


def inside(model: nn.Module, tokenizer: CharTokenizer, sizes: dict[str, Any], loss: float, step: int, line: str) -> str:
    """The microscope with the reader's model, as HTML, beginning with `line`; a sentence where it can't show it."""
    ours = twin(model, GPTConfig(vocab_size=tokenizer.vocab_size, **sizes))
    if ours is None:
        return LEFT_OUT
    parameters = sum(weight.numel() for weight in ours.parameters())
    about = {"parameters": parameters, "loss": round(loss, 4), "step": step, "corpus": "my text"}
    model_text = base64.b64encode(pack(ours, tokenizer, about=about)).decode()
    text = json.dumps(line).replace("</", "<\\/")
    return SCRIPT.format(code=host.bundle("play"), model=model_text, line=text)


@torch.no_grad()
def twin(model: nn.Module, config: GPTConfig) -> GPT | None:
    """Our GPT with the reader's weights; None where no arrangement of them gives the same logits.

    Names are the reader's business, so the weights of each shape are taken in the order in which the model has them.
    Queries, keys, values and the last matrix may come in any order, gains before shifts or behind, matrices as
    nn.Linear keeps them or turned; shifts and biases may be missing.
    """
    ours, model = GPT(replace(config, bias=True)).eval(), model.eval()
    tokens = torch.randint(config.vocab_size, (2, config.context_length), generator=torch.Generator().manual_seed(1))
    wanted, theirs = model(tokens), by_shape(model.parameters())
    names = [name for name, _ in ours.named_parameters()]
    shifts = [name for name in names if "norm" in name and name.endswith("bias")]
    biases = [name for name in names if "norm" not in name and name.endswith("bias")]
    for missing in (biases, shifts + biases, []):
        places = by_shape(weight for name, weight in ours.named_parameters() if name not in missing)
        if {shape: len(weights) for shape, weights in theirs.items()} != {s: len(p) for s, p in places.items()}:
            continue
        for name in missing:
            ours.get_parameter(name).zero_()
        for arranged in arrangements(theirs, config.n_embd):
            for shape, weights in arranged.items():
                for place, weight in zip(places[shape], weights, strict=True):
                    place.copy_(weight)
            if torch.allclose(ours(tokens), wanted, atol=1e-3):
                return ours
    return None


def by_shape(weights: Iterable[Tensor]) -> Shapes:
    shapes: Shapes = defaultdict(list)
    for weight in weights:
        shapes[tuple(weight.shape)].append(weight)
    return shapes


def arrangements(shapes: Shapes, C: int) -> Iterator[Shapes]:
    """The weights in every order of a block's four matrices, and of gain and shift."""
    squares, vectors = shapes[C, C], shapes[(C,)]
    tables, squares = (
        squares[: len(squares) % 4],
        squares[len(squares) % 4 :],
    )  # of C tokens or places, they are square, too
    for order, turned, shifts_first in product(permutations(range(4)), (False, True), (False, True)):
        matrices = [squares[4 * (i // 4) + order[i % 4]] for i in range(len(squares))]
        swapped = [vectors[i ^ 1] for i in range(len(vectors))] if len(vectors) % 2 == 0 else vectors
        yield shapes | {
            (C, C): tables + ([matrix.T for matrix in matrices] if turned else matrices),
            (C,): swapped if shifts_first else vectors,
        }
