"""Set up .venv with what reading takes (`python3 tools/setup.py`) or developing too (`... dev`).

`make` calls this before everything. A stamp in .venv says which folder, Python and lists it was made
for; when that is still so, nothing happens. Where the clone has been renamed or copied, or its
Python replaced, .venv is made anew: its programs name both. The same happens where the reader has asked for
this Python (`... asked`) and .venv has another.
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
# A line of ASCII, which every locale reads alike, whatever the folder is called.
FINISH = """
import os, sys, sysconfig
with open(os.path.join(sysconfig.get_path("purelib"), "clone.pth"), "w") as file:
    print(f"import sys; sys.path.append({ascii(os.getcwd())})", file=file)
from ipykernel.kernelspec import install
install(prefix=sys.prefix, kernel_name="python3", display_name="Python 3 (dot products to nanoGPT)")
"""
LARGE = (
    "(On Linux, PyTorch may bring gigabytes of CUDA, which this course can do without. For the small "
    "build: Ctrl-C, then TORCH_INDEX=<its address> make setup, see docs/install.md.)"
)
NOT_OURS = ("PYTHON", "JUPYTER")  # other people's settings
# Where pip finds things, its environment and its pip.conf may say; where it puts them, this says.
DISK = os.path.splitdrive(VENV)[0] + os.sep
PIP = [
    # What is imported is compiled then: it is a small part of all that is installed.
    *("-m", "pip", "--python=", "install", "--disable-pip-version-check", "-qq", "--no-compile"),
    *("--no-user", "--target=", f"--prefix={VENV}", f"--root={DISK}"),
]
LOCK = {kind: files[-1] for kind, files in LISTS.items()}


def whose():
    """Whose .venv it is: where its programs lie, and which Python they run."""
    return {"folder": ROOT, "python": os.path.realpath(PYTHON)}


def contents(files):
    """A hash of what stands in these files."""
    digest = hashlib.sha256()
    for name in files:
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


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


def write_stamp(stamp):
    with open(STAMP, "w", encoding="utf-8") as file:
        json.dump(stamp, file, indent=1)


def python(*words):
    """Run the Python of .venv; end with its status when it fails: it has said why."""
    status = subprocess.call([PYTHON, *words], cwd=ROOT)
    if status:
        sys.exit(status)


def pip(*words):
    os.environ["PIP_DRY_RUN"] = "0"  # which no option can say
    python(*PIP, *words)


def is_of_another_python():
    """Whether .venv was made with another version of Python than this one."""
    try:
        with open(os.path.join(VENV, "pyvenv.cfg"), encoding="utf-8") as file:
            (version,) = [line.split("=")[1] for line in file if line.startswith("version")]
    except (OSError, ValueError):  # made by another tool, perhaps
        return False
    return not version.strip().startswith("{}.{}.".format(*sys.version_info))


def install(kind, anew=False):
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
    if os.pathsep in ROOT:
        sys.exit(f"no .venv works in a folder with {os.pathsep!r} in its path: rename {ROOT}")
    stamp = {**whose(), "folder": None, **read_stamp()}
    is_ours = not anew and os.path.exists(PYTHON) and whose().items() <= stamp.items()
    is_another = os.path.exists(STAMP) and not is_ours
    if is_another and os.path.islink(VENV):
        sys.exit(f".venv is a link to what {stamp['folder']} was set up with: remove the link")
    try:
        ROOT.encode("utf-8")
    except UnicodeEncodeError:  # a name in Latin-1, for example
        sys.exit(f"no .venv works in a folder whose path is no UTF-8: rename {ROOT!a}")
    print("installing packages into .venv: this takes a minute or two", flush=True)
    if sys.platform == "linux" and not os.environ.get("TORCH_INDEX"):
        print(LARGE, flush=True)
    venv.create(VENV, with_pip=True, symlinks=os.name != "nt", clear=is_another)
    write_stamp(whose())  # until all is done, no list is installed
    # Every file has the hash that the lock expects. But one version of PyTorch has several builds
    # (CPU, CUDA), and any of them will do: it comes last and without a hash. What its CPU build
    # needs besides is locked and already there.
    pip("--require-hashes", "--only-binary", ":all:", "-r", LOCK[kind])
    index = ["--index-url", os.environ["TORCH_INDEX"]] if os.environ.get("TORCH_INDEX") else []
    with open(os.path.join(ROOT, "requirements.txt"), encoding="utf-8") as file:
        pip(*index, *[line.strip() for line in file if line.startswith("torch==")])
    python("-c", FINISH)
    settings = os.path.join(VENV, "share", "jupyter", "lab", "settings")
    os.makedirs(settings, exist_ok=True)
    with open(os.path.join(settings, "overrides.json"), "w", encoding="utf-8") as file:
        json.dump({"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}, file)


def main():
    for name in [name for name in os.environ if name.startswith(NOT_OURS)]:
        del os.environ[name]
    if os.path.expanduser("~") == "~":  # nobody's home: an unknown user
        os.environ["HOME"] = VENV
    move_to_mine()
    stamp = read_stamp() if os.path.exists(PYTHON) else {}
    kinds = ["reading", "developing"] if "dev" in sys.argv[1:] or "developing" in stamp else ["reading"]
    lists = {kind: contents(LISTS[kind]) for kind in kinds}
    anew = "asked" in sys.argv[1:] and is_of_another_python()
    if anew or stamp != whose() | lists:
        install(kinds[-1], anew)
        write_stamp(whose() | lists)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped by Ctrl-C: the same command goes on")
