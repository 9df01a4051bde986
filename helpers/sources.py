"""What a source prints, beside what runs here: the calls of notebooks/sources/."""

import torch
from torch import Tensor

# Of what `same` and `slip` have compared, by label: how many numbers a source prints, and whether they were made here.
COMPARED: dict[str, tuple[int, bool]] = {}


def same(label: str, printed: str, ours: object, *, units: float = 0.5, by: str = "printed") -> None:
    """Assert that `ours` rounds to the numbers that a source prints, and show both.

    `printed` is the source's own text: numbers between spaces, a line for each row of a table.
    How precise each number is, its text says: "0.1455" means half of 0.0001, "1.56e-07" half of
    0.01e-07; `units` replaces the half. `by` says whose numbers they are where the source prints
    none. `ours` is a tensor of any shape with as many numbers, or
    nested lists. AssertionError with the first number that differs.
    """
    must_agree(label, printed, ours, units)
    if by == "printed":
        COMPARED[label] = (len(printed.split()), True)
    print(label)
    print(beside({by: printed, "here": rounded(ours, printed)}))


def slip(label: str, printed: str, right: object, produced: object = None) -> None:
    """Assert that `produced` gives what a source prints, and `right` doesn't; show what is printed and what is right.

    `produced` is made here as the source must have made it, `right` as it should be; both as
    `ours` in `same`. Without `produced` nobody knows how the printed numbers were made.
    AssertionError with the first number that differs, or when none does.
    """
    if produced is not None:
        must_agree(label, printed, produced, 0.5)
    corrected = rounded(right, printed)
    assert corrected.split() != printed.split(), f"{label}: what is printed is right"
    COMPARED[label] = (len(printed.split()), produced is not None)
    print(label)
    print(beside({"printed": printed, "right": corrected}))


def unmade(label: str, printed: str, why: str) -> None:
    """Name numbers that a source prints and that nobody can make again, and the reason."""
    COMPARED[label] = (len(printed.split()), False)
    print(label)
    print(beside({"printed": printed, "but": why}))


def tally(printed: int) -> None:
    """Say how many of the numbers that a source prints were made here. AssertionError if there are others.

    To be called last: it counts what `same` and `slip` have compared in this process.
    """
    made = sum(count for count, here in COMPARED.values() if here)
    wrong = sum(count for count, here in COMPARED.values() if not here)
    missing = printed - made - wrong
    print(f"numbers: {printed} printed, {made} made here, {wrong} that nobody can make, {missing} missing")
    assert missing == 0


def must_agree(label: str, printed: str, ours: object, units: float) -> None:
    numbers = [float(text) for text in printed.split()]
    expected = torch.tensor(numbers, dtype=torch.float64)
    here = flat(ours)
    assert len(here) == len(expected), f"{label}: {len(expected)} are printed, here are {len(here)}"
    # A little more than half a unit: float32 rounds, too
    unit = torch.tensor([unit_of(text) for text in printed.split()], dtype=torch.float64)
    close = torch.isclose(here, expected, rtol=0, atol=0, equal_nan=True)
    close |= (here - expected).abs() <= (units + 0.001) * unit
    if not close.all():
        i = int((~close).nonzero()[0])
        raise AssertionError(f"{label}: number {i + 1} is printed as {printed.split()[i]}, here it is {here[i]:.8g}")


def flat(numbers: object) -> Tensor:
    return torch.as_tensor(numbers).detach().double().flatten()


def unit_of(text: str) -> float:
    """One unit of the last digit of a number's text: 0.0001 for 0.9544, 1e-11 for 1.5562e-07."""
    mantissa, _, exponent = text.partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals)


def rounded(numbers: object, printed: str) -> str:
    """Our numbers as text, each with the digits of the number printed in its place."""
    values = iter(flat(numbers).tolist())
    rows = []
    for line in printed.strip().splitlines():
        texts = []
        for text in line.split():
            mantissa, e, _ = text.partition("e")
            kind = f".{len(mantissa.partition('.')[2])}{'e' if e else 'f'}"
            texts.append(f"{next(values):z{kind}}")
        rows.append(" ".join(texts))
    return "\n".join(rows)


def beside(tables: dict[str, str]) -> str:
    """Tables of numbers: short rows one below the other, several rows next to each other."""
    rows = {name: text.strip().splitlines() for name, text in tables.items()}
    if len(next(iter(rows.values()))) == 1:
        room = max(map(len, rows))
        return "\n".join(f"  {name:{room}}  {lines[0].strip()}" for name, lines in rows.items())
    width = max(len(number) for lines in rows.values() for number in " ".join(lines).split())
    columns = []
    for name, lines in rows.items():
        lines = [" ".join(number.rjust(width) for number in line.split()) for line in lines]
        room = max(map(len, [name, *lines]))
        columns.append([text.ljust(room) for text in [name, *lines]])
    return "\n".join("  " + "    ".join(row).rstrip() for row in zip(*columns, strict=True))
