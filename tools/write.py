"""`make write` and `make gpt2`: `python -m helpers.sampling` and `python -m helpers.gpt2`.

Their options come in the environment variable P, the folder of GPT-2 in WEIGHTS: no shell expands them.
"""

import os
import runpy
import shlex
import sys

module = "gpt2" if "gpt2" in sys.argv[1:] else "sampling"
try:
    sys.argv[1:] = shlex.split(os.environ.get("P", ""))
except ValueError as problem:
    sys.exit(f"error: P={os.environ['P']}: {str(problem).lower()}")
if module == "gpt2":
    if not os.environ.get("WEIGHTS"):
        sys.exit("error: WEIGHTS must name the folder with GPT-2's files")
    sys.argv.insert(1, f"--weights={os.environ['WEIGHTS']}")
runpy.run_module(f"helpers.{module}", run_name="__main__", alter_sys=True)
