"""Where an answer lives: a process that defines it and says what it gives, until it is stopped.

It reads messages from its first input and writes to its first output; an answer finds neither, and what it prints goes
nowhere. An exercise whose inputs are functions or models, or that asks for a class, is judged in here, beside the
answer; before such a verdict leaves, it is tried whether the checks still refuse what is wrong.
"""

import linecache
import os
import resource
import struct
import sys
import types
import warnings
from typing import Any, BinaryIO

import torch

from exercises import compare, judge, questions
from exercises.limit import TooLongError, at_most
from tools.classroom import plain

MEGABYTE = 2**20
BENEATH = ("torch", "torch.functional", "torch.nn.functional", "builtins", "math")  # what graders compare with


def main() -> None:
    reading, writing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    torch.set_num_threads(1)
    questions.exercises()
    send(writing, {"ready": True})
    limits = receive(reading)
    if limits["learns"]:
        torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # the first takes seconds, which are no answer's
    answer: Any = None
    sound = checks()
    set_limits(limits)
    send(writing, {"ready": True})
    while True:
        request = receive(reading)
        try:
            if "source" in request:
                answer, reply = defined(**request)
            elif "inputs" in request:
                reply = asked(answer, **request)
            else:
                reply = judged(answer, sound, **request)
        except TooLongError:
            reply = {"late": True}
        send(writing, reply)


def set_limits(limits: dict[str, Any]) -> None:
    """From here on: so much memory more than PyTorch takes, so large files, so many processes, no core dump."""
    with open("/proc/self/statm", "rb") if os.path.exists("/proc/self/statm") else open(os.devnull, "rb") as file:
        pages = file.read().split()
    now = int(pages[0]) * resource.getpagesize() if pages else 0
    wanted = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": limits["file"] * MEGABYTE, "RLIMIT_CPU": limits["seconds"]}
    if now:
        wanted["RLIMIT_AS"] = now + limits["memory"] * MEGABYTE
    if limits["processes"]:
        wanted["RLIMIT_NPROC"] = limits["processes"]
    for name, most in wanted.items():
        resource.setrlimit(getattr(resource, name), (most, most))


# ---------------------------------------------------------------- what is asked of it
def defined(source: str, name: str, seconds: float) -> tuple[Any, dict[str, Any]]:
    """The answer, and what it is: a function, a value, or a fault."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    linecache.cache["<answer>"] = (len(source), None, source.splitlines(keepends=True), "<answer>")
    try:
        with at_most(seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(source, "<answer>", "exec"), vars(module))
        answer = getattr(module, name)
    except (Exception, SystemExit) as error:  # a learner's code may raise anything
        return None, {"fault": judge.raised(error)}
    if callable(answer):
        return answer, {"callable": True}
    return answer, {"value": answer if can_be_sent(answer) else compare.kind(answer)}


def can_be_sent(value: Any) -> bool:
    try:
        plain.pack(value)
    except plain.NotPlainError:
        return False
    return True


def asked(answer: Any, inputs: tuple[Any, ...], dice: torch.Tensor, seconds: float) -> dict[str, Any]:
    """What the answer gives for these inputs."""
    torch.set_rng_state(dice)
    with at_most(seconds), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = judge.ask(answer, *inputs)
    reply = {"value": given.value, "inputs": given.inputs, "fault": given.fault, "changed": given.changed_input}
    if not can_be_sent(reply):
        fault = f"it returns {compare.kind(given.value)}, which is no number and no tensor"
        reply |= {"value": None, "fault": given.fault or fault}
    return reply


def judged(answer: Any, sound: dict[tuple[str, ...], Any], label: str, seconds: float) -> dict[str, Any]:
    """The verdict of the grader, asked in here; nothing is right for checks that are not what they were."""
    said = questions.said(label, answer, seconds)
    if said == judge.RIGHT:
        now = checks()
        changed = any(now.get(name) is not value for name, value in sound.items())
        if changed or judge.RIGHT in (questions.said(label, wrong, seconds) for wrong in (..., nothing)):
            said = judge.Verdict("not yet", "it changes what it is checked with")
    return {"word": said.word, "why": said.why}


def nothing(*_: Any) -> None:
    """No answer to anything."""
    raise NotImplementedError


def checks() -> dict[tuple[str, ...], Any]:
    """All that the graders are made of: functions with their code, classes and dictionaries with what is in them."""
    found: dict[tuple[str, ...], Any] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("helpers.") or name in BENEATH:
            for key, value in vars(module).items():
                found[name, key] = value
                if isinstance(value, types.FunctionType):
                    found[name, key, "code"] = value.__code__
                elif isinstance(value, dict | type) and key[:2] != "__":
                    inside = value if isinstance(value, dict) else vars(value)
                    found |= {(name, key, str(each)): part for each, part in inside.items()}
    return found


# ---------------------------------------------------------------- messages
def send(to: BinaryIO, value: Any) -> None:
    data = plain.pack(value)
    to.write(struct.pack("<Q", len(data)) + data)
    to.flush()


def receive(source: BinaryIO) -> Any:
    head = source.read(8)
    if len(head) < 8:  # whoever asks is gone
        os._exit(0)
    return plain.unpack(source.read(struct.unpack("<Q", head)[0]))


if __name__ == "__main__":
    main()
