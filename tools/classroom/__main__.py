"""python -m tools.classroom student OUT, or grade SUBMISSIONS OUT."""

import argparse
import os
import sys
from pathlib import Path

from tools.classroom import grade, handout


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.classroom", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    student = commands.add_parser("student", help="what to hand out")
    grading = commands.add_parser("grade", help="judge what has come back")
    grading.add_argument("submissions", type=Path, metavar="SUBMISSIONS", help="a folder for each student")
    for command in (student, grading):
        command.add_argument("out", type=Path, metavar="OUT", help="a folder, new or empty")
        command.add_argument("--only", nargs="+", default=[], metavar="LESSON", help="such as 3 05 or what_matters")
    grading.add_argument("--seconds", type=float, default=10.0, help="the limit of an answer")
    grading.add_argument("--jobs", type=int, default=1, help="hand-ins judged at a time")
    given = parser.parse_args(arguments)
    try:
        if given.out.exists() and not (given.out.is_dir() and not any(given.out.iterdir())):
            raise ValueError(f"{given.out} is there already: name a folder that is new or empty")
        there = next(place for place in (given.out, *given.out.absolute().parents) if place.exists())
        if not there.is_dir() or not os.access(there, os.W_OK):
            raise ValueError(f"{given.out} can't be made: {there} is no folder to write into")
        wanted = handout.lessons(given.only)
        if given.command == "student":
            print("looking whether a lesson is solved already", file=sys.stderr)
            for lesson in wanted:
                if solved := grade.solved(lesson):
                    raise ValueError(f"{lesson.path} answers {', '.join(solved)} already")
            handout.hand_out(given.out, wanted)
            return
        if not given.submissions.is_dir():
            raise ValueError(f"{given.submissions} is no folder")
        if given.out.resolve().is_relative_to(given.submissions.resolve()):
            raise ValueError(f"{given.out} lies in {given.submissions}: name a folder elsewhere")
        if given.seconds <= 0 or given.jobs < 1:
            raise ValueError("--seconds and --jobs must be above 0")
        grade.grade(given.submissions, given.out, wanted, given.seconds, given.jobs)
    except (ValueError, OSError) as error:
        parser.exit(2, f"error: {error}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
