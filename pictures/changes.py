"""The pictures of *what matters* and of *what today's models changed*: variants against the whole model."""

from collections.abc import Mapping, Sequence
from statistics import fmean, median

from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from helpers.rooms.extrapolation import BLIND, TRAINED, WAYS
from helpers.rooms.verdicts import Verdict
from helpers.tables import Line
from pictures import plotting

BLUE, ORANGE, GREEN = plotting.COLORS[:3]
SUBSCRIPTS = "₁₂₃₄₅₆₇₈₉"


def beyond(lines: Sequence[Line]) -> None:
    """The losses of far.csv by place, a line for each way to read and each seed."""
    _, ax = plotting.figure(9, 3.8)
    (blind,) = (line["loss"] for line in lines if line["reads"] == BLIND)
    phrases = []
    for way, color in zip(WAYS, (1, 2, 0), strict=True):
        ends = []
        for seed in sorted({line["seed"] for line in lines if line["reads"] == way}):
            points = [x for x in lines if (x["reads"], x["seed"]) == (way, seed)]
            losses = [line["loss"] for line in points]
            ax.plot(
                [line["place"] + 8 for line in points],
                losses,
                "o-",
                color=plotting.COLORS[color],
                markersize=4,
                alpha=0.7,
            )
            ends.append(losses[-1])
        height = fmean(ends) + (0.07 if color == 0 else -0.04 if color == 2 else 0)
        ax.text(126, height, way, color=plotting.COLORS[color], va="center", weight="bold")
        phrases.append(f"{way} {min(ends):.2f} to {max(ends):.2f}")
    ax.axhline(blind, color="#777777", linestyle=":")
    ax.text(2, blind, BLIND, color="#555555", va="bottom")
    ax.axvspan(0, TRAINED, color="#999999", alpha=0.15)
    ax.text(TRAINED / 2, 1.62, "trained", ha="center", color="#555555")
    ax.set(xlabel="place", ylabel="loss (nats per letter)", xlim=(0, 185), ylim=(1.6, 3.5))
    ax.set_xticks(range(0, 129, 32))
    plotting.show(
        f"The loss by place, trained up to place {TRAINED}. At the last sixteen of 128 places: "
        f"{'; '.join(phrases)}. Letter frequencies alone have {blind:.2f}."
    )


def groups() -> None:
    """Eight heads of queries, and the keys and values that they look up: their own, or shared."""
    _, axes = plotting.figure(10, 2.2, columns=3)
    for ax, sets in zip(axes, (8, 2, 1), strict=True):
        for head in range(8):
            of = head // (8 // sets)
            at = (of + 0.5) * 8 / sets - 0.5
            color = plotting.COLORS[of] if sets < 8 else "#777777"
            ax.plot([head, at], [1, 0], color=color, linewidth=1.5)
            ax.plot(head, 1, "o", color=color, markersize=9)
            ax.plot(at, 0, "s", color=color, markersize=13)
        title = "each head has its own" if sets == 8 else f"{sets} for eight"
        ax.set(title=title, xticks=[], ylim=(-0.5, 1.4), xlim=(-0.7, 7.7))
        ax.set_yticks([0, 1], ["keys, values", "queries"] if sets == 8 else ["", ""])
        ax.spines[:].set_visible(False)
        ax.grid(False)
    plotting.show(
        "Eight heads' queries, round, above the keys and values that they look up, square: one set for "
        "each head, two sets for eight heads, one set for all."
    )


