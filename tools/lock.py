"""Write the locks in tools/ anew: all that both requirements files need, with hashes.

Versions stay as they are unless something forces them; to take all the newest, delete both locks
first.
"""

import subprocess
import sys

from helpers import ROOT
from helpers.commands import Options, command
from helpers.errors import HelpersError

SETTINGS = [
    "--quiet",
    "--universal",
    "--python-version=3.11",
    "--generate-hashes",
    "--no-annotate",
    "--no-emit-package=torch",  # one version of it has several builds: tools/setup.py takes it without a hash
    "--no-emit-package=dot-products-to-nanogpt",
    "--custom-compile-command=python -m tools.lock",
]


def lock(name: str, *settings: str) -> None:
    words = [
        "uv",
        "pip",
        "compile",
        *SETTINGS,
        *settings,
        f"{name}.txt",
        "--output-file",
        f"tools/{name}.lock",
    ]
    if subprocess.run([sys.executable, "-m", *words], cwd=ROOT).returncode:
        raise HelpersError(f"tools/{name}.lock stays as it was")


def main(arguments: list[str]) -> None:
    Options(prog="python -m tools.lock", description=__doc__).parse_args(arguments)
    lock("requirements")
    lock("requirements-dev", "--constraint=tools/requirements.lock")


if __name__ == "__main__":
    sys.exit(command(main))
