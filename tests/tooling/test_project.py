"""What surrounds the notebooks: versions, workflow, Makefile."""

import ast
import functools
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import conftest
import nbformat
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LOCK = "tools/requirements.lock"
WORKFLOWS = (".github/workflows/ci.yml", ".github/workflows/site.yml")


def lines_of(name: str) -> list[str]:
    return [line.strip() for line in (ROOT / name).read_text(encoding="utf-8").splitlines()]


def pins() -> dict[str, str]:
    return dict(line.split("==") for line in lines_of("requirements.txt") if "==" in line)


@functools.cache
def locked() -> dict[str, list[tuple[str, int]]]:
    """Name of a package -> its versions in the lock, one for each kind of machine, with how many hashes."""
    found = {}
    text = (ROOT / LOCK).read_text(encoding="utf-8")
    for name, version, rest in re.findall(r"^([a-z0-9-]+)==([^ ]+)(.*(?:\n    .*)*)", text, re.M):
        found.setdefault(name, []).append((version, len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", rest))))
    return found


def test_pins_are_exact_and_lie_in_the_ranges():
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, build = whole["project"], whole["build-system"]["requires"]
    extras = [text for texts in project["optional-dependencies"].values() for text in texts]
    wanted = [Requirement(text) for text in [*project["dependencies"], *extras, *build]]
    assert "-e ." in lines_of("requirements.txt")
    assert set(pins()) == {requirement.name for requirement in wanted}
    for requirement in wanted:
        assert pins()[requirement.name] in requirement.specifier, requirement
    assert build == [f"setuptools=={pins()['setuptools']}"]


def test_every_pin_but_torch_stands_in_the_lock_with_a_hash():
    assert len(locked()) > 100 and all(hashes for versions in locked().values() for _, hashes in versions)
    for name, version in pins().items():
        assert [locked_version for locked_version, _ in locked().get(name, [])] == [version] * (name != "torch"), name


def test_the_lock_covers_all_that_the_pinned_packages_need():
    """Torch too, whose own needs must be there when it comes last and without a hash; but for its CUDA libraries."""
    waiting, seen = [Requirement(name) for name in pins()], set()
    while waiting:
        requirement = waiting.pop()
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if (name, *requirement.extras) in seen or name.startswith(("nvidia-", "cuda-", "triton")):
            continue
        seen.add((name, *requirement.extras))
        package = importlib.metadata.distribution(name)
        if name != "torch":
            assert package.version in [version for version, _ in locked().get(name, [])], f"{name}=={package.version}"
        needs = [Requirement(text) for text in package.requires or []]
        settings = [{"extra": extra} for extra in ("", *requirement.extras)]
        waiting += [need for need in needs if not need.marker or any(map(need.marker.evaluate, settings))]
    assert len(seen) > 100


def test_the_lock_names_no_index_and_no_folder():
    assert not re.search(r"://|index|file:|find-links|^-e|(?<!sha)/", (ROOT / LOCK).read_text(encoding="utf-8"), re.M)


@pytest.mark.slow
def test_pip_refuses_a_package_whose_hash_differs(tmp_path):
    text = (ROOT / LOCK).read_text(encoding="utf-8")
    (entry,) = re.findall(r"^six==.*(?:\n    .*)*", text, re.M)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--disable-pip-version-check",
        "--no-deps",
        "--dest",
        tmp_path / "wheels",
    ]
    for name, lines in (("right", entry), ("wrong", re.sub(r"sha256:\w+", "sha256:" + "0" * 64, entry))):
        (tmp_path / name).write_text(lines + "\n", encoding="utf-8")
    right, wrong = (
        subprocess.run([*pip, "--require-hashes", "-r", tmp_path / name], capture_output=True, text=True)
        for name in ("right", "wrong")
    )
    if right.returncode:
        pytest.skip("no package index can be reached")
    assert wrong.returncode == 1 and "DO NOT MATCH THE HASHES" in wrong.stderr


def test_conda_defers_to_the_one_list():
    assert "- -r requirements.txt" in lines_of("environment.yml") and "==" not in "".join(lines_of("environment.yml"))


@pytest.mark.slow
def test_the_workflows_fit_their_schema():
    from check_jsonschema import main  # slow, and only this test needs it

    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--builtin-schema", "vendor.github-workflows", *(str(ROOT / name) for name in WORKFLOWS)])


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_names_its_actions_by_commit(name):
    used = [line for line in lines_of(name) if "uses:" in line]
    assert used and all(re.fullmatch(r"- uses: actions/[a-z-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", line) for line in used)


def test_imports_go_one_way():
    allowed = {
        "errors": set(),
        "console": set(),
        "files": set(),
        "guards": set(),
        "products": set(),
        "attention": {"guards"},
        "gpt": {"attention", "guards"},
        "data": {"files", "guards"},
        "decoding": {"guards", "sampling"},
        "sampling": {"console", "guards"},
        "gpt2": {"console", "gpt", "guards", "sampling"},
        "modern": {"attention", "gpt", "guards", "training"},
        "microscope": {"attention", "gpt", "guards", "sampling"},
        "state": {"gpt", "guards"},
        "runs": {"data", "files", "gpt", "state"},
        "training": {"console", "data", "gpt", "guards", "products", "runs", "sampling", "state"},
        "packing": {"data", "gpt", "guards"},
        "progress": set(),
        "explore": {"data", "gpt", "guards", "plotting"},
        "presets": {"data", "gpt", "modern", "runs", "training"},
        "fast": {"console", "guards", "modern", "presets", "training"},
        "ledger": set(),
        "plotting": set(),
        "machine": {"plotting"},
        "block": {"guards", "machine", "plotting"},
        "scoreboard": {"plotting"},
        "telegrams": {"guards"},
        "verdicts": set(),
        "experiments": {"console", "data", "gpt", "guards", "modern", "training", "verdicts"},
        "ablations": {"attention", "experiments", "gpt", "modern", "training"},
        "ladder": {"console", "data", "gpt", "modern", "presets", "training"},
        "exercises": {"graders"},  # only what compares and what stops, at the top; the rest when it is needed
        "__init__": set(),
    }
    found = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "helpers").glob("*.py")}
    assert set(found) == set(allowed)
    for path in (ROOT / "helpers" / "checks").glob("*.py"):
        found[f"checks.{path.stem}"] = path.read_text(encoding="utf-8")
        allowed[f"checks.{path.stem}"] = {"attention", "checks", "guards"}
    allowed["checks.mistakes"] = set()
    graders = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "helpers" / "graders").glob("*.py")}
    found |= {f"graders.{name}": text for name, text in graders.items()}
    allowed |= {f"graders.{name}": {"attention", "exercises", "gpt", "graders", "sampling"} for name in graders}
    allowed["graders.compare"] = allowed["graders.limit"] = allowed["graders.__init__"] = set()
    for name, text in found.items():
        imported = set(re.findall(r"^from helpers\.(\w+)(?:\.\w+)? import", text, re.M))
        for names in re.findall(r"^from helpers import (.+)$", text, re.M):
            imported |= set(names.split(", "))
        assert imported <= allowed[name] | {"errors"}, name
    lines = {name: len(text.splitlines()) for name, text in found.items()}
    assert max(lines.values()) <= 350 and lines.pop("exercises") <= 170
    judges = ("graders.", "checks.")
    assert sum(count for name, count in lines.items() if not name.startswith(judges)) <= 5925


