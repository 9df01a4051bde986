"""Draw the README's bars from lesson 05's table: what a network learned by heart, and what of the rule.

python -m tools.surprise, once `python -m tools.studies thin_book` has run.
"""

import sys
from statistics import fmean

from helpers import ROOT
from helpers.commands import Options, command
from helpers.files import write
from helpers.tables import MEASURED, Line, column, read_table

PICTURE = ROOT / "docs" / "surprise.svg"
HIDDEN = {  # while it learned
    "nothing hidden": ("nothing", 0.0),
    "half of the words' numbers": ("words", 0.5),
    "a quarter of the looks at cards": ("looks", 0.25),
}
EXAMS = {"own_without": "own puzzles without the card: by heart", "new": "new puzzles: by the rule"}
WIDTH, LEFT, ROW, BAR = 760, 250, 66, 22  # in pixels; LEFT of the bars stand the words
STYLE = """text { font: 15px system-ui, sans-serif; fill: #1f2328 }
.own_without { fill: #D55E00 } .new { fill: #0072B2 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .own_without { fill: #f0883e } .new { fill: #58a6ff } }"""


def shares(runs: list[Line], hidden: str, strength: float) -> dict[str, float]:
    """The means over the students of the lesson's book and budget."""
    these = {"hidden": hidden, "strength": strength, "size": 50, "steps": 300, "rate": 0.01}
    return {exam: fmean(column(runs, exam, **these)) for exam in EXAMS}


def draw(runs: list[Line]) -> str:
    """The picture, for light and dark pages."""
    parts, y = [], 34
    for i, (exam, words) in enumerate(EXAMS.items()):
        x = LEFT - 190 + 330 * i
        parts.append(
            f'<rect class="{exam}" x="{x}" y="4" width="14" height="14"/><text x="{x + 20}" y="16">{words}</text>'
        )
    alt = []
    for label, settings in HIDDEN.items():
        right = shares(runs, *settings)
        parts.append(f'<text x="{LEFT - 12}" y="{y + BAR + 5}" text-anchor="end">{label}</text>')
        for i, (exam, share) in enumerate(right.items()):
            top, long = y + i * (BAR + 2), share * (WIDTH - LEFT - 60)
            parts.append(f'<rect class="{exam}" x="{LEFT}" y="{top}" width="{long:.0f}" height="{BAR}"/>')
            parts.append(f'<text x="{LEFT + long + 8:.0f}" y="{top + 16}">{share:.0%}</text>')
        alt.append(f"{label}: {right['own_without']:.0%} and {right['new']:.0%}")
        y += ROW
    title = f"Hidden while it learned, and what is right, without the card and on new puzzles. {'; '.join(alt)}."
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" role="img">'
    return "\n".join([head, f"<title>{title}</title>", f"<style>{STYLE}</style>", *parts, "</svg>\n"])


def main(arguments: list[str]) -> None:
    """Write docs/surprise.svg."""
    Options(prog="python -m tools.surprise", description="Draw the README's bars.").parse_args(arguments)
    write(PICTURE, draw(read_table(MEASURED / "thin_book.csv")[1]))


if __name__ == "__main__":
    sys.exit(command(main))
