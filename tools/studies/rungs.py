"""Climb notebook 08's ladder with three seeds; store losses, seconds and each rung's text.

python -m tools.studies rungs
"""

import nbformat
import torch

from helpers import ROOT, files
from helpers.commands import Options, say
from helpers.data import load_corpus
from helpers.tables import MEASURED, csv_table
from tools.studies.header import header

NOTEBOOK = ROOT / "notebooks" / "08_nanogpt_shakespeare.ipynb"
# The cells that its ladder stands on.
BEFORE = ("settings", "imports", "corpus")
CONTROLS = """
def normed(part):
    return Add(nn.Sequential(nn.LayerNorm(C), part))


def normed_block():
    return nn.Sequential(normed(Heads(4)), normed(mlp()))


rung("one block that doesn't add", lambda: Letters(Heads(4), mlp()))
rung(
    "three that don't add, rate 0.002, 2,000 updates",
    lambda: Letters(Heads(4), mlp(), Heads(4), mlp(), Heads(4), mlp()),
    rate=0.002,
    updates=2000,
)
rung("three blocks with norms", lambda: Letters(*(normed_block() for _ in range(3))))
rung("three blocks, rate 0.03", lambda: Letters(*(one_block() for _ in range(3))), rate=0.03)
rung("with norms, rate 0.03", lambda: Letters(*(normed_block() for _ in range(3))), rate=0.03)
"""


def main(arguments: list[str]) -> None:
    Options(prog="python -m tools.studies rungs", description=__doc__).parse_args(arguments)
    cells = {cell.id: cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code"}
    climbing = [source for name, source in cells.items() if name.startswith("ladder-")]
    lines = []
    for seed in (1, 2, 3):
        names: dict = {"__name__": "notebook"}
        for name in BEFORE:
            exec(cells[name], names)  # the notebook's own, so that what is stored is what it shows
        names["seed"] = seed
        for source in [*climbing, CONTROLS]:
            exec(timed(source), names)
        for rung, (loss, text, *_) in names["rungs"].items():
            sizes = names["measured"][rung]
            lines.append({"rung": rung, "seed": seed, **sizes, "loss": round(loss, 4), "writes": text})
    what = "seconds of one core, for building, training, measuring and writing; settings in the cells of notebook 08"
    comments = [*header("rungs", f"{torch.get_num_threads()} threads", corpus=load_corpus()), what]
    files.write(MEASURED / "rungs.csv", csv_table(lines, comments))
    say(f"stored {len(lines)} rows in notebooks/measured/rungs.csv")


def timed(source: str) -> str:
    """A cell's source; where it defines `rung`, that writes down seconds and parameters."""
    return source if "def rung(" not in source else f"{source}\n\n{MEASURE}"


MEASURE = """
import time
measured, plain = {}, rung


def rung(name, make, **recipe):
    start = time.process_time()
    plain(name, make, **recipe)
    parameters = sum(p.numel() for p in make().parameters())
    measured[name] = {"parameters": parameters, "seconds": round(time.process_time() - start, 1)}
"""
