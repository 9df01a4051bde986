"""The reader's own GPT: one file that grows with every step that is solved, and runs without this project.

An answer is kept with all that it uses, and only if the file is right afterwards: the new step, read back from it, and
every earlier one that stands on what has changed. What steps used, and nothing uses any more, goes; what no step has
ever used was written by the reader, and stays.
"""

import ast
import os
import re
import types
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import filelock

from exercises import judge
from exercises.limit import TooLongError, at_most
from exercises.questions import said
from exercises.source import defined_in, imports_of, names_used, source_of, written
from exercises.steps import LABELS, NAMES, STEPS, Step, grown_into
from helpers import errors
from helpers.errors import ConfigError, RunError, shown

PLACE = Path(__file__).parents[1] / "mine" / "my_gpt.py"
MODULE = "mine.my_gpt"  # what its definitions say where they come from
PATIENCE = 10.0  # seconds, for another notebook that is keeping a step
_off = False
SECONDS = 10.0  # for a step that is judged again
ABOUT = '"""My GPT. I built it step by step with the notebooks of From dot products to nanoGPT.\n\nSolved: {}.\n"""'
HEADINGS = {f"# {step.label} · {step.title}": step.label for step in STEPS}
PROGRAM = """
if __name__ == "__main__":
    import sys

    def program(path):
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except (OSError, ValueError) as error:
            raise SystemExit(f"can't read {path}: {error}")
        if len(text) < 1000:
            raise SystemExit(f"{path} is too short to learn from: it should have 1,000 characters at least")
        letters = sorted(set(text))
        number = {letter: i for i, letter in enumerate(letters)}
        tokens = torch.tensor([number[letter] for letter in text])

        def report(step, loss):
            if step % 100 == 0:
                print(f"step {step:5,}  loss {loss:.3f}", flush=True)

        torch.manual_seed(1)
        gpt = MyGPT(len(letters), context_length=64, n_layer=4, n_head=4, n_embd=128)
        my_train(gpt, tokens, 2000, 12, report)
        written = my_write(gpt, tokens[:1], 500, 0.8, 0.95)
        print("".join(letters[i] for i in written.tolist()))

    if len(sys.argv) != 2:
        raise SystemExit("name a text file to learn from: python my_gpt.py corpus.txt")
    program(sys.argv[1])
""".strip()


# ---------------------------------------------------------------- where it is
def called(path: Path) -> str:
    """The file as a message names it."""
    return "mine/my_gpt.py" if path == PLACE else shown(path)


def place() -> Path | None:
    """The reader's file, or None where nobody reads: papermill, nbval and CI know nothing of it.

    The variable MY_GPT names another file, which is then used by whoever runs a notebook.
    """
    if _off:
        return None
    if named := os.environ.get("MY_GPT"):
        return Path(named)
    return PLACE if somebody_is_there() else None


def leave_alone() -> None:
    """Neither read nor write the file from now on: solutions are ours, and should not become the reader's."""
    global _off
    _off = True


def somebody_is_there() -> bool:
    """Does a person run this notebook? A front end with a person before it can be asked for input, others can't."""
    return bool(getattr(getattr(shell(), "kernel", None), "_allow_stdin", False))


def shell() -> Any:
    """IPython's shell, if this code runs in one."""
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return None
    return get_ipython()


