"""A table of runs comes back from its file as it was."""

from helpers.tables import column, csv_table, read_table, row, spread, table


def test_a_table_comes_back_as_it_was(tmp_path):
    lines = [
        {"steps": 5, "variant": 'no "luck", ☃', "rate": 0.003, "part": "choose", "loss": 2.5},
        {"steps": 5, "variant": "the whole model", "rate": 1.0, "part": "report", "loss": 1e-5},
    ]
    path = tmp_path / "table.csv"
    path.write_text(csv_table(lines, ["made by a test", "of # two"]), "utf-8", newline="")
    assert read_table(path) == (["made by a test", "of # two"], lines)


def test_columns():
    text = table(["part", "parameters"], [("head", 8320), ("all", 804096)])
    assert text.splitlines() == ["part  parameters", "head       8,320", "all      804,096"]


def test_a_column_is_a_column_whatever_stands_in_it():
    text = table(["", "loss", "x"], [("a", 1.25, ""), ("longer", 10, "yes")])
    assert text.splitlines() == ["        loss  x", "a       1.25", "longer    10  yes"]
    assert table(["name", "value"], []) == "name  value"


def test_a_row_has_one_form():
    assert row([0.5, 1]) == "0.50 1.00" and row(["a", "bc"], ">3") == "  a  bc"


def test_a_column_is_of_the_lines_with_these_settings():
    lines = [{"rate": rate, "seed": seed, "loss": 10 * rate + seed} for rate in (1, 2) for seed in (0, 1)]
    assert column(lines, "loss", rate=2) == [20, 21] and column(lines, "seed", rate=3) == []


def test_a_mean_stands_before_its_range():
    assert spread([0.4, 0.6, 0.2], ".0%", " right") == "40% right (20% to 60%)"