def test_the_readme_counts_the_outputs_that_are_not_compared():
    paths = (ROOT / "notebooks").glob("[0-9]*.ipynb")
    cells = [cell for path in paths for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    ignored = sum("nbval-ignore-output" in cell.metadata.get("tags", []) for cell in cells)
    assert f"except for {ignored} of {len(cells)} whose outputs" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_make_help_names_every_target():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in re.search(r"^\.PHONY: (.+)$", text, re.M).group(1).split():
        assert re.search(rf"^{target}\s", done.stdout, re.M), target


def test_a_notebook_stays_on_one_worker_and_09_goes_with_08():
    """nbval needs a kernel's cells in their order, and 09 the run that 08 leaves."""
    cells = [f"notebooks/{name}.ipynb::Cell {i}" for i in (0, 1) for name in ("07_x", "08_nanogpt_shakespeare")]
    units = [conftest.unit_of(cell) for cell in [*cells, "notebooks/09_sampling.ipynb::Cell 3"]]
    assert units[0] == units[2] != units[1] == units[3] == units[4]


# ---------------------------------------------------------------- the Makefile
@pytest.fixture
def make(tmp_path):
    """Run make with a python that only writes down its arguments and its environment; return these, call by call."""
    stub, seen = tmp_path / "python", tmp_path / "seen.json"
    stub.write_text(
        f"#!{sys.executable} -IS\nimport posix, sys\n"  # nothing that takes time to import: it starts 280 times
        f"print([sys.argv[1:], posix.environ], file=open({str(seen)!r}, 'a'))\n",
        encoding="utf-8",
    )
    stub.chmod(0o755)
    (tmp_path / "jupyter").symlink_to(stub)

    def run(*arguments: str, **environment: str) -> list[tuple[list[str], dict[str, str]]]:
        seen.unlink(missing_ok=True)
        ours = (
            "OMP_NUM_THREADS",
            "OMP_WAIT_POLICY",
            "GOMP_SPINCOUNT",
            "MAKEFLAGS",
            "MAKEOVERRIDES",
            "MFLAGS",
            "NB",
            "P",
            "WEIGHTS",
            "NAME",
            "QUICK",
        )
        clean = {name: value for name, value in os.environ.items() if name not in ours}
        command = ["make", "-o", ".venv/ready", f"BIN={tmp_path}", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=clean | environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        calls = map(ast.literal_eval, seen.read_text("utf-8").splitlines())
        return [(given, {os.fsdecode(k): os.fsdecode(v) for k, v in bytes_.items()}) for given, bytes_ in calls]

    return run


HOSTILE = [
    *("$(shell touch PWNED)", "$(eval $(shell touch PWNED))", "$(file >PWNED,x)", "${shell touch PWNED}", "$(error x)"),
    *("`touch PWNED`", "$(touch PWNED)", "<(touch PWNED)", "; touch PWNED", "| touch PWNED", "&& touch PWNED"),
    *('"; touch PWNED "', "'; touch PWNED '", "x\ntouch PWNED", "\\\ntouch PWNED", "x # y", "--version"),
    *("$HOME", "'$HOME'", "$$HOME", "$", "$$", "$(", "$(P)", "$@ $<", "%", "*", "\\", "a\\", '"', "'", "é ☃"),
]


@pytest.mark.slow
def test_no_shell_sees_what_make_is_given(make, tmp_path):
    for value in HOSTILE:
        value = value.replace("PWNED", str(tmp_path / "pwned"))
        given_all = {"NB": value, "P": value, "WEIGHTS": value, "NAME": value, "QUICK": value}
        for given in ({"arguments": [f"{n}={value}" for n in given_all]}, {"environment": given_all}):
            seen = make(
                "run", "write", "gpt2", "study", "bench", *given.get("arguments", []), **given.get("environment", {})
            )
            assert len(seen) == 5 and {e[name] for _, e in seen for name in given_all} == {value}
            assert not any(len(value) > 2 and value in argument for arguments, _ in seen for argument in arguments)
    assert not (tmp_path / "pwned").exists()


def test_make_takes_few_threads_unless_told_otherwise(make):
    for target in ("run", "lab"):
        ((arguments, environment),) = make(target)
        threads, cores = int(environment["OMP_NUM_THREADS"]), os.cpu_count()
        jobs = int(arguments[arguments.index("--jobs") + 1]) if "--jobs" in arguments else 1
        assert 1 <= threads <= 4 and threads * jobs <= cores
        assert (environment["OMP_WAIT_POLICY"], environment["GOMP_SPINCOUNT"]) == ("passive", "1000")
        ((_, environment),) = make(target, OMP_NUM_THREADS="7", OMP_WAIT_POLICY="active")
        assert (environment["OMP_NUM_THREADS"], environment["OMP_WAIT_POLICY"]) == ("7", "active")
        assert "GOMP_SPINCOUNT" not in environment


def test_make_write_and_make_gpt2_hand_over_their_options(tmp_path):
    (tmp_path / "helpers").mkdir()
    (tmp_path / "helpers" / "__init__.py").touch()
    for module in ("sampling", "gpt2"):
        text = f"import sys\nprint({module!r}, sys.argv[1:])"
        (tmp_path / "helpers" / f"{module}.py").write_text(text, encoding="utf-8")

    def run(*target: str, **environment: str) -> subprocess.CompletedProcess:
        command = [sys.executable, ROOT / "tools" / "write.py", *target]
        env = os.environ | {"PYTHONPATH": str(tmp_path), "WEIGHTS": ""} | environment
        return subprocess.run(command, env=env, capture_output=True, text=True)

    given = "--prompt 'O $HOME' --top-k 3"
    assert run(P=given).stdout == "sampling ['--prompt', 'O $HOME', '--top-k', '3']\n"
    assert run(P="", WEIGHTS="unused").stdout == "sampling []\n"
    assert run("gpt2", P=given, WEIGHTS="-x 'y $HOME").stdout == (
        """gpt2 ["--weights=-x 'y $HOME", '--prompt', 'O $HOME', '--top-k', '3']\n"""
    )
    for target, environment, said in (
        ((), {"P": "--prompt 'O"}, "error: P=--prompt 'O: no closing quotation\n"),
        (("gpt2",), {"P": "", "WEIGHTS": ""}, "error: WEIGHTS must name the folder with GPT-2's files\n"),
    ):
        done = run(*target, **environment)
        assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("notebooks/*.md")]))
def test_links_of_the_pages_lead_to_files(page):
    addresses = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert all("://" in address or (page.parent / address).exists() for address in addresses)


def test_the_moving_picture_is_small_and_described_by_its_tool():
    assert (ROOT / "docs" / "learning.gif").stat().st_size < 2e6
    assert re.search(
        r"!\[A curve falls from 4\.2.{80,}\]\(docs/learning\.gif\)", (ROOT / "README.md").read_text("utf-8")
    )
