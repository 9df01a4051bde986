"""`python -m tools.play`: the page in which a trained model writes, with its lid off.

Without --run it packs the run in build/runs/playground (`python -m helpers.training --preset playground` trains it)
into docs/play, so that a clone that has trained nothing can build the page: `write` needs neither PyTorch nor a run.
With --run folder it makes a page of that run, build/play/play.html, and docs/play stays as it is.
"""

import base64
import gzip
import html
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from helpers import ROOT, commands, files
from pictures import host
from tools.provenance import commit
from tools.publish import home_page, repository

PACKED = ROOT / "docs" / "play"
LEVELS = 40  # of the weights in a snapshot, on either side of zero: four snapshots and the model take less than 4 MB
SITE = re.compile(r"^<nav>.*</nav>\n", re.M)  # the way back to the site


def committed() -> list[bytes]:
    """The packed models of docs/play: the snapshots in the order of their steps, then the model."""
    return [gzip.decompress(path.read_bytes()) for path in sorted(PACKED.glob("step-*.gz"))]


def write(folder: str | Path, packed: Sequence[bytes] | None = None) -> list[Path]:
    """Make play.html in `folder`, with the last of one run's `packed` models in it.

    The others are its snapshots: each has a file of its own, which the page loads when it is asked
    for. All of it works from the disk, without a server. By default the models are the committed
    ones, and the page is one of the site. RunError when it can't be written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("play-step-*.js"):  # of another model, perhaps
        old.unlink()
    *snapshots, model = committed() if packed is None else packed
    entries = []
    paths = []
    for snapshot in snapshots:
        about = header(snapshot)["about"]
        path = folder / f"play-step-{about['step']}.js"
        entries.append({"step": about["step"], "loss": about["loss"], "file": path.name})
        files.write(path, f"exploreArrived({about['step']}, '{base64.b64encode(snapshot).decode()}');\n")
        paths.append(path)
    parts = {
        "LINES": html.escape(summary(header(model))),
        "CARD": card("play", "A small GPT with its lid off", summary(header(model))) if packed is None else "",
        "CODE": host.bundle("play"),
        "SNAPSHOTS": json.dumps(entries),
        "MODEL": base64.b64encode(model).decode(),
    }
    page = filled("play", parts)
    files.write(folder / "play.html", page if packed is None else SITE.sub("", page))
    return [folder / "play.html", *paths]


def filled(name: str, parts: Mapping[str, str]) -> str:
    """The page `name` of pictures/front with its {{PARTS}}; those that aren't given stay as they are."""
    page = (host.SOURCES / f"{name}.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts.get(match[1], match[0]), page)


def header(packed: bytes) -> dict:
    """What pictures.packing wrote in front of the weights."""
    return json.loads(packed[4 : 4 + int.from_bytes(packed[:4], "little")])


def summary(facts: dict) -> str:
    """The sentence for those who find the page by a search."""
    return f"A language model of {facts['about']['parameters']:,} numbers writes in your browser."


def card(name: str, title: str, about: str) -> str:
    """What a chat shows of a link to the page `name`; nothing as long as it has no address."""
    home = home_page(repository(ROOT))
    tags = {"title": title, "description": about, "image": f"{home}/play.png", "url": f"{home}/{name}.html"}
    lines = [f'<meta property="og:{name}" content="{html.escape(text)}">' for name, text in tags.items()]
    return "\n".join(lines) if home else ""


def pack_run(run: Path) -> list[bytes]:
    """A run's best model, packed, and before it every second earlier snapshot, if it kept any.

    RunError when the run can't be used, ConfigError when its model can't be packed.
    """
    from helpers import checkpoint  # only packing needs PyTorch
    from helpers.gpt import count_parameters
    from pictures.packing import pack

    state = checkpoint.load(run)
    model, tokenizer = checkpoint.load_model(run)
    snapshots = checkpoint.load_snapshots(run)[:-1:2]
    records = {record.step: record for record in state.history}
    best = state.history.best.step
    origin = state.about
    facts = {
        "preset": origin["preset"],
        "corpus": origin["corpus"],
        "corpus_sha256": origin["corpus_sha256"],
        "parameters": count_parameters(model),
        "seed": state.settings["seed"],
        "torch": origin["torch"],
        "commit": commit(),
    }
    packed = []
    learning = [(step, early) for step, early in snapshots if step < best]
    for step, weights in [*learning, (best, model)]:
        record = records[step]
        about = facts | {
            "step": step,
            "loss": round(record.val_loss, 4),
            "seconds": round(record.seconds),
        }
        packed.append(pack(weights, tokenizer, None if step == best else LEVELS, about))
    return packed


def commit_packed(packed: Sequence[bytes]) -> None:
    """Put these models into docs/play, in place of those that are there."""
    PACKED.mkdir(parents=True, exist_ok=True)
    for old in PACKED.glob("step-*.gz"):
        old.unlink()
    for model in packed:
        about = header(model)["about"]
        compressed = gzip.compress(model, 9, mtime=0)
        files.write(PACKED / f"step-{about['step']:09}.gz", compressed)
        commands.say(f"step {about['step']:>6,}  loss {about['loss']:.3f}  {len(compressed) / 1e6:.2f} MB")


def main(arguments: list[str]) -> None:
    from helpers.presets import RUNS

    parser = commands.Options(prog="python -m tools.play", description=__doc__.splitlines()[0])
    parser.add_argument("--run", help="folder of a run (default: build/runs/playground, for docs/play)")
    if run := parser.parse_args(arguments).run:
        pages = write(ROOT / "build" / "play", pack_run(Path(run)))
    else:
        commit_packed(pack_run(RUNS / "playground"))
        pages = write(ROOT / "build" / "site")
    for path in pages:
        commands.say(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    sys.exit(commands.command(main))
