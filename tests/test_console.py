from helpers import console


def test_table():
    text = console.table(["part", "parameters"], [("head", 8320), ("all", 804096)])
    assert text.splitlines() == ["part  parameters", "head       8,320", "all      804,096"]