# ---------------------------------------------------------------- what is in it
@dataclass
class Grown:
    """What the file holds: the labels that are solved, and definitions by their names, in order."""

    solved: list[str] = field(default_factory=list)
    imports: set[str] = field(default_factory=set)
    parts: dict[str, str] = field(default_factory=dict)
    owner: dict[str, str] = field(default_factory=dict)  # the step that a part belongs to
    others: list[str] = field(default_factory=list)  # what else the reader has written into it
    program: str = ""

    @property
    def progress(self) -> str:
        lines = str(self).count("\n")
        return f"{len(self.solved)} of {len(STEPS)} steps, {lines} lines"

    def answer(self, step: Step, module: types.ModuleType) -> Any:
        """What the step asks for, from the file."""
        found = tuple(getattr(module, name) for name in step.answer)
        return found if len(found) > 1 else found[0]

    def has(self, step: Step) -> bool:
        return step.label in self.solved and all(name in self.parts for name in step.answer)

    def users(self, names: set[str]) -> set[str]:
        """All parts that use one of these, directly or not."""
        uses = {name: names_used(source) for name, source in self.parts.items()}
        found = set(names)
        while more := {name for name in uses if name not in found and uses[name] & found}:
            found |= more
        return found

    def used_by(self, sources: Iterable[str]) -> set[str]:
        """All names that these pieces of source use, directly or through other parts."""
        found: set[str] = set()
        waiting = list(sources)
        while waiting:
            new = names_used(waiting.pop()) - found
            waiting += [self.parts[name] for name in new if name in self.parts]
            found |= new
        return found

    def __str__(self) -> str:
        """The file: what is used comes before what uses it."""
        ordered: list[str] = []

        def place_in_order(name: str, above: tuple[str, ...] = ()) -> None:
            if name in ordered or name in above:
                return
            for used in self.parts:
                if used in names_used(self.parts[name]):
                    place_in_order(used, (*above, name))
            ordered.append(name)

        for name in self.parts:
            place_in_order(name)
        plain = sorted(line for line in self.imports if line.startswith("import "))
        blocks = [ABOUT.format(", ".join(self.solved) or "nothing yet")]
        blocks.append("\n".join([*plain, *sorted(self.imports - set(plain))]))
        titles = {label: heading for heading, label in HEADINGS.items()}
        last = ""
        for name in ordered:
            label = self.owner.get(name, "")
            heading = f"{titles[label]}\n" if label and label != last else ""
            blocks.append(f"\n{heading}{self.parts[name]}")
            last = label or last
        blocks += [f"\n{other}" for other in self.others]
        if self.program:
            blocks.append(f"\n{self.program}")
        return "\n\n".join(block for block in blocks if block) + "\n"


def parsed(text: str) -> Grown:
    """What a file holds. SyntaxError if it is no Python."""
    grown = Grown()
    tree = ast.parse(text)
    lines = text.splitlines()
    if found := re.search(r"^Solved: (.+)\.$", ast.get_docstring(tree) or "", re.M):
        grown.solved = [label for label in LABELS if label in found[1].split(", ")]
    grown.imports = {statement for _, _, statement in imports_of(tree)}
    end, label = 0, ""
    for node in tree.body:
        before = lines[end : node.lineno - 1]  # comments, one of which may be a heading
        end = node.end_lineno or node.lineno
        label = next((HEADINGS[line] for line in reversed(before) if line in HEADINGS), label)
        comments = [line for line in before if line.startswith("#") and line not in HEADINGS]
        source = "\n".join([*comments, written(node, text)])
        if isinstance(node, (ast.Import, ast.ImportFrom)) or (node is tree.body[0] and isinstance(node, ast.Expr)):
            continue
        name = defined_in(node)
        if name:
            source = f"{grown.parts[name]}\n\n\n{source}" if name in grown.parts else source
            grown.parts[name], grown.owner[name] = source, label
        elif isinstance(node, ast.If) and "__main__" in ast.unparse(node.test):
            grown.program = source
        else:
            grown.others.append(source)
    return grown


