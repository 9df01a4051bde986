"""Kernels that are forked: as fresh as any, and gone when they should be."""

import os
import signal
import subprocess
import sys

import pytest
import warm
from jupyter_client.manager import start_new_kernel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux only"),
]
LOOK = """
import os, sys
libraries = [name for name in ("torch", "matplotlib.pyplot", "helpers") if name in sys.modules]
print(libraries, os.environ["MINE"], os.getcwd())
import numpy, random, torch
print(numpy.random.rand(), random.random(), torch.rand(1).item())
"""


@pytest.fixture
def warmed(monkeypatch):
    """The process that forks: that of `make test`, or one of our own."""
    from jupyter_client.provisioning import local_provisioner

    monkeypatch.setattr(local_provisioner, "launch_kernel", local_provisioner.launch_kernel)
    warm.start()
    warm.use()


def printed_by(kernel_client) -> str:
    lines = []
    kernel_client.execute_interactive(
        LOOK, output_hook=lambda message: lines.append(message["content"].get("text", ""))
    )
    return "".join(lines)


def test_a_forked_kernel_has_libraries_and_no_helpers_and_draws_its_own_numbers(warmed, tmp_path):
    drawn = set()
    for _ in range(2):
        manager, client = start_new_kernel(cwd=str(tmp_path), env=os.environ | {"MINE": "yes"})
        assert isinstance(manager.provisioner.process, warm.Forked)
        first, numbers = printed_by(client).splitlines()
        assert first == f"['torch', 'matplotlib.pyplot'] yes {tmp_path}"
        drawn |= set(numbers.split())
        process = manager.provisioner.process
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        assert process.wait(5) == 0
        process.send_signal(signal.SIGINT)  # no error: Jupyter signals kernels that have died
    assert len(drawn) == 6


def test_without_the_process_that_forks_a_kernel_starts_as_ever(warmed, monkeypatch, tmp_path):
    monkeypatch.setenv(warm.PLACE, str(tmp_path / "gone"))
    monkeypatch.setattr(warm, "PATIENCE", 0.1)
    manager, client = start_new_kernel()
    assert isinstance(manager.provisioner.process, subprocess.Popen)
    client.stop_channels()
    manager.shutdown_kernel(now=True)
