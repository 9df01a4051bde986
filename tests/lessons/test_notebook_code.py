"""Short cuts past the ledger, and assertions that assert nothing: each must be noticed in a notebook's syntax tree."""

import ast
import copy

import pytest
from nbformat.v4 import new_code_cell, new_notebook
from notebook_code import BY_NAME, LESSONS, cells, objections, proofs

from helpers import ledger

SCORES = ledger.row("raschka-3.3.1-scores")
LITERAL = str(SCORES["printed"])
HONEST = 'ledger.check("raschka-3.3.1-scores", scores)'
SHAPE = ledger.row("raschka-listing-3.3-shape")
AVERAGE = ledger.row("karpathy-softmax-lower")


def objections_to(*sources, row=SCORES, settings="corpus_path = None"):
    start = "import torch\nfrom helpers.grading import checks\nfrom helpers.world import corpus, ledger\n"
    start += 'corpus = corpus.load_corpus(corpus_path)\ninputs = ledger.inputs("journey")\nscores = inputs @ inputs[1]'
    notebook = new_notebook(cells=[new_code_cell(source) for source in (settings, start, *sources)])
    notebook.cells[0].metadata["tags"] = ["parameters"]
    return objections(notebook, [row])


TRICKS = {
    "no call": "print(scores)",
    "a literal list": f'ledger.check("raschka-3.3.1-scores", {LITERAL})',
    "a tensor of literals": f'ledger.check("raschka-3.3.1-scores", torch.tensor({LITERAL}))',
    "a name for a literal": f'ours = {LITERAL}\nledger.check("raschka-3.3.1-scores", ours)',
    "a computed name that is bound again": f"scores = torch.tensor({LITERAL})\n{HONEST}",
    "bound again in a branch": f"if len(inputs) == 6:\n    scores = torch.tensor({LITERAL})\n{HONEST}",
    "filled with a literal": f"scores[:] = torch.tensor({LITERAL})\n{HONEST}",
    "copied into": f"scores.copy_(torch.tensor({LITERAL}))\n{HONEST}",
    "a literal times 1.0": f'ledger.check("raschka-3.3.1-scores", torch.tensor({LITERAL}) * 1.0)',
    "a literal through a computation": f'ledger.check("raschka-3.3.1-scores", torch.tensor([{LITERAL}]).mean(dim=0))',
    "a literal plus a computed nothing": f"scores = torch.tensor({LITERAL}) + 0 * scores\n{HONEST}",
    "numbers in a text": 'texts = "0.9544 1.4950 1.4754 0.8434 0.7070 1.0865".split()\n'
    'ledger.check("raschka-3.3.1-scores", torch.tensor([float(text) for text in texts]).relu())',
    "whole numbers, divided": 'ledger.check("raschka-3.3.1-scores", '
    "torch.tensor([9544, 14950, 14754, 8434, 7070, 10865]).div(10_000))",
    "a function that returns a literal": f"def f():\n    return {LITERAL}\n\n\n"
    f'ledger.check("raschka-3.3.1-scores", f())',
    "a lambda that returns a literal": f'f = lambda x: {LITERAL}\nledger.check("raschka-3.3.1-scores", f(scores))',
    "an attribute of a class": f'class A:\n    x = {LITERAL}\n\n\nledger.check("raschka-3.3.1-scores", A.x)',
    "a literal among the settings": (f"ours = {LITERAL}", 'ledger.check("raschka-3.3.1-scores", ours)'),
    "a literal as the other choice": f'ledger.check("raschka-3.3.1-scores", {LITERAL} if len(scores) else scores)',
    "the ledger's own row": 'ledger.check("raschka-3.3.1-scores", ledger.row("raschka-3.3.1-scores")["printed"])',
    "the ledger's own row, later": 'row = ledger.row("raschka-3.3.1-scores")\n'
    'ours = torch.tensor(row["printed"]).round(decimals=4)\nledger.check("raschka-3.3.1-scores", ours)',
    "all rows": 'ledger.check("raschka-3.3.1-scores", [r["printed"] for r in ledger.rows()][0])',
    "a row within a function": 'def f():\n    return torch.tensor(ledger.rows()[0]["printed"]).relu()\n\n\n'
    'ledger.check("raschka-3.3.1-scores", f())',
    "an alias of the ledger": f"L = ledger\n{HONEST}",
    "an alias of the check": f"check = ledger.check\n{HONEST}",
    "another name at the import": f"from helpers.world import ledger as book\n{HONEST}",
    "the check by itself": f"from helpers.ledger import check\n{HONEST}",
    "a parent of the ledger": f"from helpers import world\n{HONEST}",
    "what imports it": f"from importlib.util import find_spec\n{HONEST}",
    "the module around it": f"import helpers.ledger\n{HONEST}",
    "its private parts": f"ledger._ledger()\n{HONEST}",
    "its file": f'text = open("../helpers/ledger.toml").read()\n{HONEST}',
    "another check": f"ledger.check = lambda *_: None\n{HONEST}",
    "another check, by setattr": f'setattr(ledger, "check", print)\n{HONEST}',
    "another ledger": f"class ledger:\n    check = print\n\n\n{HONEST}",
    "another ledger in a loop": f"for ledger in [checks]:\n    {HONEST}",
    "other checks": f"checks.equal = print\n{HONEST}",
    "exec": f"exec('ledger = None')\n{HONEST}",
    "if False": f"if False:\n    {HONEST}",
    "if 0": f"if 0:\n    {HONEST}",
    "if not True": f"if not True:\n    {HONEST}",
    "if a name that is False": f"wanted = False\nif wanted:\n    {HONEST}",
    "if something and False": f"if len(scores) and False:\n    {HONEST}",
    "the else of if True": f"if True:\n    pass\nelse:\n    {HONEST}",
    "while False": f"while False:\n    {HONEST}",
    "for nothing": f"for _ in []:\n    {HONEST}",
    "after break": f"for _ in scores:\n    break\n    {HONEST}",
    "commented out": f"# {HONEST}",
    "in a text": f"'''{HONEST}'''",
    "in a function that nobody calls": f"def f():\n    {HONEST}",
    "in a lambda": f"f = lambda: {HONEST}",
    "in a class": f"class A:\n    {HONEST}",
    "in try": f"try:\n    {HONEST}\nexcept AssertionError:\n    pass",
    "in suppress": f"import contextlib\n\nwith contextlib.suppress(AssertionError):\n    {HONEST}",
    "after or": f"True or {HONEST}",
    "as a value": f"_ = {HONEST}",
    "a printed line": 'print("reproduced: raschka-3.3.1-scores (Raschka, 6 numbers)")',
    "a cell magic": f"%%script false\n{HONEST}",
    "another row": 'ledger.check("raschka-3.3.2-all-scores", scores)',
    "an id that is put together": 'id = "raschka-3.3.1-" + "scores"\nledger.check(id, scores)',
    "nothing to check": 'ledger.check("raschka-3.3.1-scores")',
}


