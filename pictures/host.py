"""Where an explorer is shown: as a picture, in a live JupyterLab, or on the site.

What is stored is a picture with its alternative text: nbval, papermill, GitHub and a reader without
a kernel see it. In JupyterLab an anywidget then puts the front end where the picture is. It has no
view of its own, because JupyterLab stores a view and, opened again without the kernel, shows an
error in its place. The front ends in front/ export `mount(element, data)`; a page of the site
mounts them by `page` and `mounting`.
"""

import base64
import html
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from helpers.errors import ConfigError
from pictures import plotting

SOURCES = Path(__file__).parent / "front"
IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w-]+\.js)";\n', flags=re.M)


def is_live() -> bool:
    """Does a Jupyter server have this kernel's notebook open? (nbval and papermill don't.)"""
    return "JPY_SESSION_NAME" in os.environ


def front_end(name: str) -> str:
    """The source of a front end as one module: in place of each import, once, what it imports."""
    seen: set[str] = set()

    def joined(file: str) -> str:
        seen.add(file)
        return IMPORT.sub(imported, _read(file))

    def imported(match: re.Match) -> str:
        return "" if match[1] in seen else joined(match[1])

    return joined(f"{name}.js") + _read("host.js")


def page(output: Mapping[str, Any]) -> str:
    """A stored explorer as HTML: its picture, and the data for `mounting` to put it there."""
    explorer = output["metadata"]["explore"]
    data = json.dumps(explorer["data"], ensure_ascii=False).replace("</", "<\\/")
    picture = _picture(output["data"]["image/png"].strip(), **output["metadata"]["image/png"])
    place = f'<div data-explorer="{explorer["front_end"]}">{picture}</div>'
    return f'{place}\n<script type="application/json">{data}</script>'


def mounting(name: str) -> str:
    """The script that a page needs once, however many explorers with the front end `name` it has."""
    places = f"for (const place of document.querySelectorAll('[data-explorer=\"{name}\"]')) "
    script = f"{front_end(name)}{places}takePlace(place, JSON.parse(place.nextElementSibling.text));"
    return f'<script type="module">\n{script}\n</script>'


def show(name: str, data: dict[str, Any], alt: str, weights: bytes = b"") -> None:
    """Display the current figure; in JupyterLab the front end `name` with `data` replaces it."""
    if not alt.strip():
        raise ConfigError("a picture needs an alternative text: say in a sentence what one sees")
    png, width = plotting.picture(plt.gcf())
    bundle: dict[str, Any] = {"image/png": png, "text/plain": alt}
    metadata: dict[str, Any] = {"image/png": {"alt": alt, "width": width}}
    if name != "play":
        # For pages; all else passes it over.
        metadata["explore"] = {
            "front_end": name,
            "data": data,
        }
    if is_live():
        from pictures.widget import Explorer  # slow to import

        place = os.urandom(8).hex()
        source = front_end(name) + "export default { initialize: inLab };\n"
        Explorer(_esm=source, place=place, data=data, weights=weights)
        picture = _picture(base64.b64encode(png).decode(), alt, width)
        bundle["text/html"] = f'<div data-explore="{place}">{picture}</div>'
    plotting.display(bundle, metadata=metadata, raw=True)


def _picture(png: str, alt: str, width: int) -> str:
    return f'<img style="max-width: 100%" width="{width}" alt="{html.escape(alt)}" src="data:image/png;base64,{png}">'


def _read(file: str) -> str:
    return (SOURCES / file).read_text(encoding="utf-8")
