"""What drawings would display."""

import matplotlib.pyplot as plt
import pytest

from pictures import plotting


@pytest.fixture
def drawn(monkeypatch):
    """What would be displayed: pairs of axes and alternative texts."""
    pictures = []
    plt.switch_backend("agg")

    def show(alt, figure=None):
        pictures.append(((figure or plt.gcf()).axes[0], alt))

    monkeypatch.setattr(plotting, "show", show)
    yield pictures
    plt.close("all")
