"""The page on which a GPT learns the reader's text in the browser; `tools.site` adds it to the site."""

import json
from pathlib import Path

from helpers import files
from helpers.data import TINY, load_corpus
from pictures import host
from tools import play


def write(folder: Path) -> None:
    """Make learn.html in `folder`, and learn-text.js, which it loads for those who bring no text."""
    corpus = load_corpus()
    says = "A small GPT, trained in a browser, writes in yours."
    home = {"LINES": says, "CARD": "", "CODE": host.bundle("play"), "SNAPSHOTS": "[]"}
    parts = {
        "code": host.bundle("learn/worker").replace("\nexport ", "\n"),  # a classic script has no exports
        "home": play.SITE.sub("", play.filled("play", home)),
        "corpus": {"name": corpus.name, "label": "Take Shakespeare" if corpus.name == TINY else "Take a short play"},
    }
    about = "Give it a text, and in a minute a small GPT learns to write in its manner, in your browser."
    card = play.card("learn", "Teach a GPT to write like you", about)
    embedded = json.dumps(parts, ensure_ascii=False).replace("</", "<\\/")
    page = play.filled("learn", {"CARD": card, "PARTS": embedded, "CODE": host.bundle("learn")})
    files.write(folder / "learn.html", page)
    files.write(folder / "learn-text.js", f"exploreText({json.dumps(corpus.text)});\n")