def by_rate(lines: Sequence[Line]) -> dict[str, dict[float, list[float]]]:
    """Draw, and return, the losses of each variant's seeds at each learning rate."""
    by_variant: dict[str, dict[float, list[float]]] = {}
    for line in lines:
        by_variant.setdefault(line["variant"], {}).setdefault(line["rate"], []).append(line["loss"])
    _, ax = plotting.figure(7, 3.2)
    for (name, losses), color in zip(by_variant.items(), (ORANGE, BLUE), strict=True):
        rates = sorted(losses)
        ax.plot(rates, [median(losses[rate]) for rate in rates], color=color)
        for rate in rates:
            ax.plot([rate] * len(losses[rate]), losses[rate], "o", color=color, markersize=4)
        label = name if name == "QK-norm" else "without QK-norm"
        ax.text(rates[-1] * 1.06, median(losses[rates[-1]]), label, color=color, va="center")
    rates = sorted({rate for losses in by_variant.values() for rate in losses})
    ax.set(xscale="log", xlabel="learning rate", ylabel="loss after 1,200 steps", xlim=(0.0026, 0.12))
    ax.set_xticks(rates, [f"{rate:g}" for rate in rates])
    ax.minorticks_off()
    plotting.show(
        "The loss against the learning rate, three seeds each. Up to 0.012 the two models are close; at "
        "higher rates the loss without QK-norm climbs much more than the one with it."
    )
    return by_variant


def verdicts(
    judged: Mapping[str, Verdict], groups: Mapping[str, Sequence[str]], margin: float, limits: tuple[float, float]
) -> None:
    """How the loss changes with each variant, in groups: an interval each, the lowest on top.

    A name of a group may be empty. What lies beyond the limits is written at the edge.
    """
    rows = sum(len(names) for names in groups.values()) + sum(map(bool, groups))
    _, ax = plotting.figure(9, 0.28 * rows + 0.8)
    ticks: list[tuple[float, str]] = []
    phrases, y = [], 0.0
    for group, names in groups.items():
        if group:
            ax.text(limits[0], y - 0.1, f" {group}", va="center", weight="bold")
            y += 1
        for name in sorted(names, key=lambda name: judged[name].mean):
            v = judged[name]
            color = GREEN if v.says.endswith("better") else ORANGE if v.says.endswith("worse") else BLUE
            color = "#777777" if v.says == "undecided" else color
            ax.plot([v.low, v.high], [y, y], color=color, linewidth=3)
            ax.plot(v.mean, y, "o", color=color)
            label = f"{v.mean:+.3f}  {v.says}".replace("-", "−")
            ax.annotate(label, (1.01, y), xycoords=("axes fraction", "data"), color=color, va="center")
            ticks.append((y, name))
            phrases.append(f"{name} {v.mean:+.3f}, {v.says}")
            y += 1
    ax.axvspan(-margin, margin, color="#999999", alpha=0.2)
    ax.axvline(0, color="#999999", linewidth=0.8)
    ax.set_yticks(*zip(*ticks, strict=True))
    ax.set(ylim=(y - 0.5, -0.5), xlim=limits, xlabel="change of the loss (nats)")
    plotting.show(f"The change of the loss with each, the mean of its seeds with its interval: {'; '.join(phrases)}")


def by_budget(judged: Mapping[tuple[int, str], Verdict], names: Sequence[str]) -> None:
    """What becomes of each damage when training goes on: its interval after each number of steps."""
    budgets = sorted({steps for steps, _ in judged})
    _, ax = plotting.figure(9, 4.4)
    phrases = []
    for i, (name, color) in enumerate(plotting.colored(names)):
        damages = [judged[steps, name] for steps in budgets]
        places = [x + 0.012 * (i - len(names) / 2) for x in range(len(budgets))]
        ax.plot(places, [v.mean for v in damages], "o-", color=color, markersize=5)
        for x, v in zip(places, damages, strict=True):
            ax.plot([x, x], [v.low, v.high], color=color, linewidth=2)
        end = (places[-1], damages[-1].mean)
        ax.annotate(name, end, (7, 0), textcoords="offset points", color=color, va="center", gid="end")
        phrases.append(f"{name} {', '.join(f'{v.mean:+.2f}' for v in damages)}")
    ax.axhline(0, color="#999999", linewidth=0.8)
    ax.set_xticks(range(len(budgets)), [f"{steps:,} steps" for steps in budgets])
    ax.set(ylabel="damage (nats)", xlim=(-0.15, len(budgets) - 0.35))
    plotting.show(f"Damage after {', '.join(f'{steps:,}' for steps in budgets)} steps: {'; '.join(phrases)}.")


