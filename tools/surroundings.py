"""What surrounds a command: which settings of the user's reach it, and how many cores it takes."""

import os

from helpers import ROOT
from helpers.errors import ConfigError

NOT_OURS = (
    *("PYTHON", "PYTEST", "JUPYTER", "IPYTHON", "MPL", "MATPLOTLIB"),
    *("RUFF_", "TY_", "BIOME_", "JAXTYPING_", "ANYWIDGET_"),
    *("GIT_", "JPY_"),
)


def shut_out_others() -> None:
    """Settings that were made for other programs end here, whatever their names.

    Jupyter, IPython and matplotlib find our kernel, and write nothing into the home directory. How
    the reader arranges JupyterLab is kept in mine/.
    """
    for name in [name for name in os.environ if name.startswith(NOT_OURS)]:
        del os.environ[name]
    var = ROOT / ".venv" / "var"
    (var / "ipython").mkdir(parents=True, exist_ok=True)
    if os.path.expanduser("~") == "~":  # nobody's home: an unknown user
        os.environ["HOME"] = str(var)
    os.environ |= {
        "JUPYTER_CONFIG_DIR": str(var / "jupyter" / "config"),
        "JUPYTER_DATA_DIR": str(var / "jupyter" / "data"),
        "JUPYTER_RUNTIME_DIR": str(var / "jupyter" / "runtime"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "JUPYTERLAB_SETTINGS_DIR": str(ROOT / "mine" / "jupyterlab"),
        "IPYTHONDIR": str(var / "ipython"),
        "MPLCONFIGDIR": str(var / "matplotlib"),
    }


def jobs() -> int:
    """How many processes work side by side: JOBS, or as many as there are cores, at most 4.

    ConfigError when JOBS is no number from 1 to 1,000.
    """
    value = os.environ.get("JOBS")
    if not value:
        return min(os.cpu_count() or 1, 4)
    if not value.isdecimal() or not 1 <= int(value) <= 1000:
        raise ConfigError(f"JOBS={value!r} is not a whole number from 1 to 1,000")
    return int(value)


def share_cores(jobs: int) -> None:
    """Give each process to come an equal share of cores, at most 4; OMP_NUM_THREADS wins.

    Two processes with a core each get more done than one with two: the tensors here are small.
    Threads that wait watch for a moment and then sleep: asleep at once, they cost training a third
    of its speed; always awake, they cost a busy machine everything.
    """
    value = os.environ.get("OMP_NUM_THREADS", "")
    if value and not all(part.strip().isdecimal() and int(part) for part in value.split(",")):
        raise ConfigError(f"OMP_NUM_THREADS={value!r} is not a whole number from 1, or several with commas")
    # A list has a number for each level of nesting: ours is the first.
    cores = (os.cpu_count() or 1) // jobs
    os.environ["OMP_NUM_THREADS"] = value.split(",")[0].strip() or str(max(1, min(cores, 4)))
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "passive"
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
