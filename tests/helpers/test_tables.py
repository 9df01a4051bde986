"""A table of runs comes back from its file as it was."""

from helpers.tables import read_table, table


def test_a_table_comes_back_as_it_was(tmp_path):
    lines = [
        {"steps": 5, "variant": 'no "luck", ☃', "rate": 0.003, "part": "choose", "loss": 2.5},
        {"steps": 5, "variant": "the whole model", "rate": 1.0, "part": "report", "loss": 1e-5},
    ]
    path = tmp_path / "table.csv"
    path.write_text(table(lines, ["made by a test", "of # two"]), "utf-8", newline="")
    assert read_table(path) == (["made by a test", "of # two"], lines)
