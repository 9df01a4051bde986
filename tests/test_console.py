from helpers import console


def test_table():
    text = console.table(["part", "parameters"], [("head", 8320), ("all", 804096)])
    assert text.splitlines() == ["part  parameters", "head       8,320", "all      804,096"]


def test_a_column_is_a_column_whatever_stands_in_it():
    text = console.table(["", "loss", "x"], [("a", 1.25, ""), ("longer", 10, "yes")])
    assert text.splitlines() == ["        loss  x", "a       1.25", "longer    10  yes"]
    assert console.table(["name", "value"], []) == "name  value"
