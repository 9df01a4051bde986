"""`make write`: `python -m helpers.sampling` with the options in the environment variable P, which no shell expands."""

import os
import runpy
import shlex
import sys

try:
    sys.argv[1:] = shlex.split(os.environ.get("P", ""))
except ValueError as problem:
    sys.exit(f"error: P={os.environ['P']}: {str(problem).lower()}")
runpy.run_module("helpers.sampling", run_name="__main__", alter_sys=True)
