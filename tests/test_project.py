"""What surrounds the notebooks: versions, workflow, Makefile, and the program that runs them."""

import functools
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
LOCK = "tools/requirements.lock"


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
    wanted = [
        Requirement(text) for text in [*project["dependencies"], *project["optional-dependencies"]["test"], *build]
    ]
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


def test_the_workflow_fits_its_schema():
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run([*command, ROOT / ".github/workflows/ci.yml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflow_names_its_actions_by_commit():
    used = [line for line in lines_of(".github/workflows/ci.yml") if "uses:" in line]
    assert used and all(re.fullmatch(r"- uses: actions/[a-z-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", line) for line in used)


def test_imports_go_one_way():
    allowed = {
        "errors": set(),
        "attention": set(),
        "gpt": {"attention"},
        "data": set(),
        "training": {"data", "gpt", "sampling"},
        "sampling": set(),
        "ledger": set(),
        "plotting": set(),
        "console": set(),
        "ablations": {"attention", "data", "gpt", "sampling", "training"},
        "checks": {"attention", "gpt", "sampling"},
        "__init__": set(),
    }
    found = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "helpers").glob("*.py")}
    assert set(found) == set(allowed)
    for name, text in found.items():
        imported = set(re.findall(r"^from helpers\.(\w+) import", text, re.M))
        for names in re.findall(r"^from helpers import (.+)$", text, re.M):
            imported |= set(names.split(", "))
        assert imported <= allowed[name] | {"errors"}, name
    lines = sum(len(text.splitlines()) for text in found.values())
    graders = len(found["checks"].partition("\ndef exercise_")[2].splitlines())
    assert lines - graders < 2200


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


