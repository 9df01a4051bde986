"""The packages: every version is pinned, and every file that pip takes is the one that we saw."""

import functools
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LOCK = "tools/requirements.lock"
CLASSROOM = "tools/classroom.lock"


def lines_of(name: str) -> list[str]:
    return [line.strip() for line in (ROOT / name).read_text(encoding="utf-8").splitlines()]


def pins() -> dict[str, str]:
    return {requirement.name: str(requirement.specifier)[2:] for requirement in pinned()}


def pinned() -> list[Requirement]:
    return [Requirement(line) for line in lines_of("requirements.txt") if "==" in line]


@functools.cache
def locked(lock: str = LOCK) -> dict[str, list[tuple[str, int]]]:
    """Name of a package -> its versions in the lock, one for each kind of machine, with how many hashes."""
    found = {}
    text = (ROOT / lock).read_text(encoding="utf-8")
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
    waiting, seen = [Requirement(each.name) for each in pinned() if not each.marker or each.marker.evaluate()], set()
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


@pytest.mark.parametrize("lock", [LOCK, CLASSROOM])
def test_a_lock_names_no_index_and_no_folder(lock):
    assert not re.search(r"://|index|file:|find-links|^-e|(?<!sha)/", (ROOT / lock).read_text(encoding="utf-8"), re.M)


def test_the_lock_of_the_classroom_has_hashes_and_nothing_that_the_other_has():
    found = locked(CLASSROOM)
    assert "nbgrader" in found and all(hashes for versions in found.values() for _, hashes in versions)
    assert not set(found) & set(locked())


@pytest.mark.torture
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
