"""nbgrader's part, in a process of its own: python -m tools.classroom.books course action [assignment ...].

Whatever it does it says in its log; what goes wrong ends it with a sentence.
"""

import importlib
import os
import sys
from pathlib import Path

ACTIONS = ("generate", "grade")


def main(course: str, action: str, assignments: list[str]) -> int:
    os.chdir(course)
    apps, config = importlib.import_module("nbgrader.apps"), importlib.import_module("traitlets.config")
    loaded = config.PyFileConfigLoader("nbgrader_config.py", path=course).load_config()
    loaded.CourseDirectory.root = course
    directory = importlib.import_module("nbgrader.coursedir").CourseDirectory(config=loaded)
    api = apps.NbGraderAPI(directory, config=loaded)
    for name in assignments:
        if action == "generate":
            _done(api.generate_assignment(name), name)
            continue
        for student in sorted(path.parent.name for path in Path("submitted").glob(f"*/{name}")):
            _done(api.autograde(name, student), f"{student}: {name}")
            _done(api.generate_feedback(name, student), f"{student}: {name}")
    return 0


def _done(result: dict, what: str) -> None:
    if not result["success"]:
        error = (result.get("error") or "").strip().splitlines()
        print(result.get("log", ""), file=sys.stderr)
        sys.exit(f"{what}: {error[-1] if error else 'without a reason'}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
