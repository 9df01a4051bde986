"""Pictures to take hold of, in JupyterLab while the kernel lives and on the site's pages.

Each function displays a picture with its alternative text, and what a front end of front/ needs to
take its place: host.py says where and when.
"""

import cmath
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter
from torch import Tensor

from helpers import telegrams
from helpers.attention import causal_mask
from helpers.data import CharTokenizer
from helpers.errors import ConfigError
from helpers.gpt import GPT
from helpers.microscope import surprise
from helpers.rooms import verdicts
from helpers.rooms.tokens import BPETokenizer, Pair, chunks
from helpers.sampling import filter_logits
from pictures import machine as machines
from pictures import plotting
from pictures import sheets as fanned
from pictures.host import is_live, show
from pictures.packing import pack


# ---------------------------------------------------------------- the explorers
def shadows(
    alt: str, query: Float[Tensor, "2"], keys: Float[Tensor, "N 2"], names: Sequence[str], *, waits: bool = False
) -> None:
    """Drag a query and its `keys` with `names`; see shadows on the query's line, and scores.

    With `waits`, those are seen only once somebody drags. The picture is the figure that you have drawn, and `alt`
    its text.
    """
    points = {"keys": plotting.rounded(keys), "query": plotting.rounded(query)}
    show("shadows", points | {"names": list(names), "waits": waits}, alt)


def temperature(alt: str, query: Float[Tensor, "2"], values: Float[Tensor, "N 2"], names: Sequence[str]) -> None:
    """Change the heat or drag a query: see how the mixture of `values` (the keys) moves.

    The picture is the figure that you have drawn, and `alt` its text.
    """
    points = {"values": plotting.rounded(values), "query": plotting.rounded(query)}
    show("temperature", points | {"names": list(names)}, alt)


def attend(
    keys: Float[Tensor, "N 2"],
    values: Float[Tensor, "N 2"],
    names: Sequence[str],
    says: Sequence[str],
    asks: Mapping[str, Tensor],
) -> None:
    """Drag a query among `keys`; see scores, weights, and the mixture of `values`.

    `names` belong to the keys, `says` to the values.

    `asks` are queries (2,) by name, at least one: buttons, and the first is where the query starts.
    """
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
    left.set(
        xlim=(-far, far),
        ylim=(-far, far),
        aspect="equal",
        title="the query, thick, among the others",
    )
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
    points = {
        "keys": plotting.rounded(keys),
        "values": plotting.rounded(values),
        "query": plotting.rounded(query),
    }
    buttons = {name: plotting.rounded(query) for name, query in asks.items()}
    show("attend", points | {"names": list(names), "says": list(says), "asks": buttons}, alt)


def mask(scores: Float[Tensor, "T T"], words: Sequence[str]) -> None:
    """Paint a mask on the `scores` of `words`; see weights, looks ahead and rows of NaN.

    The picture shows the causal mask.
    """
    future = ~causal_mask(len(words), scores.device)
    weights = scores.masked_fill(future, float("-inf")).softmax(dim=-1)

    _, axes = plotting.figure(3 + 1.1 * len(words), 1.4 + 0.5 * len(words), columns=2)
    tables = {"scores": scores, "weights": weights}
    for ax, (name, table) in zip(axes, tables.items(), strict=True):
        masked = table.masked_fill(future, float("nan"))  # NaN is drawn in grey
        plotting.heatmap(masked, words, title=f"{name} under the causal mask", ax=ax)
        ax.tick_params(axis="x", rotation=30)
    alt = (
        f"Scores and weights of {len(words)} words under the causal mask. The future, above the diagonal, is "
        f"grey; each row of weights adds up to 1, and {words[0]} sees only itself."
    )
    show("mask", {"words": plotting.labels(words), "scores": plotting.rounded(scores)}, alt)


