"""`make play`: the page in which the model of notebook 08 writes, from the run in build/runs/laptop, or in folder P.

The packed model lies in docs/play, so that a clone that has trained nothing can build the page: `write` needs neither
PyTorch nor a run. `main` packs it anew.
"""

import base64
import gzip
import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from helpers.support import files

ROOT = Path(__file__).parents[1]
PACKED, FRONT = ROOT / "docs" / "play", ROOT / "helpers" / "widgets" / "front"
LEVELS = 40  # of the weights in a snapshot, on either side of zero: four snapshots and the model take less than 4 MB
CODE = ("matvec.js", "gpt.js", "sampling.js", "play.js")  # each imports from those before it
BEFORE = re.compile(r'^import \{[^}]*\} from "\./\w+\.js";\n|^export (?=function|class|const|let)', re.M)


def write(folder: str | Path) -> list[Path]:
    """play.html in `folder`, with the model in it, and a file for each snapshot, which the page loads when it is asked
    for; StorageError when they can't be written. All of them work from the disk, without a server."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    *snapshots, model = (gzip.decompress(path.read_bytes()) for path in sorted(PACKED.glob("step-*.gz")))
    listed, written = [], []
    for packed in snapshots:
        about = header(packed)["about"]
        path = folder / f"play-step-{about['step']}.js"
        listed.append({"step": about["step"], "loss": about["loss"], "file": path.name})
        files.write(path, f"exploreArrived({about['step']}, '{base64.b64encode(packed).decode()}');\n")
        written.append(path)
    filled = {
        "LINES": html.escape(summary(header(model))),
        "CODE": code(),
        "SNAPSHOTS": json.dumps(listed),
        "MODEL": base64.b64encode(model).decode(),
    }
    page = (FRONT / "play.html").read_text(encoding="utf-8")
    files.write(folder / "play.html", re.sub(r"\{\{(\w+)\}\}", lambda match: filled[match[1]], page))
    return [folder / "play.html", *written]


def code() -> str:
    """The page's JavaScript as one script, without imports and exports."""
    return "\n".join(BEFORE.sub("", (FRONT / name).read_text(encoding="utf-8")) for name in CODE)


def header(packed: bytes) -> dict:
    """What helpers.packing wrote in front of the weights."""
    return json.loads(packed[4 : 4 + int.from_bytes(packed[:4], "little")])


def summary(facts: dict) -> str:
    """The sentence for those who find the page by a search."""
    return f"A language model of {facts['about']['parameters']:,} numbers, trained on a laptop, writes in your browser."


def main() -> None:
    from helpers.core.gpt import count_parameters
    from helpers.runs import checkpoint
    from helpers.runs.folder import RUNS  # only packing needs PyTorch
    from helpers.widgets.packing import pack

    run = Path(os.environ.get("P") or RUNS / "laptop")
    state, (model, tokenizer) = checkpoint.load(run), checkpoint.load_model(run)
    records = {record.step: record for record in state.history}
    identity = state.identity
    commit = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    facts = {
        "preset": identity.preset,
        "corpus": identity.corpus,
        "corpus_sha256": identity.corpus_sha256,
        "parameters": count_parameters(model),
        "seed": identity.train["seed"],
        "torch": identity.torch,
        "commit": commit.stdout.strip() or "unknown",
    }
    best = state.history.best.step
    earlier = [(step, early) for step, early in checkpoint.load_snapshots(run)[:-1:2] if step < best]
    PACKED.mkdir(parents=True, exist_ok=True)
    for old in PACKED.glob("step-*.gz"):
        old.unlink()
    for step, weights in [*earlier, (best, model)]:
        record = records[step]
        about = facts | {"step": step, "loss": round(record.val_loss, 4), "seconds": round(record.seconds)}
        packed = gzip.compress(pack(weights, tokenizer, None if step == best else LEVELS, about), 9, mtime=0)
        files.write(PACKED / f"step-{step:09}.gz", packed)
        print(f"step {step:>6,}  loss {record.val_loss:.3f}  {len(packed) / 1e6:.2f} MB")
    for path in write(ROOT / "build" / "site"):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    sys.exit(main())
