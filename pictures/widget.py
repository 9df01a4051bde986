"""The widget behind an explorer: anywidget is slow to import; only JupyterLab needs it."""

import anywidget
import traitlets


class Explorer(anywidget.AnyWidget):
    """A model without a view: its front end mounts `data` at the picture marked by `place`."""

    _esm = traitlets.Unicode().tag(sync=True)
    place = traitlets.Unicode().tag(sync=True)
    data = traitlets.Dict().tag(sync=True)
    weights = traitlets.Bytes(b"").tag(sync=True)  # what is too large for JSON
