"""python -m tools.classroom student or grade; the Makefile hands over OUT, SUBMISSIONS and P in the environment."""

import sys

from helpers.errors import ConfigError, command
from tools.classroom import grade, student

COMMANDS = {"student": student.main, "grade": grade.main}


def main(arguments: list[str]) -> None:
    if not arguments or arguments[0] not in COMMANDS:
        raise ConfigError(f"say what to do: {' or '.join(COMMANDS)}")
    COMMANDS[arguments[0]](arguments[1:])


if __name__ == "__main__":
    sys.exit(command(main))
