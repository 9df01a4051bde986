"""The site: pages to read in a browser, from a server or as files, with no network (`make site`).

Sphinx, myst-nb and furo build it from what staging.py has written; nothing is run. `make run` ends with the same pages.
"""

import argparse
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote

from helpers.support.console import command, say, table
from helpers.support.errors import HelpersError
from tools import staging

ROOT = Path(__file__).resolve().parents[1]


def build(root: Path, out: Path, runs: dict[str, staging.Run] | None = None) -> str:
    """Put the site of the project in `root` into the folder `out`, in place of the old one; return Sphinx's warnings.

    With `runs`, pages show the last runs. HelpersError, in one sentence, when there is no site; `out` stays then.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".site-", dir=out.parent) as name:
            scratch = Path(name)
            stage = staging.Stage(root, scratch / "source", runs)
            stage.everything()
            # -P: Sphinx runs beside the sources, and no file there can pass for a module.
            words = ["-q", "-E", "-c", Path(__file__).parent / "site", "-D", f"html_extra_path={stage.extra}"]
            done = subprocess.run(
                [sys.executable, "-P", "-m", "sphinx", *words, *["-A", "play=1"] * stage.play, "source", "html"],
                cwd=scratch,
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
            )
            if done.returncode:
                said = done.stderr.strip().splitlines() or ["no reason given"]
                raise HelpersError(f"the pages could not be built: {said[-1]}")
            shutil.rmtree(scratch / "html" / ".doctrees")
            if out.exists():
                out.rename(scratch / "old")
            (scratch / "html").rename(out)
            return done.stderr.replace(f"{scratch / 'source'}{os.sep}", "")
    except OSError as error:
        raise HelpersError(f"the pages could not be written: {error.strerror or error}") from None


def links(page: str) -> list[str]:
    """All addresses in a page that a browser follows or fetches, but for those in its scripts."""
    shown = re.sub(r"<(script|style)\b[^>]*>.*?</\1>", lambda tag: tag[0].partition(">")[0] + ">", page, flags=re.S)
    return [html.unescape(link) for link in re.findall(r'\s(?:href|src)="([^"]*)"', shown)]


def broken_links(site: Path) -> list[str]:
    """ "page: address" for every link in the folder that leads to no file, or to no place in its page."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    places = {path: set(map(html.unescape, re.findall(r'\sid="([^"]*)"', text))) for path, text in pages.items()}
    broken = []
    for path, text in pages.items():
        for link in links(text):
            if re.match(r"[a-z][a-z0-9+.-]*:", link):
                continue
            address, _, anchor = link.partition("#")
            target = Path(os.path.normpath(path.parent / unquote(address.partition("?")[0]))) if address else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (anchor and unquote(anchor) not in places.get(target, ())):
                broken.append(f"{path.relative_to(site).as_posix()}: {link}")
    return broken


def weights(site: Path) -> list[tuple[str, str, str]]:
    """Each page with its own kilobytes and those of its pictures; last what all pages share."""
    rows, total = [], 0.0
    for path in sorted(site.rglob("*.html")):
        pictures = {link for link in links(path.read_text("utf-8")) if link.endswith((".png", ".gif", ".webp"))}
        sizes = [path.stat().st_size, sum((path.parent / link).stat().st_size for link in pictures)]
        rows.append((path.relative_to(site).as_posix(), *(f"{size / 1000:,.0f}" for size in sizes)))
    total = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    return [*rows, ("everything", f"{total / 1000:,.0f}", "")]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="default: build/site")
    out = parser.parse_args(arguments).out
    warnings = build(ROOT, out)
    say(table(("page", "kB", "pictures, kB"), weights(out)))
    broken = broken_links(out)
    for line in [*warnings.splitlines(), *broken]:
        say(f"! {line}")
    say(f"\n{len(broken)} broken links; to read it: {out / 'index.html'}")
    if broken:
        raise HelpersError("the site has broken links")


if __name__ == "__main__":
    sys.exit(command(main))
