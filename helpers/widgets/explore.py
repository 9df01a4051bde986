"""Pictures that one can take hold of: in JupyterLab while the kernel lives, and on the pages of the site.

Each call displays a picture with its alternative text. In JupyterLab an anywidget then puts the explorer of the same
data where the picture is. It has no view of its own, because JupyterLab stores a view and, opened again without the
kernel, shows an error in its place. What is stored here is the picture: nbval, papermill, GitHub and a reader without
a kernel see it. The front ends in front/ export `mount(element, data)`; a page mounts them by `page`.
"""

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from jaxtyping import Float
from torch import Tensor

from helpers.core.attention import causal_mask
from helpers.core.data import CharTokenizer
from helpers.core.gpt import GPT
from helpers.pictures import machine as machines
from helpers.pictures import plotting
from helpers.support.errors import ConfigError
from helpers.widgets.packing import pack
from helpers.world.microscope import surprise

SOURCES = Path(__file__).parent / "front"
MOST = 12  # names or words that have room beside each other
IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w-]+\.js)";\n', flags=re.M)


# ---------------------------------------------------------------- the explorers
def shadows(alt: str, query: Float[Tensor, "2"], keys: Float[Tensor, "N 2"], names: Sequence[str]) -> None:
    """Drag a query and its `keys` with `names`; see each key's shadow on the query's line, and the score it makes.

    The picture is the figure that you have drawn, and `alt` its text. ConfigError for names that are not as many as the
    keys, for more than 12, for arrows without a length, and for numbers that are not finite.
    """
    _same_number(names=names, keys=keys)
    _finite(query=query, keys=keys)
    if not query.any() or not keys.any(dim=1).all():
        raise ConfigError("query and keys must have a length: an arrow of (0, 0) points nowhere")
    _show("shadows", {"names": list(names), "keys": _numbers(keys), "query": _numbers(query)}, alt)


def temperature(alt: str, query: Float[Tensor, "2"], values: Float[Tensor, "N 2"], names: Sequence[str]) -> None:
    """A slider from hot to cold, and a query to drag: see how the mixture of `values`, which are keys as well, moves.

    The picture is the figure that you have drawn, and `alt` its text. ConfigError for names that are not as many as the
    values, for more than 12, and for numbers that are not finite.
    """
    _same_number(names=names, values=values)
    _finite(query=query, values=values)
    points = {"keys": _numbers(values), "values": _numbers(values), "query": _numbers(query)}
    _show("attend", points | {"names": list(names), "says": list(names), "asks": {}, "temperature": 1}, alt)


def attend(
    keys: Float[Tensor, "N 2"],
    values: Float[Tensor, "N 2"],
    names: Sequence[str],
    says: Sequence[str],
    asks: Mapping[str, Tensor],
) -> None:
    """Drag a query among `keys` with `names`; see scores, weights, and the mixture of `values`, which stand for `says`.

    `asks` are queries (2,) by name, at least one: buttons, and the first is where the query starts. ConfigError for
    names that are not as many as the keys, for more than 12, and for numbers that are not finite.
    """
    _same_number(names=names, says=says, keys=keys, values=values)
    _finite(keys=keys, values=values)
    for name, query in asks.items():
        _finite(**{f"asks[{name!r}]": query})
    if not asks or any(query.shape != (2,) for query in asks.values()):
        raise ConfigError("asks must hold at least one query, each of two numbers")
    query, *_ = asks.values()
    weights = (keys @ query / 2**0.5).softmax(dim=0)

    _, (left, right) = plotting.figure(9, 3.6, columns=2)
    thin = {"arrowstyle": "-|>", "color": plotting.COLORS[0]}
    thick = {"arrowstyle": "-|>", "color": "black", "lw": 6, "alpha": 0.4}
    for name, (x, y) in zip(names, keys.tolist(), strict=True):
        left.annotate("", (x, y), (0, 0), arrowprops=thin)
        left.annotate(name, (1.2 * x, 1.2 * y), ha="center", va="center")
    left.annotate("", query.tolist(), (0, 0), arrowprops=thick)
    far = 1.4 * keys.abs().max().item()
    left.set(xlim=(-far, far), ylim=(-far, far), aspect="equal", title="the query (thick) among the keys")
    left.axis("off")
    bars = [f"{name}: {gift}" for name, gift in zip(names, says, strict=True)]
    right.barh(range(len(names)), weights.tolist(), color=plotting.COLORS[2])
    right.set_yticks(range(len(names)), bars)
    right.invert_yaxis()
    right.set(xlabel="weight")
    best = names[int(weights.argmax())]
    alt = (
        f"A query among {len(names)} keys as arrows, and the weights as bars: {best} has the largest, "
        f"{weights.max().item():.2f}."
    )
    points = {"keys": _numbers(keys), "values": _numbers(values), "query": _numbers(query)}
    buttons = {name: _numbers(query) for name, query in asks.items()}
    _show("attend", points | {"names": list(names), "says": list(says), "asks": buttons}, alt)