# ---------------------------------------------------------------- the Makefile
@pytest.fixture
def make(tmp_path):
    """Run make with a python that only writes down its arguments and its environment; return these, call by call."""
    stub, seen = tmp_path / "python", tmp_path / "seen.json"
    stub.write_text(
        f"#!{sys.executable} -IS\nimport json, os, sys\n"
        f"print(json.dumps([sys.argv[1:], dict(os.environ)]), file=open({str(seen)!r}, 'a'))\n",
        encoding="utf-8",
    )
    stub.chmod(0o755)
    (tmp_path / "jupyter").symlink_to(stub)

    def run(*arguments: str, **environment: str) -> list[tuple[list[str], dict[str, str]]]:
        seen.unlink(missing_ok=True)
        ours = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "NB", "P")
        clean = {name: value for name, value in os.environ.items() if name not in ours}
        command = ["make", "-o", ".venv/ready", f"BIN={tmp_path}", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=clean | environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [tuple(json.loads(line)) for line in seen.read_text("utf-8").splitlines()]

    return run


HOSTILE = [
    *("$(shell touch PWNED)", "$(eval $(shell touch PWNED))", "$(file >PWNED,x)", "${shell touch PWNED}", "$(error x)"),
    *("`touch PWNED`", "$(touch PWNED)", "<(touch PWNED)", "; touch PWNED", "| touch PWNED", "&& touch PWNED"),
    *('"; touch PWNED "', "'; touch PWNED '", "x\ntouch PWNED", "\\\ntouch PWNED", "x # y", "--version"),
    *("$HOME", "'$HOME'", "$$HOME", "$", "$$", "$(", "$(P)", "$@ $<", "%", "*", "\\", "a\\", '"', "'", "é ☃"),
]


def test_no_shell_sees_what_make_is_given(make, tmp_path):
    for value in HOSTILE:
        value = value.replace("PWNED", str(tmp_path / "pwned"))
        for given in ({"arguments": [f"NB={value}", f"P={value}"]}, {"environment": {"NB": value, "P": value}}):
            seen = make("run", "store", "write", *given.get("arguments", []), **given.get("environment", {}))
            assert len(seen) == 3 and {e[name] for _, e in seen for name in ("NB", "P")} == {value}
            assert not any(len(value) > 2 and value in argument for arguments, _ in seen for argument in arguments)
    assert not (tmp_path / "pwned").exists()


def test_make_takes_few_threads_unless_told_otherwise(make):
    for target in ("run", "lab"):
        ((_, environment),) = make(target)
        assert 1 <= int(environment["OMP_NUM_THREADS"]) <= min(4, max(1, os.cpu_count() // 2))
        assert environment["OMP_WAIT_POLICY"] == "passive"
        ((_, environment),) = make(target, OMP_NUM_THREADS="7", OMP_WAIT_POLICY="active")
        assert (environment["OMP_NUM_THREADS"], environment["OMP_WAIT_POLICY"]) == ("7", "active")


def test_make_write_hands_its_options_to_sampling(tmp_path):
    (tmp_path / "helpers").mkdir()
    (tmp_path / "helpers" / "__init__.py").touch()
    (tmp_path / "helpers" / "sampling.py").write_text("import sys\nprint(sys.argv[1:])", encoding="utf-8")
    command = [sys.executable, ROOT / "tools" / "write.py"]
    for options, wanted in (
        ("--prompt 'O $HOME' --top-k 3", "['--prompt', 'O $HOME', '--top-k', '3']\n"),
        ("", "[]\n"),
    ):
        env = os.environ | {"P": options, "PYTHONPATH": str(tmp_path)}
        assert subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout == wanted
    done = subprocess.run(command, env=os.environ | {"P": "--prompt 'O"}, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr == "error: P=--prompt 'O: no closing quotation\n"


# ---------------------------------------------------------------- tools/notebooks.py
@pytest.fixture
def runner(monkeypatch, tmp_path):
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "tools" / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "notebooks", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr(module, "BUILD", tmp_path / "build")
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "README.md").write_text("<!-- claims, written by make store -->\n<!-- end of claims -->\n", "utf-8")
    return module


def write_notebook(path: Path, *sources: str, tags: dict[int, str] | None = None) -> None:
    cells = [nbformat.v4.new_code_cell(source, id=f"c{i}") for i, source in enumerate(sources)]
    for i, tag in (tags or {}).items():
        cells[i].metadata["tags"] = [tag]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), path)


def test_one_failing_notebook_stops_nobody(runner, capsys):
    write_notebook(runner.NOTEBOOKS / "01_bad.ipynb", "1 / 0")
    write_notebook(
        runner.NOTEBOOKS / "02_good.ipynb",
        "print('step     4  train 2.0\\nstep by step\\nall well')",
        tags={0: "result"},
    )
    assert runner.run(None, []) == 1
    out = capsys.readouterr().out
    assert "FAILED: ZeroDivisionError: division by zero" in out and "1 passed, 1 failed: 01_bad" in out
    assert "      step     4  train 2.0\n      ok" in out and out.endswith("step by step\nall well\n")
    index = (runner.BUILD / "html" / "index.html").read_text(encoding="utf-8")
    assert 'href="02_good.html"' in index and "ZeroDivisionError" in index
    assert (runner.BUILD / "html" / "01_bad.html").exists() and (runner.BUILD / "notebooks" / "02_good.ipynb").exists()


def test_parameters_reach_the_notebook_and_unknown_ones_are_refused(runner, capsys, monkeypatch):
    write_notebook(runner.NOTEBOOKS / "01_n.ipynb", "a = 1", "print(a + 1)", tags={0: "parameters", 1: "result"})
    assert runner.run("01_n", ["-p", "a", "41"]) == 0
    assert capsys.readouterr().out.endswith("42\n")
    monkeypatch.chdir(ROOT)
    dry = subprocess.run(["make", "-n", "run", "P=-p a 'two words'"], capture_output=True, text=True)
    assert '--parameters="$P"' in dry.stdout  # handed over by the environment, whatever quotes it has
    with pytest.raises(SystemExit, match="has no parameter b: it has a"):
        runner.run("01_n", ["-p", "b", "1"])
    with pytest.raises(SystemExit, match="no notebook '02': choose one of 01_n"):
        runner.run("02", [])
    with pytest.raises(SystemExit, match="parameters need a notebook"):
        runner.run(None, ["-p", "a", "1"])


def test_rendered_pictures_carry_their_text(runner):
    draw = "from helpers import plotting\nplotting.bars(['a'], [1], ylabel='n')\nplotting.show('one \"lonely\" bar')"
    write_notebook(runner.NOTEBOOKS / "01_n.ipynb", draw)
    assert runner.run(None, []) == 0
    page = (runner.BUILD / "html" / "01_n.html").read_text(encoding="utf-8")
    assert re.search(r"<img [^>]*alt='one \"lonely\" bar'", page) or "one &quot;lonely&quot; bar" in page


def test_pages_need_no_network_and_their_links_lead_somewhere(runner):
    source = (
        "$$a^2$$ and $b$, `$c$`\n\n[n](02_n.ipynb#x) [all](../README.md) [s](solutions/s.py) [w](https://example.org)"
    )
    page = runner.render(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(source)]))
    assert page.count("<math") == 2 and "$c$" in page and "$$a" not in page
    assert not re.search(r"<(script|img|link)[^>]*(src|href)=.https?:", page)
    assert re.findall(r'<a href="([^"#]+[^"]*)"', page) == [
        "02_n.html#x",
        "index.html",
        "../../notebooks/solutions/s.py",
        "https://example.org",
    ]


