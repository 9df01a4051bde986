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

SOURCES = Path(__file__).resolve().parent / "front"
IMPORT = re.compile(r'^import \{[^}]*\} from "(\.[\w./-]+)";\n', flags=re.M)


def is_live() -> bool:
    """Does a Jupyter server have this kernel's notebook open? (nbval and papermill don't.)"""
    return "JPY_SESSION_NAME" in os.environ


def modules(name: str) -> list[Path]:
    """The files of a front end, each once and after those that it imports."""
    files: list[Path] = []

    def add(path: Path) -> None:
        if path not in files:
            for imported in IMPORT.findall(_read(path)):
                add((path.parent / imported).resolve())
            files.append(path)

    add(SOURCES / f"{name}.js")
    return files


def bundle(name: str) -> str:
    """The source of a front end as one module without imports.

    Its files share one scope, so no two may give the same name to something of their own: a test compares them.
    """
    return "".join(IMPORT.sub("", _read(path)) for path in modules(name))


def front_end(name: str) -> str:
    """A front end's bundle, and behind it what puts it in the place of its picture."""
    return bundle(name) + _read(SOURCES / "host.js")


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
    from pictures import plotting  # tools.play takes the JavaScript from here, and needs neither this nor PyTorch

    output, metadata = plotting.output(alt)
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
        picture = _picture(base64.b64encode(output["image/png"]).decode(), **metadata["image/png"])
        output["text/html"] = f'<div data-mount="{place}">{picture}</div>'
    plotting.display(output, metadata=metadata, raw=True)


def _picture(png: str, alt: str, width: int) -> str:
    return f'<img style="max-width: 100%" width="{width}" alt="{html.escape(alt)}" src="data:image/png;base64,{png}">'


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
