"""Open the notebooks in JupyterLab on this machine (`make lab`); options go to JupyterLab."""

import os
import shutil
import sys
from pathlib import Path

from helpers import ROOT
from helpers.commands import command
from tools.surroundings import share_cores, shut_out_others

LAB = Path(__file__).parent


def main(arguments: list[str]) -> None:
    shut_out_others()
    share_cores(2)
    custom = ROOT / ".venv" / "var" / "jupyter" / "config" / "custom"
    custom.mkdir(parents=True, exist_ok=True)
    shutil.copy(LAB / "look.css", custom / "custom.css")
    os.chdir(ROOT)
    options = [
        "--custom-css",
        "--ServerApp.ip=127.0.0.1",
        "--LabApp.default_url=/lab/tree/notebooks/index.ipynb",
        f"--LabApp.extra_labextensions_path={LAB}",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    sys.argv = ["jupyter-lab", *options, *arguments]
    from jupyterlab.labapp import main as jupyter_lab  # it reads what stands in the environment

    jupyter_lab()


if __name__ == "__main__":
    sys.exit(command(main))
