"""Attack training, run folders and every entrance of helpers/, and count what holds.

python -m tools.torture [--quick] [--only NAME [--case K]] [--seed N] [--jobs N]

One line a group: tried, right, refused by one sentence, bad; then every bad case with the command that repeats it.
The status is 1 when anything is bad. No case touches a run of yours: all of them live in a temporary folder.
"""

import argparse
import importlib
import os
import shlex
import sys
import tempfile
import time
from pathlib import Path

import torch

from helpers.support.console import printable, table
from tools.torture import harness, small, teams

for module in ("interruptions", "teams", "paths", "checkpoints", "states", "corpora", "commands", "calls"):
    importlib.import_module(f"tools.torture.{module}")  # each adds its groups


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.torture", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few cases of each group")
    parser.add_argument("--only", choices=harness.GROUPS, metavar="NAME", help=f"one of {', '.join(harness.GROUPS)}")
    parser.add_argument("--case", type=int, metavar="K", help="this case alone, of the group named by --only")
    parser.add_argument("--seed", type=int, default=1, help="of all random choices (default: 1)")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="cases at a time")
    options = parser.parse_args()
    if options.case is not None and not options.only:
        parser.error("--case needs --only")
    torch.set_num_threads(1)  # a fork loses the others
    chosen = [harness.GROUPS[options.only]] if options.only else list(harness.GROUPS.values())
    rows, failures = [], []
    with tempfile.TemporaryDirectory(prefix="torture-") as base:
        small.prepare(Path(base))
        teams.prepare()
        for group in chosen:
            start, results = time.perf_counter(), []
            cases = [options.case] if options.case is not None else range(group.quick if options.quick else group.count)
            for result in harness.run(group, list(cases), options.seed, options.jobs, Path(base)):
                results.append(result)
                if options.case is not None:
                    print(f"{group.name} {result.case} ({result.name}): {result.verdict}")
            verdicts = [result.verdict for result in results]
            right, refused = verdicts.count(harness.RIGHT), verdicts.count(harness.REFUSED)
            broken = [result for result in results if result.verdict not in (harness.RIGHT, harness.REFUSED)]
            rows.append((group.name, len(results), right, refused, len(broken)))
            failures += [(group, result) for result in sorted(broken, key=lambda result: result.case)]
            seconds = time.perf_counter() - start
            line = f"{group.name}: {len(results)} tried, {len(broken)} bad, {seconds:.0f} s"
            print(line, file=sys.stderr, flush=True)
    print(table(("group", "tried", "right", "refused by one sentence", "bad"), rows))
    seed = "" if options.seed == 1 else f" --seed {options.seed}"
    for group, result in failures:
        again = f"--only {shlex.quote(group.name)} --case {result.case}{seed}"
        print(f"{again}  {result.name!a}: {printable(result.verdict)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
