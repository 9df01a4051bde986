"""Build the site from the stored notebooks, without running them, and follow all its links."""

import argparse
import sys
from pathlib import Path

from helpers import ROOT
from helpers.commands import command, say
from helpers.errors import HelpersError
from tools import site


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__)
    default = ROOT / "build" / "site"
    parser.add_argument("--out", type=Path, default=default, help="default: build/site")
    out = parser.parse_args(arguments).out
    warnings = site.build(ROOT, out)
    broken = site.broken_links(out)
    for line in [*warnings.splitlines(), *broken]:
        say(f"! {line}")
    say(f"{len(broken)} broken links; to read it: {out / 'index.html'}")
    if broken:
        raise HelpersError("the site has broken links")


if __name__ == "__main__":
    sys.exit(command(main))
