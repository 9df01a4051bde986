"""What drawings would display."""

import matplotlib.pyplot as plt
import pytest

from pictures import plotting


@pytest.fixture
def drawn(monkeypatch):
    """What would be displayed: pairs of axes and alternative texts."""
    pictures = []
    plt.switch_backend("agg")
    monkeypatch.setattr(plotting, "show", lambda alt, figure: pictures.append((figure.axes[0], alt)))
    yield pictures
    plt.close("all")