def search(losses: Mapping[float, Sequence[float]], first: Sequence[float], level: float, name: str) -> None:
    """The loss at each learning rate that was tried: first these, then the others. `level` bears `name`."""
    _, ax = plotting.figure(8, 3.4)
    rates = sorted(losses)
    ax.plot(rates, [fmean(losses[rate]) for rate in rates], color="#BBBBBB", zorder=0)
    for rate in rates:
        color = ORANGE if rate in first else BLUE
        ax.plot([rate] * len(losses[rate]), losses[rate], "o", color=color, markersize=6)
    ax.axhline(level, color="#777777", linestyle=":")
    ax.text(rates[-1], level, name, color="#555555", va="bottom", ha="right")
    ax.set(xscale="log", xlabel="learning rate", ylabel="loss on held-out text")
    ax.set_xticks(rates, [f"{rate:g}" for rate in rates])
    ax.minorticks_off()
    means = "; ".join(f"{rate:g} {fmean(losses[rate]):.2f}" for rate in rates)
    plotting.show(f"The loss by learning rate, two seeds each: {means}. {name}: {level:.2f}.")


def pour(
    key: Float[Tensor, "T D"],
    value: Float[Tensor, "T E"],
    query: Float[Tensor, "D"],
    words: Sequence[str],
) -> None:
    """Each token's table k vᵀ, below it the state S after it, and at the end a query that reads S."""
    added = key[:, :, None] * value[:, None, :]
    states = added.cumsum(dim=0)
    reach = 1.6 * float(states.abs().max())
    _, axes = plotting.figure(11, 4.6, columns=len(words) + 1, rows=2)

    def cells(ax: Axes, table: Tensor, title: str) -> None:
        ax.imshow(table.numpy(), cmap=plotting.SIGNED, vmin=-reach, vmax=reach)
        for i, row in enumerate(table.tolist()):
            for j, number in enumerate(row):
                ax.text(j, i, f"{number + 0:g}".replace("-", "−"), ha="center", va="center")
        ax.set(xticks=[], yticks=[], title=title)

    for t, word in enumerate(words):
        above, below = axes[:, t]
        cells(above, added[t], f"+ {word}" if t else word)
        above.set_xticks(range(value.shape[1]), [f"{x:.0f}".replace("-", "−") for x in value[t]])
        above.set_yticks(range(key.shape[1]), [f"{x:.0f}".replace("-", "−") for x in key[t]])
        above.tick_params(length=0)
        cells(below, states[t], f"S{SUBSCRIPTS[t]}")
    asks, answers = axes[:, -1]
    cells(asks, query[:, None], "query")
    cells(answers, (query @ states[-1])[None], f"query · S{SUBSCRIPTS[len(words) - 1]}")
    plotting.show(
        f"Above, for each of {', '.join(words)}, the products of its key's and its value's numbers, key "
        "downwards, value across. Below, the state, to which each has been added. At the right a query "
        f"and what it reads: {', '.join(f'{x:g}' for x in query @ states[-1])}."
    )


def recall(errors: Mapping[str, Sequence[float]], pairs: Sequence[int]) -> None:
    """How far the value that is read lies from the one that was stored, by the number of pairs."""
    _, ax = plotting.figure(8, 3.4)
    for (name, line), color in zip(errors.items(), (ORANGE, GREEN, BLUE, "#555555"), strict=True):
        ax.plot(pairs, line, "o-", color=color, markersize=4)
        ax.text(pairs[-1] * 1.1, line[-1], name, color=color, va="center", weight="bold")
    ax.axhline(1, color="#777777", linestyle=":")
    ax.text(pairs[0], 1.04, "as large as the value itself", color="#555555", va="bottom")
    ax.set(
        xscale="log",
        xlabel="pairs that were stored",
        ylabel="error, relative to the value",
        xlim=(1.7, 1500),
    )
    ax.set_xticks(pairs, [f"{n}" for n in pairs])
    ax.minorticks_off()
    ends = "; ".join(f"{name} {line[-1]:.1f}" for name, line in errors.items())
    plotting.show(
        f"The error of what is read, against the number of pairs, from {pairs[0]} to {pairs[-1]}. It grows "
        f"at once for pairs that are only added, and from 32 on for the best table; at the end: {ends}."
    )
