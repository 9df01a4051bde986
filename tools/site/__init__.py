"""The site: pages to read in a browser, from a server or as files, with no network.

Sphinx, myst-nb and furo build it from what pages.py writes; nothing is run. `python -m tools.site`
builds it.
"""

import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote

from helpers.commands import reason
from helpers.errors import HelpersError
from tools.site import pages


def build(root: Path, out: Path, runs: dict[str, pages.LessonRun] | None = None) -> str:
    """Put the site of the project in `root` into the folder `out`; return Sphinx's warnings.

    With `runs`, by the lessons' names, pages show the last runs. A HelpersError says in one
    sentence why there is no site; what was in `out` stays then.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".site-", dir=out.parent) as name:
            scratch = Path(name)
            stage = pages.Stage(root, scratch / "source", runs)
            stage.everything()
            options = ["-q", "-E", "-c", Path(__file__).parent]
            options += ["-D", f"html_extra_path={stage.extra}", *["-A", "play=1"] * stage.play]
            process = subprocess.run(
                # -P: Sphinx runs beside the sources, and no file there can pass for a module.
                [sys.executable, "-P", "-m", "sphinx", *options, "source", "html"],
                cwd=scratch,
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
            )
            if process.returncode:
                reasons = process.stderr.strip().splitlines() or ["no reason given"]
                raise HelpersError(f"the pages could not be built: {reasons[-1]}")
            shutil.rmtree(scratch / "html" / ".doctrees")
            if out.exists():
                out.rename(scratch / "old")
            (scratch / "html").rename(out)
            return process.stderr.replace(f"{scratch / 'source'}{os.sep}", "")
    except OSError as error:
        raise HelpersError(f"the pages could not be written: {reason(error)}") from None


def links(page: str) -> list[str]:
    """All addresses in a page that a browser follows or fetches, but for those in its scripts."""
    scripts = re.compile(r"(<(script|style)\b[^>]*>).*?</\2>", re.S)
    addresses = re.findall(r'\s(?:href|src)="([^"]*)"', scripts.sub(r"\1", page))
    return [html.unescape(link) for link in addresses]


def broken_links(site: Path) -> list[str]:
    """ "page: address" for every link that leads to no file, or to no place in its page."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    places = {path: set(map(html.unescape, re.findall(r'\sid="([^"]*)"', text))) for path, text in pages.items()}
    broken = []
    for path, text in pages.items():
        for link in links(text):
            if re.match(r"[a-z][a-z0-9+.-]*:", link):
                continue
            address, _, anchor = link.partition("#")
            address = unquote(address.partition("?")[0])
            target = Path(os.path.normpath(path.parent / address)) if address else path
            target = target / "index.html" if target.is_dir() else target
            has_anchor = not anchor or unquote(anchor) in places.get(target, ())
            if not target.is_file() or not has_anchor:
                broken.append(f"{path.relative_to(site).as_posix()}: {link}")
    return broken
