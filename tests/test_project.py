"""What surrounds the notebooks: versions, workflow, Makefile."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def lines_of(name: str) -> list[str]:
    return [line.strip() for line in (ROOT / name).read_text(encoding="utf-8").splitlines()]


def test_pins_are_exact_and_lie_in_the_ranges():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [Requirement(text) for text in project["dependencies"] + project["optional-dependencies"]["test"]]
    pins = dict(line.split("==") for line in lines_of("requirements.txt") if "==" in line)
    assert "-e ." in lines_of("requirements.txt")
    assert set(pins) == {requirement.name for requirement in wanted}
    for requirement in wanted:
        assert pins[requirement.name] in requirement.specifier, requirement


def test_conda_defers_to_the_one_list():
    assert "- -r requirements.txt" in lines_of("environment.yml") and "==" not in "".join(lines_of("environment.yml"))


def test_the_workflow_fits_its_schema():
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run([*command, ROOT / ".github/workflows/ci.yml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


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
        "checks": {"attention", "guards"},
        "exercises": {"attention", "gpt", "sampling"},
        "__init__": set(),
    }
    found = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "helpers").glob("*.py")}
    assert set(found) == set(allowed)
    for name, text in found.items():
        imported = set(re.findall(r"^from helpers\.(\w+) import", text, re.M))
        for names in re.findall(r"^from helpers import (.+)$", text, re.M):
            imported |= set(names.split(", "))
        assert imported <= allowed[name] | {"errors"}, name
    lines = {name: len(text.splitlines()) for name, text in found.items()}
    assert sum(lines.values()) - lines["exercises"] < 2200


def test_make_help_names_every_target():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in re.search(r"^\.PHONY: (.+)$", text, re.M).group(1).split():
        assert re.search(rf"^{target}\s", done.stdout, re.M), target
