"""Command lines with good and bad values: a good one works, a bad one gets one sentence and leaves nothing behind."""

from pathlib import Path
from random import Random

from tools.torture import small
from tools.torture.harness import REFUSED, RIGHT, Attempt, bad, group
from tools.torture.paths import snapshot
from tools.torture.small import refused

# For each option: values that must work, values that must be refused. None: the option without a value.
NUMBERS = [
    "", " ", "x", "1e3", "0x10", "1.5", "nan", "inf", "-inf", "--", "9" * 30, "9" * 5000, "1,000", "½", "Ⅷ", "\x1b[31m"
]  # fmt: skip
PRESETS = ["smoke", "laptop", "gpu", "speedrun", "three-minutes", "gpu-best"]
TRAINING = {
    "--preset": (PRESETS, ["", "Smoke", "smoke ", "tiny", "../smoke", "smoke\n", "*", "n" * 10000]),
    "--corpus": (["CORPUS"], ["/dev/zero", "/nothing", "/", "\x1b]0;x\x07", "https://example.org/x"]),
    "--seed": (["0", "1", "42", "9223372036854775807"], ["-1", "9223372036854775808", *NUMBERS]),
    "--max-steps": (["1", "2", "7"], ["0", "-1", "10000000000", *NUMBERS]),
    "--device": (["cpu", "auto"], ["", "gpu", "CPU ", "cpu:x", "meta", "xla", "cuda:-1", "mps:7", "\x1b[31m"]),
    "--prompt": (["a", "ROMEO", "\n", "First Citizen:" * 50], ["", "\x00", "ø中", "\x1b[31m", "\ud800"]),
    "--temperature": (["0.8", "1", "2.5", "1e-3", "1e3"], ["0", "-1", "nan", "inf", "-inf", "1e-9", "1e400", "", "½"]),
    "--sample-length": (["0", "1", "30"], ["-1", "10000000000", *NUMBERS]),
    "--resume": ([], [None]),  # there is no run yet
    "--overwrite": ([None], []),
    "--nonsense": ([], [None, "1"]),
    "extra": ([], ["extra"]),
}  # fmt: skip
SAMPLING = {
    "--prompt": (["a", "ROMEO", "\n", "First Citizen:" * 50], ["", "\x00", "ø中", "\x1b[31m", "\ud800"]),
    "--temperature": TRAINING["--temperature"],
    "--top-k": (["1", "5", "1000"], ["0", "-1", *NUMBERS]),
    "--top-p": (["0.1", "1", "1.0", "1e-9"], ["0", "-0.1", "1.1", "nan", "inf", "x", ""]),
    "--length": (["0", "1", "30"], ["-1", "10000000000", *NUMBERS]),
    "--seed": (["0", "1", "9223372036854775807"], ["-1", "9223372036854775808", *NUMBERS]),
    "--num-samples": (["1", "3"], ["0", "-1", "10000000000", *NUMBERS]),
    "--nonsense": ([], [None]),
    "extra": ([], ["extra"]),
}  # fmt: skip


def _line(options: dict, random: Random, bad_ones: int) -> tuple[list[str], bool]:
    """Some options in any order, so many of them with a bad value; and whether the line is good."""
    spoilt = random.sample([name for name, (_, wrong) in options.items() if wrong], bad_ones)
    chosen = [name for name, (right, _) in options.items() if right and random.random() < 0.4 and name not in spoilt]
    words = []
    for name in random.sample([*chosen, *spoilt], len(chosen) + len(spoilt)):
        value = random.choice(options[name][name in spoilt])
        joined = value is not None and (value.startswith("-") or random.random() < 0.5)
        if name == "extra" or value is None:
            words.append(name)
        else:
            words += [f"{name}={value}"] if joined else [name, value]
    return words, not spoilt


@group("command lines", count=500, quick=40, seconds=20)
def command_lines(k: int, random: Random, folder: Path) -> tuple[str, Attempt]:
    writing = random.random() < 0.35
    words, good = _line(SAMPLING if writing else TRAINING, random, random.choice((0, 1, 1, 1, 2)))
    words = [word.replace("CORPUS", str(small.corpus_path())) for word in words]
    if not writing:  # small and quick, unless the line says otherwise
        given = {word.split("=")[0] for word in words}
        words += [] if "--corpus" in given else ["--corpus", str(small.corpus_path())]
        words += [] if "--max-steps" in given else ["--max-steps=3"]
        words += [] if "--sample-length" in given else ["--sample-length=20"]
        words += [] if "--device" in given else ["--device=cpu"]
        words += ["--out", str(folder / "run")]
    else:
        words += ["--run", str(random.choice(small.KINDS).whole)]

    def attempt() -> str:
        before = snapshot(folder)
        outcome = (small.run_sampling if writing else small.run)(words, folder)
        added = [name for name in snapshot(folder) if name not in before]
        if outcome.status == 0:
            if not good:
                return bad(f"accepted; it printed {outcome.out[-100:]!r}")
            return RIGHT if not outcome.err else bad(f"complains, but works: {outcome.err}")
        verdict = refused(outcome)
        if verdict == REFUSED and (good or added):
            return bad(f"a good line is refused: {outcome.err}" if good else f"refused, but written: {added}")
        return verdict

    shown = [word if len(word) < 60 else f"{word[:50]}... ({len(word)})" for word in words]
    return f"{'sampling' if writing else 'training'} {' '.join(map(ascii, shown))}", attempt
