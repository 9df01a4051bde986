"""The JavaScript of front/: its files are joined into one scope."""

import base64
import json
import re
import shutil
import subprocess
import sys
from collections import Counter

import pytest

from pictures import host, machine, marks, plotting, sheets

FRONT_ENDS = sorted(path.stem for path in host.SOURCES.glob("*.js") if "export function mount(" in path.read_text())
NAMED = r"^(?:export )?(?:async )?(?:function|class|const|let) (?:\{([^}]*)\}|\[([^\]]*)\]|(\w+))"


def twice(source: str) -> list[str]:
    """The names that stand for two things at the top of a joined source, where JavaScript would refuse it."""
    count: Counter[str] = Counter()
    for groups in re.findall(NAMED, source, re.M):
        count.update(re.findall(r"\w+", "".join(groups)))  # one name, or those between brackets
    return [name for name, times in count.items() if times > 1]


@pytest.mark.parametrize("name", [*FRONT_ENDS, "learn"])
def test_a_front_end_is_one_module_without_imports(name):
    source = host.front_end(name)
    assert not re.search(r"^\s*import\b|\bimport\(|https?://(?!www\.w3\.org/2000/svg)", source, re.M)
    assert source.count("export function mount(element, data") == source.count("function takePlace(") == 1
    page = (host.SOURCES / f"{name}.html").read_text(encoding="utf-8") if name in ("play", "learn") else ""
    assert twice(source + page) == []  # the page's own script shares the scope, too
    assert twice(host.bundle("learn/worker")) == []


@pytest.fixture
def sources(monkeypatch, tmp_path):
    """A front end of three files; two import words.js, in the two ways in which biome writes an import."""
    (tmp_path / "page").mkdir()
    written = {
        "page.js": 'import { list } from "./page/list.js";\nimport { word } from "./words.js";\nlist(word);\n',
        "page/list.js": 'import {\n  word,\n  other,\n} from "../words.js";\n\nexport const list = [word, other];\n',
        "words.js": "export const word = 1;\nexport const other = 2;\n",
    }
    for name, text in written.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(host, "SOURCES", tmp_path)
    return tmp_path


def test_each_file_is_joined_once_and_after_those_that_it_imports(sources):
    assert [path.name for path in host.modules("page")] == ["words.js", "list.js", "page.js"]
    lines = [line for line in host.bundle("page").splitlines() if line]
    assert lines == [
        "export const word = 1;",
        "export const other = 2;",
        "export const list = [word, other];",
        "list(word);",
    ]


@pytest.mark.parametrize("again", ["const other = 3;", "async function other() {", "const { one, other } = it;"])
def test_a_name_that_two_joined_files_use_is_found(sources, again):
    assert twice(host.bundle("page")) == []
    with (sources / "page.js").open("a", encoding="utf-8") as file:
        file.write(again + "\n")
    assert twice(host.bundle("page")) == ["other"]


def test_what_is_imported_is_exported_there_and_keeps_its_name():
    """Joined, a name means the same in all files, and a wrong import would go unnoticed."""
    for path in host.SOURCES.rglob("*.js"):
        imports = re.findall(r"^import \{([^}]*)\} from \"(\.[^\"]+)\";$", path.read_text(encoding="utf-8"), re.M)
        assert len(imports) == len(re.findall(r"^import\b", path.read_text(encoding="utf-8"), re.M))
        for names, file in imports:
            there = (path.parent / file).read_text(encoding="utf-8")
            for name in filter(None, map(str.strip, names.split(","))):
                assert re.search(rf"^export (?:async )?(?:function|class|const|let) {name}\b", there, re.M), (
                    path,
                    name,
                )


@pytest.mark.parametrize("file, constants", [
    ("machine/drawing.js", {"GREENEST": marks.GREENEST, "OF_A_MASK": marks.OF_A_MASK, "MOST": plotting.MOST}),
    ("machine/walking.js", {"IN_A_ROW": [*machine.LINES]}),
    ("sheets.js", {"LOUD": sheets.LOUD, "ALIKE": sheets.ALIKE}),
])  # fmt: skip
def test_a_drawing_is_drawn_again_by_the_constants_it_was_painted_by(file, constants):
    """They aren't among a figure's data, which notebooks store."""
    source = (host.SOURCES / file).read_text(encoding="utf-8")
    for name, value in constants.items():
        (held,) = re.findall(rf"^(?:export )?const {name} = ([^;]+);", source, re.M)
        assert json.loads(held) == value


def test_the_page_is_written_without_pytorch(tmp_path):
    code = "import sys; from tools import play; play.write(sys.argv[1]); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert (tmp_path / "play.html").exists()


@pytest.mark.parametrize("kernel", ["matvec", "matmul"])
def test_the_bytes_of_a_kernel_are_what_its_text_becomes(kernel, tmp_path):
    if (assembler := shutil.which("wat2wasm")) is None:
        pytest.skip("wat2wasm, of the package wabt, is not installed")
    subprocess.run([assembler, host.SOURCES / f"{kernel}.wat", "-o", tmp_path / "wasm"], check=True)
    (held,) = re.findall(rf'^const {kernel.upper()} =\s+"(.+)";$', host.bundle(kernel), re.M)
    assert base64.b64decode(held) == (tmp_path / "wasm").read_bytes()
