"""Lesson 04's pictures: how sure each guess is, the staircase of questions that folds into one pass."""

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from matplotlib.patches import Rectangle
from torch import Tensor

from helpers.tables import Line, column, spread
from pictures.plotting import COLORS, SHARE, bare, figure, heatmap, show

Guesses = Sequence[tuple[str, float]]  # at each place: the letter that is guessed, and how surely


def guesses(rows: Mapping[str, Guesses], *right: Sequence[str]) -> None:
    """For each row a bar at every place, as high as the guess is sure; blue where it is `right`.

    `right` are the letters that come next, a sequence for each row.
    """
    _, ax = figure(9, 0.5 + len(rows))
    phrases = []
    for y, ((name, row), answers) in enumerate(zip(rows.items(), right, strict=True)):
        hits = 0
        for t, ((letter, sure), answer) in enumerate(zip(row, answers, strict=True)):
            hits += letter == answer
            color = COLORS[0 if letter == answer else 1]
            ax.bar(t, sure, 0.8, bottom=-1.4 * y, color=color, alpha=0.35)
            ax.text(t, 0.12 - 1.4 * y, letter, ha="center", color="black")
        phrases.append(f"{name}: {hits} of {len(answers)} right")
    ax.set_yticks([0.4 - 1.4 * y for y in range(len(rows))], list(rows))
    next_letters = ["\n".join(dict.fromkeys(letters)) for letters in zip(*right, strict=True)]
    ax.set_xticks(range(len(next_letters)), next_letters, fontsize=12)
    ax.set(xlabel="the letter that comes next")
    bare(ax)
    show(
        "What is guessed at each place of a line, as bars that are as high as the guess is sure, blue "
        f"where it is right and orange where it is wrong. {'; '.join(phrases)}."
    )


def looks(weights: Float[Tensor, "T T"], letters: Sequence[str]) -> None:
    """Where each letter of a line looks; the diagonal, where it would look at itself, is dotted."""
    _, ax = figure(5.4, 4.6)
    heatmap(weights, letters, decimals=None, row_name="who looks", column_name="at whom", ax=ax)
    ax.plot(range(len(letters)), range(len(letters)), ":", color="#777777", lw=1)
    T = len(letters)
    ahead = sum(int(weights[t].argmax()) == t + 1 for t in range(T - 1))
    show(
        f"A grid of {T} by {T} weights, with a dotted diagonal. In {ahead} of {T} rows the strongest is the one "
        "just right of it."
    )


def staircase(letters: Sequence[str], answers: Sequence[str], weights: Float[Tensor, "T T"]) -> None:
    """A question for each place, one under the other, and the same folded into one table."""
    T = len(letters)
    _, (apart, folded) = figure(10, 4.4, columns=2)
    for t in range(T):
        for s in range(t + 1):
            color = SHARE(0.06 + 0.94 * float(weights[t, s]))
            for ax in (apart, folded):
                ax.add_patch(Rectangle((s, -t), 0.94, -0.9, color=color, lw=0))
            apart.text(s + 0.47, -t - 0.47, letters[s], ha="center", va="center", fontsize=13)
        for s in range(t + 1, T):
            folded.add_patch(Rectangle((s, -t), 0.94, -0.9, color="#BBBBBB", lw=0))
        folded.text(-0.35, -t - 0.47, letters[t], ha="center", va="center", fontsize=13)
        folded.text(t + 0.47, 0.5, letters[t], ha="center", va="center", fontsize=13)
        for ax, x in ((apart, t + 1.1), (folded, T + 0.1)):
            ax.text(x, -t - 0.47, f"→ {answers[t]}", va="center", fontsize=13, weight="bold")
    apart.set_title(f"{T} questions, a pass for each")
    folded.set_title("one pass: one row of letters")
    for ax in (apart, folded):
        ax.set(xlim=(-0.8, T + 1.4), ylim=(-T - 0.1, 1.0), aspect="equal")
        ax.axis("off")
    show(
        f"Left, a staircase: under each other, the first letter of {''.join(letters)}, the first two, "
        f"and so on, each row with an arrow to the letter that comes next. Right, the same as one "
        f"table: one row of letters, above the columns, and the cells on and below the "
        f"diagonal are filled. On both sides a cell is the stronger, the more weight a letter has."
    )


def seeds(losses: Mapping[str, Sequence[float]], blind: float, xlabel: str) -> None:
    """A row of dots for each kind of network, one dot for each seed, and blind guessing."""
    _, ax = figure(8, 0.9 + 0.45 * len(losses))
    for y, row in enumerate(losses.values()):
        ax.plot(row, [-y] * len(row), "o", ms=8, alpha=0.7, color=COLORS[0])
    ax.axvline(blind, color="#777777", ls=":")
    ax.text(blind, 0.55, "blind guessing", ha="right", va="bottom", color="#555555", fontsize=9)
    ax.set_yticks([-y for y in range(len(losses))], list(losses))
    ax.set(xlabel=xlabel, ylim=(0.5 - len(losses), 0.5))
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    phrases = "; ".join(f"{name} {min(row):.2f} to {max(row):.2f}" for name, row in losses.items())
    show(f"Losses of networks as dots: {phrases}. Blind guessing: {blind:.2f}.")


# ---------------------------------------------------------------- the study
def measured(networks: Sequence[Line], loss: str, **settings: object) -> list[float]:
    """The losses of networks with these settings, and else the lesson's; `networks` are masks.csv's lines."""
    usual = {"places": True, "asked": "everywhere", "windows": 32, "steps": 300, "rate": 0.01}
    return column(networks, loss, **usual | settings)


def two_layers(networks: Sequence[Line]) -> None:
    """Print what two layers lose, by where the mask is."""
    print("                  future visible        future covered        visible, at a quarter of the rate")
    for first, second in (("no", "no"), ("no", "yes"), ("yes", "no"), ("yes", "yes")):
        names = {"yes": "mask", "no": "open"}
        masked = {"masked": f"{first} {second}"}
        visible, covered = (spread(measured(networks, loss, **masked)) for loss in ("visible", "covered"))
        slow = spread(measured(networks, "visible", **masked, rate=0.0025))
        print(f"{names[first]}, then {names[second]}:  {visible}   {covered}   {slow}")


def exchange(networks: Sequence[Line], blind: float) -> None:
    """The loss at the last place: with no mask, asked once a window in more and more windows, and with a mask."""
    rows = {"no mask": measured(networks, "last", masked="no")}
    for windows in (32, 64, 128, 256, 512):
        once = {"masked": "yes", "asked": "at the last place", "windows": windows}
        rows[f"mask, asked once, {windows // 32} × the windows"] = measured(networks, "last", **once)
    rows["no mask, 16 × the windows"] = measured(networks, "last", masked="no", windows=512)
    rows["mask"] = measured(networks, "last", masked="yes")
    for name, losses in rows.items():
        print(f"{name:34} {spread(losses)}")
    seeds(rows, blind, "loss at the last place (nats)")
