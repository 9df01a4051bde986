"""The pages that are written by hand: their links, their numbers, their pictures."""

import re

import nbformat
import pytest
from PIL import Image, ImageSequence

from exercises.judge import every
from exercises.yours import STEPS
from helpers import ROOT
from helpers.tables import MEASURED, read_table
from tools import surprise
from tools.lessons import readme, readme_path

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("notebooks/*.md")]))
def test_links_of_the_pages_lead_to_files(page):
    addresses = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert all("://" in address or (page.parent / address).exists() for address in addresses)


def test_contributing_names_every_module():
    named = set(re.findall(r"`([\w/]+\*?)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    for house in ("helpers", "helpers/rooms", "pictures", "exercises", "tools"):
        for module in (ROOT / house).glob("[a-z]*.py"):
            name = module.stem
            in_a_row = re.fullmatch(r"n\d\d", name) or (name.startswith("museum_") and "museum_*" in named)
            assert name in named or in_a_row, module


def test_the_readme_counts_the_steps_of_the_reader_s_gpt():
    assert len(STEPS) == 17 and "You write it in seventeen exercises, piece by piece" in README


def test_the_readme_says_how_long_the_path_is_and_how_many_exercises_a_lesson_has():
    path = README.partition("## The path")[2].partition("Afterwards")[0]
    assert round(sum(map(int, re.findall(r"\((\d+) min\)", path))) / 60) == 4
    assert "about four hours to read, and eight to twelve with" in path and "up to nine a lesson" in path
    counts = [
        len(re.findall(r'^ +"\*\*\d+[a-z] · ', file.read_text("utf-8"), re.M))
        for file in (ROOT / "notebooks").glob("[0-9]*.ipynb")
    ]
    assert max(counts) == 9


def test_the_readme_s_surprise_is_what_was_measured():
    runs = read_table(MEASURED / "thin_book.csv")[1]
    picture = (ROOT / "docs" / "surprise.svg").read_text(encoding="utf-8")
    assert picture == surprise.draw(runs)
    title = re.search("<title>(.*)</title>", picture)[1]
    assert f"![{title}](docs/surprise.svg)" in README
    known_by_heart = surprise.shares(runs, "nothing", 0.0)["own_without"]
    assert f"and {known_by_heart:.0%} were still right" in README


def test_the_moving_picture_is_small_and_described_by_its_tool():
    for name in ("learning", "learning-dark"):
        assert (ROOT / "docs" / f"{name}.gif").stat().st_size < 1e6 and f"docs/{name}.gif" in README
    assert re.search(r'<img src="docs/learning\.gif" alt="Over 6,000 updates, what a GPT writes.{80,}">', README)
    with Image.open(ROOT / "docs" / "learning.gif") as picture:
        times = [frame.info["duration"] for frame in ImageSequence.Iterator(picture)]
    assert len([time for time in times if time >= 2500]) == 5  # each stage can be read


def test_what_the_page_of_use_says_of_counting_is_what_was_measured():
    stored = (ROOT / "notebooks" / "measured" / "counted.txt").read_text(encoding="utf-8")
    losses = [float(loss) for loss in re.findall(r"^# seed \d+: loss ([\d.]+) after", stored, re.M)]
    use = (ROOT / "docs" / "use.md").read_text("utf-8")
    assert len(losses) == 3
    assert f"| {sum(losses) / 3:.3f}, in about three minutes on two cores;" in use


def test_the_readme_s_lessons_and_counts_are_those_of_the_notebooks():
    assert readme(README) == README and readme_path()["path"] in README
    assert re.search(r"except for \d+ of \d+ whose outputs", README)


def test_the_page_on_teaching_names_exercises_that_exist():
    text = (ROOT / "docs" / "teaching.md").read_text("utf-8")
    named = set(re.findall(r"\b\d{1,2}[a-i](?=[◆,;.)])", text))
    assert len(named) > 15 and named <= set(every())


def test_a_week_s_steps_take_as_long_as_the_exercises_say():
    teaching = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
    cells = [
        cell.source
        for path in (ROOT / "notebooks").glob("[0-9]*.ipynb")
        for cell in nbformat.read(path, as_version=4).cells
    ]
    minutes = dict(re.findall(r"^\*\*(\d+[a-z]) · .+?\*\* ◆ \(.+?(\d+) minutes\)", "\n".join(cells), re.M))
    weeks = [re.findall(r"(\d+[a-z])◆", row.split("|")[4]) for row in re.findall(r"^\| \d · .+$", teaching, re.M)]
    said = re.search(r"come to (.+?) minutes \(6\)", teaching)[1] + " (6)"
    assert re.findall(r"(\d+) \((?:session )?\d\)", said) == [str(sum(int(minutes[k]) for k in week)) for week in weeks]