def test_an_honest_call_passes():
    assert objections_to(HONEST) == []
    assert objections_to(f"if len(scores) == 6:\n    {HONEST}\nelse:\n    print('another length')") == []
    assert objections_to(f"for scores in [inputs @ inputs[1]]:\n    {HONEST}") == []


@pytest.mark.parametrize("sources", TRICKS.values(), ids=TRICKS)
def test_a_trick_is_refused(sources):
    settings, source = sources if isinstance(sources, tuple) else ("corpus_path = None", sources)
    assert objections_to(source, settings=settings)


@pytest.mark.parametrize(
    ("row", "source"),
    [
        (SHAPE, 'ledger.check("raschka-listing-3.3-shape", [2, 6, 2])'),
        (SHAPE, 'ledger.check("raschka-listing-3.3-shape", torch.zeros(2, 6, 2).shape)'),
        (SHAPE, 'ledger.check("raschka-listing-3.3-shape", tuple(int(n) for n in "262"))'),
        (ledger.row("raschka-3.5.2-dropout-ones"),
         'ledger.check("raschka-3.5.2-dropout-ones", ledger.inputs("dropout_draw").float())'),
        (AVERAGE, 'ledger.erratum("karpathy-softmax-lower", printed=scores[None, :4], correct=torch.eye(4)[:1])'),
        (AVERAGE, 'ledger.check("karpathy-softmax-lower", scores[None, :4])'),
        (ledger.row("karpathy-vocabulary"),
         'ledger.check("karpathy-vocabulary", scores.topk(4).values, corpus="another text")'),
        (ledger.row("karpathy-vocabulary"), 'ledger.check("karpathy-vocabulary", scores.topk(4).values)'),
    ],
)  # fmt: skip
def test_a_trick_with_small_numbers_with_errata_or_with_the_corpus_is_refused(row, source):
    assert objections_to(source, row=row)


each = pytest.mark.parametrize("name", LESSONS)


@each
def test_every_row_and_every_assertion_of_a_notebook_rests_on_something_computed(name):
    assert objections(BY_NAME[name], [row for row in ledger.rows() if row["notebook"] == name]) == []


EMPTY = [
    "assert True", "assert 1", 'assert "the scores agree"', 'assert (scores.sum() == 5, "the sum")', "assert [scores]",
    "assert scores is scores", "assert scores[0] == scores[0]", "assert scores.sum() > 5 or True", "assert 1 + 1 == 2",
    "right = True\nassert right", "assert not False", "assert torch.equal(scores, scores)", "assert (lambda: scores)",
    "checks.close(scores, scores)", 'assert f"{scores}"',
]  # fmt: skip


@pytest.mark.parametrize("source", EMPTY)
def test_an_assertion_that_cannot_fail_is_refused(source):
    assert objections_to(HONEST, source) != []


class True_(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.parse("assert True").body[0]


@each
def test_each_assertion_that_is_replaced_by_true_is_noticed(name):
    notebook, rows = copy.deepcopy(BY_NAME[name]), [row for row in ledger.rows() if row["notebook"] == name]
    count = 0
    for cell in cells(notebook):
        count += sum(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(cell.source)))
        cell.source = ast.unparse(True_().visit(ast.parse(cell.source)))
    assert len([text for text in objections(notebook, rows) if "assert True" in text]) == count > 0


# How much is asserted, checked and reproduced in each notebook, the exercises left out. Fewer needs a reason.
PROOFS = {
    "00_why_attention": 16,
    "01_dot_product_scores": 37,
    "02_softmax_weights": 42,
    "03_query_key_value": 50,
    "04_causal_mask": 63,
    "05_dropout": 52,
    "06_multi_head": 44,
    "07_transformer_block": 44,
    "08_nanogpt_shakespeare": 43,
    "09_sampling": 36,
    "10_what_matters": 13,
    "11_museum_of_bugs": 20,
    "12_todays_models": 20,
    "13_speedrun": 20,
    "14_scaling_out": 20,
}


@each
def test_no_proof_is_taken_away(name):
    assert proofs(BY_NAME[name]) >= PROOFS[name]