def votes(
    cards: Sequence[str],
    things: Sequence[str],
    needed: int,
    right: int,
    students: Mapping[str, tuple[Float[Tensor, "K"], Float[Tensor, "K N"]]],
) -> None:
    """Take cards away; see what each adds to the right answer's lead over its best rival, in several networks.

    `students` have, by name, the scores (K,) of the K cards and what each card says (K, N): what it
    adds to the scores of the N `things` if it gets all the weight. Card `needed` has the answer,
    thing `right`. The picture shows all cards.
    """
    _, axes = plotting.figure(3.2 + 2.2 * len(students), 0.9 + 0.4 * len(cards), columns=len(students))
    phrases, data = [], []
    all_leads = []
    for scores, says in students.values():
        cast = scores.softmax(dim=0)[:, None] * says
        others = cast.sum(dim=0).index_fill(0, torch.tensor(right), float("-inf"))
        all_leads.append(cast[:, right] - cast[:, others.argmax()])
    least, most = torch.cat(all_leads).min().item(), torch.cat(all_leads).max().item()
    for ax, lead, (name, (scores, says)) in zip(axes, all_leads, students.items(), strict=True):
        colors = [plotting.COLORS[0 if added > 0 else 1] for added in lead]
        ax.barh(range(len(cards)), lead.tolist(), color=colors)
        ax.axvline(0, color="#999999", lw=0.8)
        ax.set_yticks(range(len(cards)), cards if ax is axes[0] else [""] * len(cards))
        ax.set(title=name, xlim=(min(0, 1.2 * least), 1.2 * most))
        ax.invert_yaxis()
        plotting.bare(ax)
        most_by = "the card with the answer" if lead.argmax() == needed else "another card"
        phrases.append(f"{name}: most is added by {most_by}")
        rounded = {"scores": plotting.rounded(scores), "says": plotting.rounded(says)}
        data.append({"name": name, **rounded})
    axes[len(axes) // 2].set(xlabel=f"added to the lead of {things[right]} over its best rival")
    alt = f"What each of {len(cards)} cards adds to the lead of the right answer, as bars. {'; '.join(phrases)}."
    labels = {"cards": plotting.labels(cards), "things": plotting.labels(things)}
    show("votes", labels | {"needed": needed, "right": right, "students": data}, alt)


def tokens(text: str, merges: Sequence[Pair], stops: Sequence[int] = (0, 10, 30, 100, 300, 1000)) -> None:
    """Type a text, and see it cut by the first few merges, or by more: how many, `stops` says.

    The picture shows `text`, cut by ten times as many merges in each row, from ten on.
    """
    rows = {}
    for count in (10, 100, 1000):
        rows[count] = [token for chunk in chunks(text) for token in BPETokenizer((), merges[:count]).cut(chunk)]
    _, ax = plotting.figure(0.8 + 0.2 * len(text), 2.2)
    for y, pieces in enumerate(rows.values()):
        x = 0
        for i, piece in enumerate(pieces):
            ax.barh(-y, len(piece) - 0.12, left=x, height=0.7, color=plotting.COLORS[i % 2], alpha=0.25)
            ax.text(x + len(piece) / 2, -y, piece.replace(" ", "·"), ha="center", va="center", family="monospace")
            x += len(piece)
    ax.set(xlim=(0, len(text)), xticks=[], ylabel="merges")
    ax.set_yticks([-y for y in range(len(rows))], [f"{count:,}" for count in rows])
    plotting.bare(ax)
    cuts = "; ".join(f"by {count:,} merges {' | '.join(pieces)}" for count, pieces in rows.items())
    data = {"text": text, "merges": [list(pair) for pair in merges[: stops[-1]]], "stops": list(stops)}
    show("tokens", data | {"place": list(stops).index(100)}, f"{text!r}, cut into tokens: {cuts}.")


def rewards(trails: Sequence[tuple[str, Sequence[float], Sequence[float], str]]) -> None:
    """Choose a brake, and see where rounds of learning from a judge lead: words found against the loss.

    `trails` are tuples (name, found, losses, wrote): what holds the network, the shares of words found and the losses,
    each before the first round and after every one, and what is written after the last.
    """
    _, ax = plotting.figure(6.5, 3.6)
    phrases = []
    for (name, found, losses, _), color in plotting.colored(trails):
        ax.plot(found, losses, "o-", color=color, label=name, markersize=4)
        phrases.append(
            f"{name}: words found from {found[0]:.0%} to {found[-1]:.0%}, loss from {losses[0]:.2f} to {losses[-1]:.2f}"
        )
    ax.xaxis.set_major_formatter(PercentFormatter(1, 0))
    ax.set(xlabel="words found in the book", ylabel="loss on Shakespeare")
    ax.legend(title="held by", frameon=False)
    names = ("name", "found", "losses", "wrote")
    data = {"trails": [dict(zip(names, (name, [*f], [*x], w), strict=True)) for name, f, x, w in trails]}
    show("rewards", data, f"Words found against the loss, round by round. Held by {'; by '.join(phrases)}.")


def filters(logits: Float[Tensor, "T V"], line: str, characters: Sequence[str], place: int = -1) -> None:
    """Probabilities after each letter of `line`, under sliders for temperature, top-k and top-p.

    `logits[t]` is what a model says after letter t, in the order of `characters`; `place` is the
    letter to start from. The picture shows temperature 0.7 and nucleus 0.9 together.
    """
    place %= len(line)
    p = logits.softmax(dim=-1)
    doubts = -torch.special.xlogy(p, p).sum(dim=-1)
    order = logits[place].argsort(descending=True)[:24]
    letters = plotting.labels([characters[i] for i in order])
    warm = (logits[place] / 0.7).softmax(dim=0)[order]
    final = filter_logits(logits[place], temperature=0.7, top_p=0.9).softmax(dim=0)
    left, final = int((final > 0).sum()), final[order]
    after = "".join(plotting.labels(line[: place + 1][-9:]))

    _, ax = plotting.figure(9, 3.2)
    columns, stays = range(len(order)), (final > 0).float()
    ax.bar(columns, p[place][order].tolist(), 1, fill=False, ls="--", ec="#777777", label="before")
    ax.bar(columns, final.tolist(), 0.76, color=plotting.COLORS[0], label="after both")
    cut_off = (warm * (1 - stays)).tolist()
    ax.bar(columns, cut_off, 0.76, fill=False, hatch="////", ec=plotting.COLORS[1], label="cut off")
    ax.set_xticks(columns, letters, family="monospace")
    ax.tick_params(axis="x", length=0)
    ax.set(xlabel=f"after “{after}”, at temperature 0.7 with nucleus 0.9", ylabel="probability")
    ax.legend(frameon=False)
    strip = ax.inset_axes((0, 1.06, 1, 0.14))  # the line, as dark as the model is unsure of what follows
    for i, (letter, doubt) in enumerate(zip(plotting.labels(line), (doubts / doubts.max()).tolist(), strict=True)):
        strip.axvspan(i - 0.5, i + 0.5, color=plotting.COLORS[1], alpha=0.6 * doubt, lw=0)
        strip.text(i, 0.46, letter, ha="center", va="center", family="monospace")
    strip.axvspan(place - 0.5, place + 0.5, fill=False, ec="black", lw=2)
    strip.set(xlim=(-0.7, max(len(line), 48) - 0.3), ylim=(0, 1))
    strip.axis("off")
    alt = (
        f"A line of {len(line)} letters, darker where a model is less sure of the next one, and the {len(order)} "
        f"likeliest letters after “{after}” as bars: at temperature 0.7 with nucleus 0.9 {left} may come, and "
        f"the likeliest, {letters[0]!r}, goes from {p[place].max():.0%} to {final.max():.0%}."
    )
    data = {
        "characters": list(characters),
        "line": line,
        "logits": plotting.rounded(logits),
        "place": place,
    }
    show("filters", data, alt)


def machine(tokens: Sequence[str], **options: Any) -> None:
    """The machine, drawn with the `options` of machine.py, which answers to touch.

    Point at a word and see its row; at a number, and read what it is made of. Where a number is not
    finite, the picture stays still.
    """
    drawing = machines.draw(tokens, **options)
    tables = [table for name, table in options.items() if name in machines.SHAPES and table is not None]
    if all(table.isfinite().all() for table in tables):
        show("machine", drawing.data, drawing.text)
    else:
        plotting.show(drawing.text, drawing.figure)


def sheets(
    tokens: Sequence[str],
    numbers: Sequence[str],
    x: Float[Tensor, "T C"],
    heads: Mapping[str, Mapping[str, Tensor]],
    follow: int,
) -> None:
    """The machine with a sheet for each head: point at a word, and see what its contributions add up to.

    What `heads` hold is said in sheets.py.
    """
    drawing = fanned.draw(tokens, numbers, x, heads, follow)
    show("sheets", drawing.data, drawing.text)


def cut(words: Sequence[str], heads: int = 2, width: int = 3) -> None:
    """Point at a number in a table of queries; see its head and row, cut in two ways.

    The table (T, H·D) has a row for each of the T `words` and, for each of the H `heads`, D =
    `width` numbers: 0, 1, 2, … as they lie in memory, in the colour of their word. It is cut into
    (H, T, D) by view(H, T, D) alone, which gives words the numbers of others, or by view(T, H, D)
    and transpose(0, 1). The picture shows both.
    """
    T, H, D = len(words), heads, width
    number = torch.arange(T * H * D)
    word = number // (H * D)
    ways = {
        "view alone": lambda table: table.view(H, T, D),
        "view, transpose": lambda table: table.view(T, H, D).transpose(0, 1),
    }

    widths = [H * D + 1, *[max(D, 3) + 1] * H]  # titles need room, too
    drawing, axes = plotting.figure(1.5 + 0.45 * sum(widths), 1.6 + 0.62 * T, rows=2, columns=1 + H, widths=widths)
    for ax in axes[:, 0]:
        ax.remove()
    whole = drawing.add_subplot(axes[0, 0].get_gridspec()[:, 0])
    plotting.cells(
        _written(number.view(T, -1)),
        word.view(T, -1),
        words,
        title=f"(T, H·D) = ({T}, {H * D})",
        ax=whole,
    )
    whole.set_aspect("equal")
    for h in range(1, H):
        whole.axvline(h * D - 0.5, color="black", linewidth=0.8)  # between two heads
    for row, (way, pieces) in zip(axes, ways.items(), strict=True):
        for h, ax in enumerate(row[1:]):
            plotting.cells(_written(pieces(number)[h]), pieces(word)[h], words, ax=ax)
            ax.set_title(f"{way}: head {h + 1}", loc="right", fontsize=10)
    for ax in drawing.axes:
        for t, label in enumerate(ax.get_yticklabels()):
            label.set_bbox({"facecolor": plotting.COLORS[t], "alpha": 0.3, "linewidth": 0, "pad": 3})

    owners = torch.arange(T)[:, None]
    strange = int((ways["view alone"](word) != owners).sum())
    alt = (
        f"A table of {T} words with {H * D} numbers each, 0 to {T * H * D - 1}, is cut into {H} heads in two ways. By "
        f"view alone {strange} of {T * H * D} numbers stand in another word's row: head 1 has the first {T * D} in "
        f"memory. By view and transpose each head has {D} numbers of every word, in that word's row."
    )
    show("cut", {"words": plotting.labels(words), "heads": H, "width": D}, alt)


def clock(query: Float[Tensor, "D"], key: Float[Tensor, "D"], base: float = 10_000.0) -> None:
    """Move a query and a key, both or one alone: see their clocks turn and the score change.

    Numbers i and i + D/2 are a hand, which turns by base ** (-2i / D) radians at each place: rotary
    positions, as in helpers/modern.py. The picture shows the query at place 3 and the key at
    place 1, and both ten places on.
    """
    if query.shape != key.shape or tuple(query.shape) not in {(2,), (4,), (6,), (8,)}:
        shapes = f"{tuple(query.shape)} and {tuple(key.shape)}"
        raise ConfigError(f"query and key must have equally many numbers, 2, 4, 6 or 8, not shapes of {shapes}")
    H = len(query) // 2
    reach = max(abs(hand) for x in (query, key) for hand in _hands(x, 0, base))
    names = ["first", "second", "third", "fourth"]

    fig, axes = plotting.figure(max(4, 0.8 + 2.2 * H), 5.4, columns=H, rows=2)
    scores, angles = [], []
    for row, (m, n) in enumerate([(3, 1), (13, 11)]):
        pairs = list(zip(_hands(query, m, base), _hands(key, n, base), strict=True))
        parts = [(ask * offer.conjugate()).real for ask, offer in pairs]
        added = [plotting.numeral(part, 2) for part in parts]
        angles = [math.degrees(cmath.phase(ask * offer.conjugate())) for ask, offer in pairs]
        scores.append(plotting.numeral(sum(parts), 2))
        for i, (ask, offer) in enumerate(pairs):
            ax = axes.reshape(2, H)[row, i]
            _face(ax, ask / reach, offer / reach)
            ax.text(0, -1.08, f"{abs(angles[i]):.0f}° between, adds {added[i]}", ha="center", va="top")
            if row == 0:
                turn = f"{names[i]} hand: {math.degrees(base ** (-i / H)):.2g}° a place"
                ax.text(0, 1.08, turn, ha="center", va="bottom")
            if i == 0:
                label = f"places {m} and {n}\nscore {scores[-1]}"
                ax.text(
                    -1.15,
                    0,
                    label,
                    rotation=90,
                    ha="right",
                    va="center",
                    fontsize=11,
                    fontweight="bold",
                )
    fig.legend(
        *axes.flat[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=2,
        frameon=False,
    )
    degrees = ", ".join(f"{abs(angle):.0f}°" for angle in angles)
    alt = (
        f"Two rows of clock faces, each face with a hand of the query and one of the key. Above, the two stand at the "
        f"places 3 and 1, below at 13 and 11. The hands have turned, and the angles between them are the same in both "
        f"rows: {degrees}. So is the score: {scores[0]} above, {scores[1]} below."
    )
    data = {
        "query": plotting.rounded(query),
        "key": plotting.rounded(key),
        "base": base,
        "places": [3, 1],
    }
    show("clock", data, alt)


def lines(cases: Sequence[Sequence[Any]], alt: str, *, waits: bool = False) -> None:
    """Point at a word or letter written: which of those read does it look at, and how much?

    `cases` are from 1 to 4 tuples (name, above, below, weights): `above` (S) is read, `below` (T)
    written, and `weights` (T, S) say how thick the line is from each of those below to each above.
    Buttons choose among the cases; arrow keys walk along the words and the thickest lines. With `waits`, the lines are
    drawn at the first touch.

    The picture is the figure that you have drawn, and `alt` its text.
    """
    data = []
    for name, above, below, weights in cases:
        words = {"above": plotting.labels(above), "below": plotting.labels(below)}
        data.append({"name": name, **words, "weights": plotting.rounded(weights)})
    show("lines", {"cases": data, "waits": waits}, alt)


def verdict(differences: Mapping[str, Mapping[str, Sequence[float]]], margin: float = 0.05) -> None:
    """Choose a part, a budget and seeds; see its damage's interval and the verdict move.

    `differences` are, for each part and each of its budgets, in words, the losses without the part
    minus those of the whole model, one for each seed. What is less than `margin` does not matter.
    The picture shows all parts at the last budget, with all seeds.
    """
    parts = list(differences)
    budgets = list(next(iter(differences.values()), {}))
    # What the front end gets, so that both say the same.
    numbers = [
        [[round(float(x), 5) for x in values] for values in by_budget.values()] for by_budget in differences.values()
    ]
    verdict_of = {part: verdicts.verdict(by_budget[-1], margin) for part, by_budget in zip(parts, numbers, strict=True)}

    _, ax = plotting.figure(9, 1.1 + 0.36 * len(parts))
    color_of = {
        "worse": plotting.COLORS[1],
        "better": plotting.COLORS[2],
        "difference": plotting.COLORS[0],
    }
    ax.axvspan(-margin, margin, color="#999999", alpha=0.25, linewidth=0)
    ax.axvline(0, color="#999999", linewidth=0.8)
    for y, v in enumerate(verdict_of.values()):
        color = color_of.get(v.says.split()[-1], "#777777")
        ax.plot([v.low, v.high], [y, y], color=color, linewidth=9, alpha=0.35, solid_capstyle="butt")
        ax.plot(v.mean, y, "|", color=color, markersize=13, markeredgewidth=2.5)
        ax.text(
            1.02,
            y,
            v.says,
            color=color,
            va="center",
            weight="bold",
            transform=ax.get_yaxis_transform(),
        )
    ax.set_yticks(range(len(parts)), parts)
    ax.set(xlabel=f"damage after {budgets[-1]} (nats), 95 % interval", ylim=(len(parts) - 0.4, -0.6))
    means = {part: f"{v.mean:+.2f}".replace("-", "−") for part, v in verdict_of.items()}
    summary = "; ".join(f"{part} {means[part]}, {v.says}" for part, v in verdict_of.items())
    alt = (
        f"The damage of {len(parts)} parts left out, after {budgets[-1]}, each with its 95 % interval as a bar, over a "
        f"grey band from −{margin:g} to {margin:g}: {summary}."
    )
    show(
        "verdict",
        {"parts": parts, "budgets": budgets, "differences": numbers, "margin": margin},
        alt,
    )


def questions(
    people: Sequence[str],
    cards: Sequence[Sequence[str]],
    things: Sequence[str],
    networks: Mapping[str, tuple[Tensor, Tensor]],
    *,
    waits: bool = False,
) -> None:
    """Choose who asks "what do I give, and what do I get?"; see one or two heads answer.

    Each of the A `people` gives on one of the A `cards` (giver, thing, receiver) and gets on
    another. `networks` have, by name, the weights (A, H, A) of H = 1 or 2 heads on all cards, for
    each who asks, and the scores (A, 2, N): how close the two answers are to each of the N
    `things`. Of two heads, each has made one of the answers. The picture shows the weights and
    answers for the first of the people. With `waits`, it shows the cards alone, and the rest waits for a touch.
    """
    seen = [
        {"name": name, "weights": plotting.rounded(weights), "scores": plotting.rounded(scores)}
        for name, (weights, scores) in networks.items()
    ]
    data = {
        "people": plotting.labels(people),
        "cards": [plotting.labels(card) for card in cards],
        "things": plotting.labels(things),
        "networks": seen,
        "waits": waits,
    }
    who = people[0]
    show("questions", data, _draw_cards(cards, who) if waits else _draw_answers(cards, things, who, seen))


def ring(names: Sequence[str], things: Sequence[str], asker: int) -> None:
    """Click cards away in a ring of N people; see whose gifts and receipts don't cancel.

    Person i gives thing i to the next one. The picture shows all cards.
    """
    N = len(names)
    _, ax = plotting.figure(5, 4.4)
    angles = [0.5 * math.pi - 2 * math.pi * i / N for i in range(N)]
    for i, (name, angle) in enumerate(zip(names, angles, strict=True)):
        ax.text(
            1.25 * math.cos(angle), 1.25 * math.sin(angle), name,
            ha="center", va="center", weight="bold" if i == asker else "normal",
        )  # fmt: skip
        start, end, middle = (angle - 2 * math.pi * part / N for part in (0.2, 0.8, 0.5))
        points = [(math.cos(at), math.sin(at)) for at in (start, end)]
        arrow = {"arrowstyle": "-|>", "lw": 2, "color": "black"}
        ax.annotate("", points[1], points[0], arrowprops=arrow)
        ax.text(
            0.62 * math.cos(middle), 0.62 * math.sin(middle), things[i], ha="center", va="center",
            fontsize=9,
        )  # fmt: skip
    ax.set(xlim=(-1.6, 1.6), ylim=(-1.45, 1.45), aspect="equal")
    ax.axis("off")
    gifts = [f"{name} the {things[i]} to {names[(i + 1) % N]}" for i, name in enumerate(names)]
    alt = f"{N} people in a ring, each giving something to the next: {', '.join(gifts)}."
    show("ring", {"names": list(names), "things": list(things), "asker": asker}, alt)


def model(model: GPT, tokenizer: CharTokenizer, text: str) -> None:
    """Your own model in the page's explorer: type on after `text`; see heads, stream, chances.

    The picture shows how much each letter of `text` surprises the model. ConfigError for a text of
    fewer than two letters, or longer than the model's context, and for a model that `pack` refuses.
    """
    tokens = tokenizer.encode(text)
    if not 2 <= len(tokens) <= model.config.context_length:
        raise ConfigError(f"text must have from 2 to {model.config.context_length} letters, not {len(tokens)}")
    _, ax = plotting.figure(0.22 * len(tokens) + 1, 2)
    ax.bar(range(1, len(tokens)), surprise(model, tokens).tolist(), color=plotting.COLORS[1])
    ax.set_xticks(range(len(tokens)), plotting.labels(text))
    ax.set(ylabel="surprise (nats)")
    alt = f"How much each letter of “{text}” but the first surprises the model, as bars."
    # Too large for JSON: without a kernel, only the picture.
    weights = pack(model, tokenizer) if is_live() else b""
    show("play", {"text": text}, alt, weights)


# ---------------------------------------------------------------- their parts
def _draw_cards(cards: Sequence[Sequence[str]], who: str) -> str:
    """Draw cards as sentences, in bold where they name `who`; return the alternative text."""
    A = len(cards)
    _, ax = plotting.figure(9, 0.9 + 0.3 * A)
    sentences = [telegrams.sentence(*card) for card in cards]
    for t, sentence in enumerate(sentences):
        ax.text(0, -t, sentence, weight="bold" if who in cards[t] else "normal", va="center")
    ax.set(xlim=(0, 1), ylim=(-A + 0.4, 0.6), title=f"what does {who} give, and what does {who} get?")
    ax.axis("off")
    return f"{A} cards: {'; '.join(sentences)}."


def _draw_answers(
    cards: Sequence[Sequence[str]], things: Sequence[str], who: str, networks: Sequence[Mapping[str, Any]]
) -> str:
    """Draw where `who`, the first of the people, looks, and what each network says; return the alternative text."""
    A = len(cards)
    givers, gifts, receivers = ([card[i] for card in cards] for i in range(3))
    card_of = {"gives": givers.index(who), "gets": receivers.index(who)}
    looks: dict[str, list[float]] = {}
    says: dict[str, list[str]] = {}  # one answer from each of two heads, both from one
    for network in networks:
        answers = []
        for (role, t), close in zip(card_of.items(), network["scores"][0], strict=True):
            word = things[close.index(max(close))]
            answers.append(f"{role} the {word} ({'right' if word == gifts[t] else f'wrong: the {gifts[t]}'})")
        heads = network["weights"][0]
        for h, shares in enumerate(heads):
            row = network["name"] if len(heads) == 1 else f"{network['name']}, head {h + 1}"
            looks[row], says[row] = shares, answers if len(heads) == 1 else [answers[h]]

    _, ax = plotting.figure(4.4 + 0.9 * A, 1.8 + 0.6 * len(looks))
    marks = {t: f"\n({role})" for role, t in card_of.items()}
    columns = ["\n".join(card) + marks.get(t, "") for t, card in enumerate(cards)]
    plotting.heatmap(torch.tensor([*looks.values()]), list(looks), columns, limits=(0, 1), ax=ax)
    ax.set(title=f"where {who} looks", xlabel="giver, thing, receiver", ylabel="")
    ax.tick_params(axis="x", rotation=0)
    beside = {"va": "center", "transform": ax.get_yaxis_transform()}
    ax.text(1.02, -0.68, f"says that {who} …", **beside)
    sentences = []
    for y, (row, answers) in enumerate(says.items()):
        for i, answer in enumerate(answers):
            color = plotting.COLORS[2 if answer.endswith("(right)") else 1]
            ax.text(
                1.02,
                y + 0.36 * (i - (len(answers) - 1) / 2),
                answer,
                color=color,
                weight="bold",
                **beside,
            )
        most = sorted(range(A), key=lambda t: -looks[row][t])[:2]
        shares = " and ".join(f"{plotting.numeral(looks[row][t], 2)} to the {gifts[t]}" for t in most)
        sentences.append(f"{row}: {shares}; it says that {who} {' and '.join(answers)}.")
    return f"The shares that {who} gives to {A} cards, of which the two largest are told here. {' '.join(sentences)}"


def _written(table: Int[Tensor, "N M"]) -> list[list[str]]:
    return [[str(number) for number in row] for row in table.tolist()]


def _hands(x: Tensor, place: int, base: float) -> list[complex]:
    """The hands of a query or key at its place: complex numbers, turned by a product."""
    first, second = x.double().chunk(2)
    hands = map(complex, first.tolist(), second.tolist())
    return [hand * cmath.rect(1, place * base ** (-i / len(first))) for i, hand in enumerate(hands)]


def _face(ax: Axes, query: complex, key: complex) -> None:
    """A clock with both hands and the angle between them; its rim is 1 away from its middle."""
    angle, start = cmath.phase(query * key.conjugate()), cmath.phase(key)
    rim = [cmath.rect(1, math.radians(6 * i)) for i in range(61)]
    between = [0j, *(cmath.rect(0.26, start + angle * i / 40) for i in range(41)), 0j]
    ax.plot([z.real for z in rim], [z.imag for z in rim], color="#999999", linewidth=1)
    ax.fill([z.real for z in between], [z.imag for z in between], color=plotting.COLORS[2], alpha=0.35)
    looks = (("the query's hand", query, "-", 4), ("the key's hand", key, "--", 2.5))
    for (name, tip, style, width), color in zip(looks, plotting.COLORS[:2], strict=True):
        ax.plot(
            [0, tip.real],
            [0, tip.imag],
            style,
            color=color,
            linewidth=width,
            label=name,
            solid_capstyle="round",
        )
    ax.plot(0, 0, "o", color="black", markersize=4)
    ax.set(xlim=(-1.1, 1.1), ylim=(-1.3, 1.3), aspect="equal")
    ax.axis("off")
