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
    options = parser.parse_args(arguments)
    try:
        if options.out.exists() and not (options.out.is_dir() and not any(options.out.iterdir())):
            raise ValueError(f"{options.out} is there already: name a folder that is new or empty")
        there = next(place for place in (options.out, *options.out.absolute().parents) if place.exists())
        if not there.is_dir() or not os.access(there, os.W_OK):
            raise ValueError(f"{options.out} can't be made: {there} is no folder to write into")
        lessons = handout.lessons(options.only)
        if options.command == "student":
            print("looking whether a lesson is solved already", file=sys.stderr)
            for lesson in lessons:
                if solved := grade.solved(lesson):
                    raise ValueError(f"{lesson.path} answers {', '.join(solved)} already")
            handout.hand_out(options.out, lessons)
            return
        if not options.submissions.is_dir():
            raise ValueError(f"{options.submissions} is no folder")
        if options.out.resolve().is_relative_to(options.submissions.resolve()):
            raise ValueError(f"{options.out} lies in {options.submissions}: name a folder elsewhere")
        if options.seconds <= 0 or options.jobs < 1:
            raise ValueError("--seconds and --jobs must be above 0")
        grade.grade(options.submissions, options.out, lessons, options.seconds, options.jobs)
    except (ValueError, OSError) as error:
        parser.exit(2, f"error: {error}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
