"""Kernels that don't wait for PyTorch: a process that has imported it forks them, which saves seconds of each.

A forked kernel has imported libraries, but no helpers, and has run nothing: it is as fresh as any kernel. Only on
Linux: elsewhere some libraries can't take a fork, and kernels start as ever.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

LAUNCHER = "ipykernel_launcher"
PLACE = "NANOGPT_WARM_KERNELS"  # the socket that the forking process listens at, for all that start kernels
PATIENCE = 5.0  # seconds until the process that forks has made its socket


# ---------------------------------------------------------------- the process that forks
def serve(place: str) -> None:
    """Fork a kernel for each request that comes; end when whoever has started us ends, and stdin with it."""
    os.environ["JPY_PARENT_PID"] = str(os.getpid())  # a kernel ends when its parent, which we are, has ended
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")  # as kernels set it
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        listening.listen()
        import_libraries()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a kernel's status
        while True:
            ready, _, _ = select.select([listening, sys.stdin], [], [])
            if sys.stdin in ready:
                return
            asking, _ = listening.accept()
            with asking:
                request = json.loads(asking.makefile("rb").readline())
                if os.fork() == 0:
                    os.setsid()
                    asking.sendall(f"{os.getpid()}\n".encode())
                    asking.close()
                    listening.close()
                    be_kernel(request)


def import_libraries() -> None:
    """What every notebook needs: Jupyter, matplotlib, PyTorch with what its first optimizer imports, and what the
    helpers import besides."""
    import ipykernel.kernelapp  # noqa: F401
    import jaxtyping  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import matplotlib_inline.backend_inline  # noqa: F401
    import psutil  # noqa: F401
    import pydantic  # noqa: F401
    import torch._dynamo  # noqa: F401


def be_kernel(request: dict) -> None:
    """What `python -m ipykernel_launcher` would do in this folder and environment; it never returns."""
    import ipykernel.kernelapp
    import numpy as np
    import torch

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    np.random.seed()  # noqa: NPY002  (or all kernels would draw the same)
    torch.seed()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    if threads := os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))  # PyTorch has read another environment
    sys.argv[:] = [LAUNCHER, *request["arguments"]]
    status = 1
    try:
        ipykernel.kernelapp.launch_new_instance()
        status = 0
    finally:
        os._exit(status)


# ---------------------------------------------------------------- who wants kernels
def start() -> None:
    """Start the process that forks; it ends with ours. All that we start finds it in the environment."""
    if sys.platform != "linux" or PLACE in os.environ:
        return
    folder = tempfile.TemporaryDirectory(prefix="kernels-")
    place = str(Path(folder.name) / "socket")
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, place],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.environ[PLACE] = place

    def end() -> None:
        os.environ.pop(PLACE, None)
        kill(process)
        process.wait()
        folder.cleanup()

    atexit.register(end)


def kill(process: subprocess.Popen) -> None:
    """End a process and all that it has started, at once. No kernel loses anything: its training survives any kill."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.kill()
    process.kill()


def use() -> None:
    """From now on Jupyter's kernels come from the process that forks, where there is one."""
    from jupyter_client.provisioning import local_provisioner

    cold = local_provisioner.launch_kernel

    def launch_kernel(command: list[str], **options: Any) -> Any:
        if PLACE in os.environ and LAUNCHER in command:
            with suppress(OSError, ValueError):
                return Forked(command, **options)
        return cold(command, **options)

    local_provisioner.launch_kernel = launch_kernel  # ty: ignore[invalid-assignment]


class Forked:
    """A kernel that is no child of ours, as Jupyter wants to see it: like subprocess.Popen."""

    stdin = stdout = stderr = None

    def __init__(self, command: list[str], cwd: str | None = None, env: dict | None = None, **_: object):
        arguments = command[command.index(LAUNCHER) + 1 :]
        environment = dict(os.environ if env is None else env)
        request = {"arguments": arguments, "cwd": cwd or os.getcwd(), "env": environment}
        with socket.socket(socket.AF_UNIX) as asking:
            connect(asking)
            asking.sendall(json.dumps(request).encode() + b"\n")
            self.pid = int(asking.makefile("rb").readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, 0)
            return None
        self.returncode = 0  # nobody knows
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = time.monotonic() + (timeout or 1e9)
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(LAUNCHER, timeout or 0)
            time.sleep(0.02)
        return 0

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):  # Popen, too, is silent about one that has ended
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def connect(asking: socket.socket) -> None:
    """The process that forks makes its socket a moment after its start."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return asking.connect(os.environ[PLACE])
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


if __name__ == "__main__":
    serve(sys.argv[1])