def test_prints_that_arrive_apart_are_stored_together(runner):
    path = runner.NOTEBOOKS / "01_n.ipynb"
    write_notebook(path, "import time\nprint('one', flush=True)\ntime.sleep(0.6)\nprint('two')")
    runner.store(None)
    (output,) = nbformat.read(path, as_version=4).cells[0].outputs
    assert output.text == "one\ntwo\n"


def test_the_table_of_claims_links_the_tagged_cells(runner):
    write_notebook(
        runner.NOTEBOOKS / "04_n.ipynb", "assert True", "2", "assert 1 < 2", tags={0: "claim-16", 2: "claim-16"}
    )
    runner.store(None)
    readme = (runner.ROOT / "README.md").read_text("utf-8")
    (line,) = [line for line in readme.splitlines() if line.startswith("| 16 |")]
    assert "[04/c0](notebooks/04_n.ipynb#cell-id=c0), [04/c2](notebooks/04_n.ipynb#cell-id=c2)" in line
    assert "**true**: " in line
    assert readme.count("\n| ") == 31 and runner.with_claims(readme, runner.NOTEBOOKS) == readme


def test_storing_twice_changes_nothing(runner):
    path = runner.NOTEBOOKS / "01_n.ipynb"
    write_notebook(path, "print(1 + 1)")
    runner.store(None)
    first = path.read_bytes()
    runner.store(None)
    assert path.read_bytes() == first and b'"2\\n"' in first


