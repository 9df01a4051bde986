"""python -m helpers.sampling: which run writes, what it writes, and what is refused."""

import pytest


@pytest.fixture
def trained(training, runs):
    """Two finished runs, and the name of the better one."""
    training("--preset", "smoke", "--sample-length", 5, "--out", runs / "worse", "--max-steps", 1)
    training("--preset", "speedrun", "--sample-length", 5, "--out", runs / "better")
    return runs


@pytest.mark.slow
def test_the_best_finished_run_writes_and_is_named(trained, sampling):
    status, printed, said = sampling("--length", 30)
    assert status == 0 and len(printed) == 31
    assert said.startswith("writing with better, validation loss ") and said.count("\n") == 1
    assert said.endswith(": the best of 2 finished runs on your own text\n")
    assert sampling("--length", 30, "--run", trained / "better") == (0, printed, "")


@pytest.mark.slow
def test_a_run_that_is_named_writes_and_nothing_is_said(trained, sampling):
    status, printed, said = sampling("--run", trained / "worse", "--length", 30)
    assert status == 0 and not said and printed != sampling("--length", 30)[1]


@pytest.mark.slow
def test_two_samples_of_one_seed_are_two_texts_and_the_same_again(trained, sampling):
    _, printed, _ = sampling("--length", 20, "--num-samples", 2, "--prompt", "R")
    first, second = printed.split("---- 2 of 2 ----\n")
    assert first.startswith("---- 1 of 2 ----\nR") and second.startswith("R") and first[17:] != second
    assert sampling("--length", 20, "--num-samples", 2, "--prompt", "R")[1] == printed


def test_without_a_run_it_says_what_to_do(sampling, runs):
    status, printed, said = sampling()
    assert status == 2 and not printed
    assert said == f"error: no finished run in {runs}: train first, or name a folder by --run\n"


BAD = {
    ("--run", ""): "--run must name a folder",
    ("--run", 2_000 * "x/"): "no run may lie so deep",
    ("--run", "\x1b[31mred"): "no checkpoint at",
    ("--prompt", ""): "the prompt is empty",
    ("--length", "-1"): "length",
    ("--num-samples", "0"): "num_samples",
    ("--top-k", "0"): "top_k",
    ("--top-p", "nan"): "top_p",
    ("--length", "many"): "--length: invalid int value",
}


@pytest.mark.slow
def test_a_bad_option_gets_one_sentence(trained, sampling):
    for options, sentence in BAD.items():
        status, printed, said = sampling(*options)
        said = said.splitlines()[-1]
        assert status == 2 and not printed and said.startswith("error: ") and sentence in said, options
        assert "\x1b" not in said and len(said) < 400, options
