"""One answer, judged in a process of its own, which ends with it or at its limit.

No wall stands around that process: it can do what its teacher can.
"""

import json
import multiprocessing
import os
import runpy
import signal
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from tools.classroom.handout import MY_GPT

START = 120.0  # seconds for a process to begin, which are no answer's
READY = b"ready"
METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
processes: Any = multiprocessing.get_context(METHOD)
if len(os.fsencode(tempfile.gettempdir())) > 70 and os.access("/tmp", os.W_OK):
    tempfile.tempdir = "/tmp"  # the name of a socket has 107 bytes at most
if METHOD == "forkserver":  # each process is a copy of one that has loaded them and nothing else
    loaded = ["__main__", "tools.classroom.process", "tools.classroom.graders"]
    processes.set_forkserver_preload([*loaded, "IPython.core.interactiveshell"])


def judge(label: str, source: str, expression: str, names: Sequence[str], seconds: float) -> tuple[str, str]:
    """The word and the reason of the verdict on `expression`, after `source` has run.

    The `names` come from our own steps. RuntimeError if the fault is not the answer's.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        parent, child = processes.Pipe()
        work = label, source, expression, list(names), seconds, folder, child
        process = processes.Process(target=_answer, args=work, daemon=True)
        process.start()
        child.close()
        begun = False
        try:
            begun = parent.poll(START) and parent.recv_bytes() == READY
            if begun and parent.poll(seconds):
                word, why = json.loads(parent.recv_bytes())
                return str(word), " ".join(str(why).split())[:500]
        except EOFError:
            if begun:
                return "not yet", "it ends the process that it runs in"
        finally:
            _end(process)
            parent.close()
    if begun:
        return "not yet", f"it is still at work after {seconds:g} seconds"
    raise RuntimeError("no process for answers begins: do the exercises work at all?")


def _end(process: Any) -> None:
    """The process, and those that it has started: else the next student's answer waits for them."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()


def _answer(
    label: str,
    source: str,
    expression: str,
    names: Sequence[str],
    seconds: float,
    folder: str,
    reply: Connection,
) -> None:
    """What happens in the process: the answer is defined as IPython does it, and judged."""
    if hasattr(os, "setsid"):
        os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.chdir(folder)
    os.environ.update(IPYTHONDIR=folder, HOME=folder)
    os.environ.pop("MY_GPT", None)
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from tools.classroom.graders import raised, said

    shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    steps = runpy.run_path(str(MY_GPT)) if names and MY_GPT.exists() else {}
    shell.user_ns.update({name: steps[name] for name in names if name in steps})
    reply.send_bytes(READY)
    try:
        exec(shell.compile(source, shell.compile.cache(source), "exec"), shell.user_ns)
        answer = eval(expression, shell.user_ns)
    except (Exception, SystemExit) as error:  # an answer may raise anything
        verdict = "not yet", raised(error)
    else:
        verdict = said(label, answer, seconds)[:2]
    reply.send_bytes(json.dumps(verdict).encode())