def test_the_ledger_runs_what_changed_and_names_what_is_missing(runner, monkeypatch, capsys):
    rows = [{**runner.ledger.row(id), "notebook": stage} for id, stage in (
        ("raschka-3.3.1-scores", "01_a"), ("gralinski-scores", "01_a"), ("raschka-3.3.1-softmax", "02_b"),
        ("raschka-3.3.1-context", "03_none"))]  # fmt: skip
    monkeypatch.setattr(runner.ledger, "rows", lambda: rows)
    write_notebook(runner.NOTEBOOKS / "01_a.ipynb", "print('reproduced: raschka-3.3.1-scores (R, 6 numbers)')")
    write_notebook(runner.NOTEBOOKS / "02_b.ipynb", "1 / 0")
    assert runner.ledger_action() == 1
    out = capsys.readouterr().out
    assert "running 01_a" in out and "1 of 4 rows reproduced, 0 skipped, 2 missing or failed" in out
    for line in (
        r"Sebastian Raschka +raschka-3\.3\.1-scores +01_a +reproduced$",
        r"Filip Gralinski +gralinski-scores +01_a +MISSING$",
        r"Sebastian Raschka +raschka-3\.3\.1-softmax +02_b +FAILED: ZeroDivisionError: division by zero$",
        r"Sebastian Raschka +raschka-3\.3\.1-context +03_none +notebook not written yet$",
    ):
        assert re.search(line, out, re.M), line

    assert "FAILED: 02_b: ZeroDivisionError" in out

    both = "print('reproduced: raschka-3.3.1-scores (R, 6 numbers)\\nspelling: reproduced: gralinski-scores (')"
    write_notebook(runner.NOTEBOOKS / "01_a.ipynb", both)
    write_notebook(runner.NOTEBOOKS / "02_b.ipynb", "print('reproduced: raschka-3.3.1-softmax (')")
    assert runner.ledger_action() == 0
    assert "3 of 4 rows reproduced, 0 skipped, 0 missing" in capsys.readouterr().out
    assert runner.ledger_action() == 0
    assert "running" not in capsys.readouterr().out  # nothing has changed

    write_notebook(runner.NOTEBOOKS / "02_b.ipynb", "print('skipped: raschka-3.3.1-softmax needs x')")
    for _ in range(2):  # what was skipped is tried again: the corpus may be there now
        assert runner.ledger_action() == 0
        out = capsys.readouterr().out
        assert "running 02_b" in out and "running 01_a" not in out and "skipped needs x" in out
        assert "2 of 4 rows reproduced, 1 skipped, 0 missing" in out
    half_run = runner.BUILD / "notebooks" / "02_b.ipynb"  # the kernel died
    notebook = nbformat.read(half_run, as_version=4)
    notebook.cells[0].outputs[0].text = "reproduced: raschka-3.3.1-softmax ("
    nbformat.write(notebook, half_run)
    assert not runner.is_outdated(runner.NOTEBOOKS / "02_b.ipynb")
    notebook.cells[0].execution_count = None
    nbformat.write(notebook, half_run)
    assert runner.is_outdated(runner.NOTEBOOKS / "02_b.ipynb")

    (runner.BUILD / "notebooks" / "01_a.ipynb").write_text("{")  # cut off
    assert runner.run("02_b", []) == 0 and runner.ledger_action() == 0
    assert "running 01_a" in capsys.readouterr().out


def test_a_row_that_fails_after_it_succeeded_is_no_success(runner, monkeypatch, capsys):
    rows = [{**runner.ledger.row("gralinski-scores"), "notebook": "01_a"}]
    monkeypatch.setattr(runner.ledger, "rows", lambda: rows)
    again = "print('reproduced: gralinski-scores (G)')\nraise AssertionError('gralinski-scores: 1 of 9 numbers differ')"
    write_notebook(runner.NOTEBOOKS / "01_a.ipynb", again)
    assert runner.ledger_action() == 1
    assert "FAILED: AssertionError: gralinski-scores: 1 of 9 numbers differ" in capsys.readouterr().out
    write_notebook(runner.NOTEBOOKS / "01_a.ipynb", "print('not yet reproduced: gralinski-scores (')")
    assert runner.ledger_action() == 1


def test_a_run_with_other_settings_does_not_count(runner, monkeypatch, capsys):
    rows = [{**runner.ledger.row("gralinski-scores"), "notebook": "01_a"}]
    monkeypatch.setattr(runner.ledger, "rows", lambda: rows)
    cell = "print('reproduced: gralinski-scores (G)' if seed == 1 else 'nothing')"
    write_notebook(runner.NOTEBOOKS / "01_a.ipynb", "seed = 1", cell, tags={0: "parameters"})
    assert runner.run("01_a", ["-p", "seed", "2"]) == 0 and runner.ledger_action() == 0
    assert "running 01_a" in capsys.readouterr().out


def test_the_page_shows_what_is_stored(runner, monkeypatch):
    rows = [{**runner.ledger.row("raschka-3.3.1-softmax"), "notebook": "02_b"}]
    monkeypatch.setattr(runner.ledger, "rows", lambda: rows)
    write_notebook(runner.NOTEBOOKS / "02_b.ipynb", "1")
    page = runner.ledger_page(runner.NOTEBOOKS)
    assert "| `raschka-3.3.1-softmax` | [02_b](02_b.ipynb) | MISSING |" in page  # not stored yet
