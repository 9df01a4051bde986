"""What a submission may try, as answers to 1a and 4g, and what is said of them; PLACE stands for the submissions."""

ENDLESS = "is there a loop without an end?"

# name: (the answer to 1a, what the verdict must have in it)
SCORES = {
    "endless": (
        """
def my_scores(queries, keys):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
""",
        ENDLESS,
    ),
    "endless from the start": (
        "numbers = [each for each in iter(int, 1)]\n\n\ndef my_scores(queries, keys):\n    return numbers",
        ENDLESS,
    ),
    "dying": ("import os\n\n\ndef my_scores(queries, keys):\n    os._exit(0)", "it ends the process"),
    "crashing": ("import ctypes\n\n\ndef my_scores(queries, keys):\n    ctypes.string_at(0)", "it ends the process"),
    "killing": (
        """
import os


def my_scores(queries, keys):
    for number in (os.getppid(), -1, os.getpid()):
        try:
            os.kill(number, 9)
        except OSError:
            pass
    os.abort()
""",
        "it ends the process",
    ),
    "flooding": (
        """
import os


def my_scores(queries, keys):
    for number in range(3):
        for _ in range(200):
            os.write(number, bytes(2**20))
    with open("flood", "wb") as file:
        while True:
            file.write(bytes(2**20))
""",
        "it raises OSError",
    ),
    "flooding its grader": (
        """
import os


def my_scores(queries, keys):
    for number in range(3, 256):
        try:
            os.write(number, b"\\xff" * 2**20)
        except OSError:
            pass
""",
        "not yet",
    ),
    "deleting": (
        """
import os
import shutil


def my_scores(queries, keys):
    for place in ("../..", "..", ".", os.path.expanduser("~"), "PLACE"):
        shutil.rmtree(place, ignore_errors=True)
    return queries + keys
""",
        "not yet",
    ),
    "forking": (
        """
import os


def my_scores(queries, keys):
    while True:
        try:
            os.fork()
        except OSError:
            pass
""",
        "not yet",
    ),
    "eating memory": (
        "def my_scores(queries, keys):\n    kept = []\n    while True:\n        kept.append(bytearray(2**26))",
        "not yet",
    ),
    "returning too much": (
        "import torch\n\n\ndef my_scores(queries, keys):\n    return torch.zeros(1).expand(10**11)",
        "not yet",
    ),
    "calling home": (
        """
import socket


def my_scores(queries, keys):
    socket.create_connection(("192.0.2.1", 80), 3)
""",
        "it raises",
    ),
    "reading others": (
        """
import os


def my_scores(queries, keys):
    if not os.listdir("PLACE"):
        raise LookupError("there is nothing to copy")
""",
        "not yet",
    ),
    "printing right": (
        """
import exercises
from exercises import judge


def check(label, answer):
    print(f"{label}: right")


exercises.check = check
judge.verdict = lambda *_: judge.RIGHT
print("1a: right")


def my_scores(queries, keys):
    judge.verdict = lambda *_: judge.RIGHT
    print("1a: right")
    return judge.RIGHT
""",
        "not yet",
    ),
}

LAYER = """
class MyCausalAttention(nn.Module):
    {}

    def __init__(self, C, D):
        super().__init__()
        {}

    def forward(self, x):
        return x
"""
PATCHES = {
    "rewriting the judge": "from helpers.grading import judge; judge._tried = lambda *_, right=judge.RIGHT: right",
    "rewriting the question": (
        "from helpers.grading import questions; questions.said = lambda *_, right=questions.judge.RIGHT: right"
    ),
    "rewriting the trial": (
        "from helpers.grading import judge; judge.EXERCISES['4g'] = judge.Built(lambda answer: None, 'a class')"
    ),
    "rewriting PyTorch": (
        "torch.isclose = torch.Tensor.isclose = lambda a, *_, **__: torch.ones_like(a, dtype=bool); "
        "torch.equal = torch.allclose = lambda *_, **__: True"
    ),
    "rewriting the code": ("from helpers.grading import judge; judge._tried.__code__ = (lambda q, a: RIGHT).__code__"),
    "rewriting the files": (
        "from helpers.grading import judge, questions; "
        "[open(each.__file__, 'w').write('') for each in (judge, questions)]"
    ),
}
# name: the answer to 4g, as a class that does so when it is defined, or when it is made
LAYERS = {
    f"{name}, {when}": LAYER.format(*((patch, "pass") if when == "at once" else ("pass", patch)))
    for name, patch in PATCHES.items()
    for when in ("at once", "later")
}