def mask(scores: Float[Tensor, "T T"], words: Sequence[str]) -> None:
    """Paint a mask on the `scores` of `words`; see the weights, who looks into the future and which rows are NaN.

    The picture shows the causal mask. ConfigError for words that are not as many as the scores, for more than 12, and
    for scores that are not finite: the mask is the reader's to make.
    """
    _same_number(words=words, scores=scores)
    _finite(scores=scores)
    future = ~causal_mask(len(words), scores.device)
    weights = scores.masked_fill(future, float("-inf")).softmax(dim=-1)

    _, axes = plotting.figure(3 + 1.1 * len(words), 1.4 + 0.5 * len(words), columns=2)
    tables = {"scores": scores, "weights": weights}
    for ax, (name, table) in zip(axes, tables.items(), strict=True):
        seen = table.masked_fill(future, float("nan"))  # NaN is drawn in grey
        plotting.heatmap(seen, words, title=f"{name} under the causal mask", ax=ax)
        ax.tick_params(axis="x", rotation=30)
    alt = (
        f"Scores and weights of {len(words)} words under the causal mask. The future, above the diagonal, is "
        f"grey; each row of weights adds up to 1, and {words[0]} sees only itself."
    )
    _show("mask", {"words": list(words), "scores": _numbers(scores)}, alt)


def filters(logits: Float[Tensor, "T V"], line: str, characters: Sequence[str], place: int = -1) -> None:
    """The next letter's probabilities after each letter of `line`, under sliders for temperature, top-k and top-p.

    `logits[t]` is what a model says after letter t, in the order of `characters`; `place` is the letter to start from.
    ConfigError for lengths that don't fit, a place outside the line, and for logits that are not finite.
    """
    if logits.shape != (len(line), len(characters)):
        raise ConfigError(
            f"{len(line)} letters and an alphabet of {len(characters)} need logits of shape "
            f"({len(line)}, {len(characters)}), not {tuple(logits.shape)}"
        )
    if not -len(line) <= place < len(line):
        raise ConfigError(f"place must be a letter of the line, below {len(line)}, not {place}")
    _finite(logits=logits)
    place %= len(line)
    order = logits[place].argsort(descending=True)[:24]
    letters = plotting.labels([characters[i] for i in order])

    top = 1.05 * (logits[place] / 0.5).softmax(dim=0).max().item()
    _, axes = plotting.figure(9, 2.6, columns=3)
    for ax, temperature in zip(axes, (0.5, 1.0, 2.0), strict=True):
        shares = (logits[place] / temperature).softmax(dim=0)[order]
        ax.bar(range(len(order)), shares.tolist(), color=plotting.COLORS[0])
        ax.set_xticks(range(len(order)), letters, fontsize=8)
        ax.set(title=f"temperature {temperature:g}", ylim=(0, top))
    after = repr(line[: place + 1][-9:])[1:-1]
    axes[0].set(ylabel=f"probability after “{after}”")
    alt = (
        f"The {len(order)} likeliest letters after “{after}”, as bars at temperatures 0.5, 1 and 2: the higher the "
        f"temperature, the more even the bars. The likeliest is {letters[0]!r}."
    )
    data = {"characters": list(characters), "line": line, "logits": _numbers(logits), "place": place}
    _show("filters", data, alt)


def machine(tokens: Sequence[str], **options: Any) -> None:
    """The machine, drawn with the `options` of helpers/pictures/machine.py, which answers when it is touched.

    Point at a word and see its row; at a number, and read what it is made of. Where a number is not finite, the picture
    stays still. ConfigError as the drawing's.
    """
    drawing = machines.drawn(tokens, **options)
    tables = [table for name, table in options.items() if name in machines.SHAPES and table is not None]
    if all(table.isfinite().all() for table in tables):
        _show("machine", drawing.data, drawing.text)
    else:
        plotting.show(drawing.text, drawing.figure)


