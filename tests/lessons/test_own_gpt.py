"""Somebody solves every step; the lessons run on their file, which learns and writes."""

import ast
import copy
import re

import nbformat
import papermill
import pytest
from exercise_answers import ASKED, NOTEBOOKS
from notebook_file import BY_NAME, cells

from exercises.yours import BY_LABEL, STEPS
from tools.lessons import solution_of

PAGE = NOTEBOOKS / "solutions" / "my_gpt.py"
# What an answer needs besides, from the same file.
ALSO = {
    "6g": ["my_heads"],
    "7b": ["MyNorm"],
}
WITH_CACHE = ["MyHeads", "MyNorm", "MyBlock", "MyGPT", "draw", "my_fast_write"]
SAYS = {  # what a notebook says at its end, and somewhere in its lesson, once the steps are solved
    "01_dot_product_scores": ["with your scores, 100%"],
    "02_softmax_weights": ["drawn with your scores", "with your contexts"],
    "02b_learning": ["With your contexts, 100%"],
    "03_query_key_value": ["drawn with your contexts", "with your layer, 100%"],
    "04_causal_mask": ["with your layer: loss 2."],
    "05_dropout": ["run on your attention", "with your layer 0."],
    "06_multi_head": ["run on your attention", "with your layer: one head"],
    "07_transformer_block": ["your GPT: "],
    "08_nanogpt_shakespeare": ["run on your attention", "your GPT: ", "a page to show"],
    "09_sampling": [f"{len(STEPS)} of {len(STEPS)} steps"],
}


def definitions(path, names):
    source = path.read_text(encoding="utf-8")
    lines, found = source.splitlines(), {}
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found[node.name] = "\n".join(lines[first - 1 : node.end_lineno])
    return "\n\n\n".join(found[name] for name in names)


def answer(label):
    """What a reader would write into the cell of this step."""
    _, name = ASKED[label]
    if label == "9i":
        return f"{definitions(PAGE, WITH_CACHE)}\n\n\nmy_pair = (MyGPT, my_fast_write)"
    return definitions(solution_of(label), [*ALSO.get(label, []), name])


def with_all_steps_solved(notebook):
    notebook = copy.deepcopy(notebook)
    for cell in cells(notebook):
        if (found := re.search(r'^exercises\.check\("(\w+)", \w+\)$', cell.source, re.M)) and found[1] in BY_LABEL:
            start = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"
            cell.source = f"{start}{answer(found[1])}\n\n\n{found[0]}"
    return notebook


@pytest.mark.parametrize("name", [name for name in SAYS if name[:2] < "08"])
def test_what_a_notebook_ends_with_asserts_nothing_of_the_reader_s_part(name):
    """Theirs may be right and learn less well; the lesson goes on all the same."""
    ends = [cell.source for cell in cells(BY_NAME[name]) if cell.id.startswith("yours-")]
    told = [line for source in ends for line in source.splitlines() if line.startswith("assert ")]
    assert told and all('whose == "your" or ' in line for line in told)


@pytest.mark.weekly
def test_the_lessons_run_on_the_file_of_a_reader_who_solves_every_step(tmp_path, monkeypatch):
    file = tmp_path / "mine" / "my_gpt.py"
    monkeypatch.setenv("MY_GPT", str(file))
    for name, told in SAYS.items():
        nbformat.write(with_all_steps_solved(BY_NAME[name]), tmp_path / "in.ipynb")
        parameters = {"out_dir": str(tmp_path / "run")} if name.startswith("08") else {}
        papermill.execute_notebook(
            tmp_path / "in.ipynb",
            tmp_path / f"{name}.ipynb",
            parameters,
            kernel_name="python3",
            progress_bar=False,
            cwd=NOTEBOOKS,
        )
        notebook = nbformat.read(tmp_path / f"{name}.ipynb", as_version=4)
        printed = "".join(out.get("text", "") for cell in cells(notebook) for out in cell.outputs)
        assert [words for words in told if words not in printed] == [], name
        assert "so here is what ours does" not in printed and "not kept" not in printed, name
    page = file.with_suffix(".html").read_text(encoding="utf-8")
    assert "I built a GPT" in page and 'src="data:image/png;base64,' in page
