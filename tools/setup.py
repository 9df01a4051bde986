"""Set up .venv with what reading takes (`python3 tools/setup.py`) or developing too (`... dev`).

`make` calls this before everything. A stamp in .venv says which folder and which lists it was made
for; when that is still so, nothing happens. In a clone that has been renamed or copied .venv is
made anew: its programs name its folder.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
STAMP = os.path.join(VENV, "ready")
PYTHON = os.path.join(VENV, *(("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")))
LISTS = {
    "reading": ["pyproject.toml", "requirements.txt", "tools/requirements.lock"],
    "developing": ["requirements-dev.txt", "tools/requirements-dev.lock"],
}
KERNEL = """
import sys
from ipykernel.kernelspec import install
install(prefix=sys.prefix, kernel_name="python3", display_name="Python 3 (dot products to nanoGPT)")
"""
LOCK = {kind: files[-1] for kind, files in LISTS.items()}


def contents(files):
    """A hash of what stands in these files, and of the packages' names."""
    found = hashlib.sha256()
    for name in files:
        with open(os.path.join(ROOT, name), "rb") as file:
            found.update(file.read())
    for name in sorted(os.listdir(ROOT)):
        if os.path.exists(os.path.join(ROOT, name, "__init__.py")):
            found.update(name.encode())
    return found.hexdigest()


def read_stamp():
    """What .venv was made for: its folder, and the lists of each kind that is installed."""
    try:
        with open(STAMP, encoding="utf-8") as file:
            stamp = json.load(file)
        return stamp if isinstance(stamp, dict) else {}
    except (OSError, ValueError):
        return {}


def move_to_mine():
    """The reader's own things, which the first edition kept in build/, go to mine/."""
    for name in ("my_gpt.py", "my_gpt.pt", "my_gpt.html", "kept"):
        old, new = (os.path.join(ROOT, folder, name) for folder in ("build", "mine"))
        if os.path.exists(old) and not os.path.exists(new):
            os.makedirs(os.path.dirname(new), exist_ok=True)
            shutil.move(old, new)
            print(f"build/{name} is now mine/{name}", flush=True)


def python(*words):
    """Run the Python of .venv; end with its status when it fails: it has said why."""
    status = subprocess.call([PYTHON, *words], cwd=ROOT)
    if status:
        sys.exit(status)


def install(kind):
    if sys.version_info < (3, 11):  # noqa: UP036
        sys.exit("Python 3.11 or newer is needed and this is {}.{}: install one, then 'make PYTHON=python3.12 ...'"
                 .format(*sys.version_info))  # fmt: skip
    try:
        import ensurepip  # noqa: F401
        import venv
    except ImportError:
        sys.exit(
            "Python's venv module is missing: install it ('apt install python3-venv' on Debian and "
            "Ubuntu) and try again"
        )
    print("installing packages into .venv: this takes a minute or two", flush=True)
    was_moved = os.path.exists(STAMP) and read_stamp().get("folder") != ROOT
    if os.path.exists(STAMP):
        os.remove(STAMP)  # until all is done, .venv is made for nothing
    venv.create(VENV, with_pip=True, symlinks=os.name != "nt", clear=was_moved)
    pip = ["-m", "pip", "install", "--disable-pip-version-check", "-qq"]
    # Every file has the hash that the lock expects. But one version of PyTorch has several builds
    # (CPU, CUDA), and any of them will do: it comes last and without a hash. What its CPU build
    # needs besides is locked and already there.
    python(*pip, "--require-hashes", "--only-binary", ":all:", "-r", LOCK[kind])
    index = ["--index-url", os.environ["TORCH_INDEX"]] if os.environ.get("TORCH_INDEX") else []
    with open(os.path.join(ROOT, "requirements.txt"), encoding="utf-8") as file:
        python(*pip, *index, *[line.strip() for line in file if line.startswith("torch==")])
    python(*pip, "--no-deps", "--no-build-isolation", "--editable", ".")
    python("-c", KERNEL)
    settings = os.path.join(VENV, "share", "jupyter", "lab", "settings")
    os.makedirs(settings, exist_ok=True)
    with open(os.path.join(settings, "overrides.json"), "w", encoding="utf-8") as file:
        json.dump({"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}, file)


def main():
    for name in [name for name in os.environ if name.startswith(("PYTHON", "JUPYTER"))]:
        del os.environ[name]  # other people's settings
    move_to_mine()
    stamp = read_stamp() if os.path.exists(PYTHON) else {}
    kinds = (
        ["reading", "developing"] if "dev" in sys.argv[1:] or "developing" in stamp else ["reading"]
    )
    wanted = {"folder": ROOT, **{kind: contents(LISTS[kind]) for kind in kinds}}
    if stamp != wanted:
        install(kinds[-1])
        with open(STAMP, "w", encoding="utf-8") as file:
            json.dump(wanted, file, indent=1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped by Ctrl-C: the same command goes on")