def model(model: GPT, tokenizer: CharTokenizer, text: str) -> None:
    """The page's explorer on your own model: type on after `text`, see its heads, its stream and the next letter.

    The picture shows how much each letter of `text` surprises the model. ConfigError for a text of fewer than two
    letters, or longer than the model's context, and for a model that `pack` refuses.
    """
    tokens = tokenizer.encode(text)
    if not 2 <= len(tokens) <= model.config.context_length:
        raise ConfigError(f"text must have from 2 to {model.config.context_length} letters, not {len(tokens)}")
    _, ax = plotting.figure(0.22 * len(tokens) + 1, 2)
    ax.bar(range(1, len(tokens)), surprise(model, tokens).tolist(), color=plotting.COLORS[1])
    ax.set_xticks(range(len(tokens)), plotting.labels(text))
    ax.set(ylabel="surprise (nats)")
    alt = f"How much each letter of “{text}” but the first surprises the model, as bars."
    weights = pack(model, tokenizer) if is_live() else b""  # too large for JSON: without a kernel, only the picture
    _show("play", {"text": text}, alt, weights)


# ---------------------------------------------------------------- the hosts
def is_live() -> bool:
    """Is this the kernel of a notebook that a Jupyter server has open? (nbval and papermill start their own.)"""
    return "JPY_SESSION_NAME" in os.environ


def front_end(name: str) -> str:
    """The source of a front end as one module: in place of each import, once, what it imports."""
    seen: set[str] = set()

    def joined(file: str) -> str:
        seen.add(file)
        return IMPORT.sub(imported, _read(file))

    def imported(found: re.Match) -> str:
        return "" if found[1] in seen else joined(found[1])

    return joined(f"{name}.js") + _read("host.js")


def page(output: Mapping[str, Any]) -> str:
    """A stored output of an explorer as HTML for a page: its picture, and a script that puts the explorer there."""
    found = output["metadata"]["explore"]
    data = json.dumps(found["data"], ensure_ascii=False).replace("</", "<\\/")
    picture = _picture(output["data"]["image/png"].strip(), **output["metadata"]["image/png"])
    place = "explore-" + hashlib.sha256(data.encode()).hexdigest()[:12]
    script = front_end(found["front_end"])
    script += f"takePlace(document.getElementById({json.dumps(place)}), {data});"
    return f'<div id="{place}">{picture}</div>\n<script type="module">\n{script}\n</script>'


def _show(name: str, data: dict[str, Any], alt: str, weights: bytes = b"") -> None:
    """Display the current figure, and in JupyterLab put the front end `name` with `data` in its place."""
    if not alt.strip():
        raise ConfigError("a picture needs an alternative text: say in a sentence what one sees")
    png, width = plotting.picture(plt.gcf())
    bundle: dict[str, Any] = {"image/png": png, "text/plain": alt}
    metadata: dict[str, Any] = {"image/png": {"alt": alt, "width": width}}
    if name != "play":
        metadata["explore"] = {"front_end": name, "data": data}  # for pages; all else passes it over
    if is_live():
        from helpers.widgets.widget import Explorer  # slow to import

        place = os.urandom(8).hex()
        source = front_end(name) + "export default { initialize: inLab };\n"
        Explorer(_esm=source, place=place, data=data, weights=weights)
        picture = _picture(base64.b64encode(png).decode(), alt, width)
        bundle["text/html"] = f'<div data-explore="{place}">{picture}</div>'
    plotting.display(bundle, metadata=metadata, raw=True)


def _picture(png: str, alt: str, width: int) -> str:
    return f'<img style="max-width: 100%" width="{width}" alt="{html.escape(alt)}" src="data:image/png;base64,{png}">'


def _read(file: str) -> str:
    return (SOURCES / file).read_text(encoding="utf-8")


def _numbers(tensor: Tensor) -> Any:
    """As lists that JSON takes: four decimals, so that two machines store the same."""
    if tensor.dim() == 1:
        return [round(x, 4) for x in tensor.tolist()]
    return [_numbers(row) for row in tensor]


def _same_number(**named: Sequence[str] | Tensor) -> None:
    counts = {name: len(things) for name, things in named.items()}
    if len(set(counts.values())) > 1 or not 2 <= max(counts.values()) <= MOST:
        listed = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise ConfigError(f"there must be equally many, from 2 to {MOST}, not {listed}")


def _finite(**named: Tensor) -> None:
    for name, tensor in named.items():
        if not tensor.isfinite().all():
            raise ConfigError(f"{name} must be finite numbers: there is a NaN or an infinity among them")
