"""What GitHub runs: valid workflows, of actions that nobody can exchange."""

import re

import pytest

from helpers import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.slow
def test_the_workflows_fit_their_schema():
    from check_jsonschema import main  # slow, and only this test needs it

    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--builtin-schema", "vendor.github-workflows", *map(str, WORKFLOWS)])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_names_its_actions_by_commit(path):
    used = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert used and all(re.fullmatch(r"- uses: actions/[a-z-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", line) for line in used)