def read(path: Path) -> Grown:
    """What the reader's file holds, nothing if there is none; ConfigError when it can't be read."""
    try:
        return parsed(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return Grown()
    except SyntaxError as error:
        raise ConfigError(
            f"{called(path)}, line {error.lineno}, is no Python ({error.msg}): mend or delete it"
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{called(path)} can't be read ({error}): mend or delete it") from None


def loaded(text: str, path: Path) -> types.ModuleType:
    """The file as a module. ConfigError when it doesn't run."""
    module = types.ModuleType(MODULE)
    module.__file__ = str(path)
    try:
        with at_most(SECONDS):
            exec(compile(text, str(path), "exec"), vars(module))  # it is the reader's own
    except TooLongError:
        raise ConfigError(f"{called(path)} doesn't come to its end when it is read") from None
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{called(path)} doesn't run: {judge.raised(error)}") from None
    return module


# ---------------------------------------------------------------- a step is kept
def keep(step: Step, answer: Any) -> str:
    """Put the answer to a step into the reader's file; what happened, in a few words, "" where nobody reads.

    The file stays as it was when the answer can't stand alone, or when an earlier step would be wrong with it.
    """
    path = place()
    if path is None:
        return ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(path.with_name(f".{path.name}.lock"), timeout=PATIENCE):
            grown = _with(read(path), step, answer)
            text = str(grown)
            _prove(grown, step, loaded(text, path))
            errors.write(path, text)
            if path.read_text(encoding="utf-8") != text:
                raise ConfigError(f"{called(path)} holds something else than was written into it")
    except filelock.Timeout:
        return f"not kept: another notebook has been writing into {called(path)} for {PATIENCE:g} seconds"
    except (ConfigError, RunError) as error:
        return f"not kept: {error}"
    except OSError as error:
        return f"not kept: can't write {called(path)}: {error.strerror or error}"
    return f"kept in {called(path)}: {grown.progress}"


def _with(grown: Grown, step: Step, answer: Any) -> Grown:
    """The file with one more step."""
    before = grown.used_by(source for name, source in grown.parts.items() if name in NAMES)
    parts = answer if len(step.answer) > 1 else (answer,)
    for name, part in zip(step.answer, parts, strict=True):
        if getattr(part, "__module__", "") == MODULE:  # it comes from the file
            continue
        found = source_of(name, part, frozenset(grown.parts))
        grown.imports |= found.imports
        for each, source in found.parts.items():
            if grown.parts.get(each) != source:
                grown.parts[each], grown.owner[each] = source, step.label
    done = grown_into(step.label)
    grown.solved = [label for label in LABELS if label in grown.solved or label in done]
    if {"MyGPT", "my_train", "my_write"} <= set(grown.parts) and grown.program in ("", PROGRAM):
        grown.program = PROGRAM.replace("my_write(", "my_fast_write(") if "9i" in grown.solved else PROGRAM
    outgrown = {name for label in done - {step.label} for name in STEPS[LABELS.index(label)].answer} - {*step.answer}
    _tidy(grown, (before - NAMES) | outgrown)
    return grown


def _tidy(grown: Grown, names: set[str]) -> None:
    """Take those of these parts and imports away that nothing else in the file uses."""
    others = [source for name, source in grown.parts.items() if name not in names]
    unused = names - grown.used_by([*others, *grown.others, grown.program])
    grown.parts = {name: source for name, source in grown.parts.items() if name not in unused}
    bound = {name: statement for line in grown.imports for name, _, statement in imports_of(ast.parse(line))}
    grown.imports -= {bound[name] for name in unused & bound.keys()}


def _prove(grown: Grown, step: Step, module: types.ModuleType) -> None:
    """ConfigError unless this step, and each solved one that uses what it has changed, is right in the file."""
    changed = grown.users({*step.answer, *(name for name, label in grown.owner.items() if label == step.label)})
    for other in STEPS:
        if not grown.has(other) or (other is not step and not set(other.answer) & changed):
            continue
        verdict = said(other.label, grown.answer(other, module), SECONDS)
        if verdict != judge.RIGHT:
            if step.label in grown_into(other.label) and other is not step:
                raise ConfigError(f"in your file stands what it grew into, your {other.label}, which can do more")
            where = "read back from the file it is" if other is step else f"with it, your {other.label} would be"
            raise ConfigError(f"{where} {verdict}")
