"""A JupyterLab on loopback for this folder's tests, which writes only into a given folder."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page

from helpers import ROOT

# The notebook that is shown. --expose-app-in-browser tells the page of it.
SHOWN = "jupyterapp.shell.currentWidget"


class Lab:
    """Where it listens; `notebooks` is the folder that it shows."""

    def __init__(self, folder: Path):
        self.notebooks = folder / "notebooks"
        self.token = secrets.token_hex(16)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"http://127.0.0.1:{free.getsockname()[1]}"

    def asks(self, path: str, method: str = "GET") -> bytes:
        headers = {"Authorization": f"token {self.token}"}
        with urllib.request.urlopen(urllib.request.Request(self.address + path, headers=headers, method=method)) as got:
            return got.read()

    def open(self, page: Page, name: str) -> None:
        """Open a notebook alone in the window, and wait until its kernel answers."""
        page.goto(f"{self.address}/lab/tree/{name}?reset&token={self.token}")
        page.wait_for_function("window.jupyterapp && jupyterapp.restored.then(() => true)")
        page.wait_for_function(f"{SHOWN}?.sessionContext?.session?.kernel?.status === 'idle'")

    def run_all(self, page: Page) -> None:
        page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")
        outputs = f"{SHOWN}.content.model.sharedModel.cells.flatMap((cell) => cell.toJSON().outputs ?? [])"
        errors = page.evaluate(f"{outputs}.filter((output) => output.output_type === 'error').map((e) => e.evalue)")
        assert not errors, errors

    def save(self, page: Page) -> None:
        page.evaluate("jupyterapp.commands.execute('docmanager:save')")
        page.wait_for_function(f"!{SHOWN}.context.model.dirty")

    def stop_kernels(self) -> None:
        for session in json.loads(self.asks("/api/sessions")):
            self.asks(f"/api/sessions/{session['id']}", "DELETE")


@contextmanager
def jupyterlab(folder: Path) -> Iterator[Lab]:
    """JupyterLab with a token of its own, until the test is over."""
    lab = Lab(folder)
    lab.notebooks.mkdir()
    folders = {name: str(folder / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")}
    folders |= {
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "MPLCONFIGDIR": str(folder / "matplotlib"),
    }
    ours = {"JUPYTER_TOKEN": lab.token, "JUPYTER_PREFER_ENV_PATH": "1", "PYTHONPATH": str(ROOT)}
    command = [
        *(sys.executable, "-m", "jupyterlab"),
        "--no-browser",
        "--expose-app-in-browser",
        "--custom-css",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={lab.address.rpartition(':')[2]}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={lab.notebooks}",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        f"--LabApp.extra_labextensions_path={ROOT / 'tools' / 'lab'}",
    ]
    look = Path(folders["JUPYTER_CONFIG_DIR"], "custom", "custom.css")
    look.parent.mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "lab" / "look.css", look)
    command += ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with (folder / "lab.log").open("w") as log:
        server = subprocess.Popen(command, env=os.environ | folders | ours, stdout=log, stderr=log, cwd=folder)
    try:
        for _ in range(300):
            try:
                lab.asks("/api/status")
                break
            except OSError:
                assert server.poll() is None, (folder / "lab.log").read_text()
                time.sleep(0.2)
        yield lab
        lab.stop_kernels()
    finally:
        server.terminate()
        server.wait()
