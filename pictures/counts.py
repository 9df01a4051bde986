"""The pictures of *speedrun*: counts that give something away, and what a network adds to them."""

from collections.abc import Mapping, Sequence

from matplotlib.patches import Polygon, Rectangle

from helpers.tables import Line
from pictures import plotting

BLUE, ORANGE, GREEN = plotting.COLORS[:3]


def pouring(followers: Mapping[str, Mapping[str, int]], lit: str, vocab_size: int, d: float) -> None:
    """A bar for each run, from the longest down: what its letters keep, and what they give away.

    What is given away (grey) becomes the whole of the next bar. The share of the letter `lit` is
    orange. `followers` are the counts after each run; below the empty one all letters are alike.
    """
    _, ax = plotting.figure(10, 0.75 * len(followers) + 1)
    phrases, reached = [], 1.0
    for y, (run, counts) in enumerate(followers.items()):
        n, left = sum(counts.values()), 0.0
        for letter, count in sorted(counts.items(), key=lambda item: -item[1]):
            width = (count - d) / n
            color = ORANGE if letter == lit else BLUE
            box = Rectangle((left, y - 0.3), width, 0.6, facecolor=color, edgecolor="white")
            ax.add_patch(box)
            if width > 0.016:
                label = plotting.labels(letter)[0]
                ax.text(left + width / 2, y, label, ha="center", va="center", color="white")
            left += width
        ax.add_patch(Rectangle((left, y - 0.3), 1 - left, 0.6, facecolor="#CCCCCC"))
        ax.add_patch(Polygon([(left, y + 0.3), (1, y + 0.3), (1, y + 0.7), (0, y + 0.7)], color="#EEEEEE"))
        label = "no letters" if not run else "".join(plotting.labels(run))
        ax.text(-0.012, y, label, ha="right", va="center", family="monospace")
        given_away = d * len(counts) / n
        ax.text(1.012, y, f"gives {given_away:.1%} away", va="center", color="#555555")
        share = max(counts.get(lit, 0) - d, 0) / n
        phrases.append(f"{label} keeps {share:.3f} for {lit} and gives {given_away:.3f} away")
        reached *= given_away
    y = len(followers)
    ax.add_patch(Rectangle((0, y - 0.3), 1, 0.6, facecolor=BLUE, alpha=0.35))
    ax.text(0.5, y, f"each of {vocab_size} letters the same", ha="center", va="center")
    ax.set(xlim=(-0.1, 1.2), ylim=(y + 0.45, -0.45))
    ax.axis("off")
    plotting.show(
        f"A bar for each run of letters, each of which hands a grey part on to the next one: "
        f"{'; '.join(phrases)}. At the bottom all {vocab_size} letters are alike."
    )


def two_ways(often: Mapping[str, int], how_many: Mapping[str, int], lit: str, run: str) -> None:
    """How often each letter came after a run, beside after how many different letters."""
    _, axes = plotting.figure(10, 2.6, columns=2)
    titles = ("how often it came", "after how many different letters")
    for ax, counts, title in zip(axes, (often, how_many), titles, strict=True):
        total = sum(counts.values()) or 1
        colors = [ORANGE if letter == lit else BLUE for letter in counts]
        ax.bar(range(len(counts)), [count / total for count in counts.values()], color=colors)
        for x, count in enumerate(counts.values()):
            ax.text(x, count / total, count, ha="center", va="bottom")
        ax.set_xticks(range(len(counts)), plotting.labels([*counts]), family="monospace")
        ax.set(title=title, yticks=[])
        ax.margins(y=0.15)
    axes[0].set(ylabel="its share", xlabel=f"letter after {run}")
    plotting.show(
        f"Two ways to count which letter follows {run}. Left, how often each came; right, after how many "
        f"different letters. {lit} has {often.get(lit, 0)} on the left and {how_many.get(lit, 0)} on the right."
    )


def by_length(lines: Mapping[str, Sequence[float]], levels: Mapping[str, float]) -> None:
    """Losses by the length of the run that is looked back at, and the losses of others as levels."""
    _, ax = plotting.figure(9, 4)
    height = 9.0  # of the label before
    for (name, losses), color in plotting.colored(lines.items()):
        ax.plot(range(len(losses)), losses, "o-", color=color, markersize=4)
        text = f"{name}: at best {min(losses):.2f}"
        height = min(losses[-1], height - 0.12)
        ax.text(len(losses) - 0.85, height, text, color=color, va="center", weight="bold")
    for name, loss in levels.items():
        ax.plot([-0.2, 8], [loss, loss], color="#999999", linestyle=":", zorder=0)
        ax.text(0, loss - 0.02, name, color="#555555", va="top")
    ax.set(xlabel="letters that it looks back at", ylabel="loss (nats per letter)")
    ax.set(xlim=(-0.2, 12.5), ylim=(1.3, 3.5))
    ax.set_xticks(range(9))
    phrases = (f"{name} {min(losses):.2f}" for name, losses in lines.items())
    plotting.show(f"The loss by run length. The lowest: {', '.join(phrases)}.")


def passage(lines: Sequence[Line]) -> None:
    """A text's letters, blue where a network made them likelier than counting, orange where less."""
    pairs = [(chr(line["letter"]), line["gain"]) for line in lines if line["what"] == "passage"]
    width = 50
    rows: list[list[tuple[str, float]]] = [[]]
    for letter, gain in pairs:
        rows[-1].append((letter, gain))
        if letter == "\n" or len(rows[-1]) == width:
            rows.append([])
    rows = [row for row in rows if row]
    _, ax = plotting.figure(9, 1 + 0.32 * len(rows))
    for y, row in enumerate(rows):
        for x, (letter, gain) in enumerate(row):
            shade = 0.9 * min(abs(gain) / 2, 1)
            color = BLUE if gain > 0 else ORANGE
            ax.add_patch(Rectangle((x, y), 1, 0.94, facecolor=color, alpha=shade, linewidth=0))
            label = "↵" if letter == "\n" else letter
            ax.text(x + 0.5, y + 0.5, label, ha="center", va="center", family="monospace")
    scale = (-2, -1, -0.5, 0.5, 1, 2)
    y = len(rows) + 0.5
    for x, gain in enumerate(scale):
        color = BLUE if gain > 0 else ORANGE
        ax.add_patch(Rectangle((3 * x, y), 3, 0.94, facecolor=color, alpha=0.45 * abs(gain), linewidth=0))
        ax.text(3 * x + 1.5, y + 0.5, f"{gain:+g}", ha="center", va="center")
    ax.text(3 * len(scale) + 1, y + 0.5, "nats", va="center")
    ax.set(xlim=(0, width), ylim=(y + 1, 0), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    best = sorted(pairs, key=lambda pair: -pair[1])[:3]
    plotting.show(
        f"The passage {''.join(letter for letter, _ in pairs)[:60]!r} and on. Blue letters became likelier "
        f"than by counting alone, orange ones less likely; most of all "
        f"{', '.join(f'{x!r} by {g:.1f} nats' for x, g in best)}."
    )
