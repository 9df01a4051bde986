"""Recorded training runs, each with at most one fault, and the doctors of exercise 8d who look at them.

A tiny GPT (one layer, width 32) on the bundled play, six faults at two sizes: with all its signs, and with small
letters alone. tests/test_curves.py has the recipes and makes the runs again.
"""

from exercises.judge import Answer

HEALTHY, HIGH, LOW = "healthy", "learning rate too high", "learning rate too low"
OVERFIT, COPY, LEAK = "overfitting", "targets not shifted", "validation text leaked"
NAMES = (HEALTHY, HIGH, LOW, OVERFIT, COPY, LEAK)

# What it is, then the losses on the training text, on the validation text, and on text that nobody has seen.
Run = tuple[str, list[float], list[float], list[float]]
RUNS: list[Run] = [
    (HEALTHY,
     [4.17, 3.09, 2.76, 2.61, 2.55, 2.48, 2.39, 2.36, 2.32, 2.27, 2.27],
     [4.17, 3.17, 2.83, 2.7, 2.61, 2.56, 2.47, 2.46, 2.44, 2.39, 2.4],
     [4.17, 3.12, 2.82, 2.68, 2.62, 2.59, 2.48, 2.5, 2.46, 2.42, 2.44]),
    (HIGH,
     [4.17, 7.86, 5.49, 4.7, 3.62, 3.46, 3.45, 3.37, 3.35, 3.39, 3.48],
     [4.17, 8.23, 5.59, 4.77, 3.7, 3.53, 3.53, 3.45, 3.45, 3.47, 3.57],
     [4.17, 7.95, 5.36, 4.69, 3.58, 3.47, 3.43, 3.34, 3.32, 3.35, 3.43]),
    (LOW,
     [4.17, 4.16, 4.15, 4.14, 4.13, 4.12, 4.1, 4.09, 4.07, 4.06, 4.04],
     [4.17, 4.16, 4.15, 4.14, 4.13, 4.12, 4.11, 4.09, 4.08, 4.06, 4.05],
     [4.17, 4.16, 4.16, 4.14, 4.13, 4.12, 4.11, 4.09, 4.08, 4.06, 4.04]),
    (OVERFIT,
     [4.17, 2.53, 2.21, 2.02, 1.84, 1.71, 1.57, 1.46, 1.32, 1.22, 1.21],
     [4.17, 2.86, 2.8, 2.81, 2.94, 3.07, 3.15, 3.32, 3.4, 3.58, 3.73],
     [4.17, 2.84, 2.78, 2.75, 2.91, 3.0, 3.12, 3.26, 3.39, 3.57, 3.73]),
    (COPY,
     [3.75, 0.34, 0.06, 0.03, 0.02, 0.01, 0.01, 0.01, 0.01, 0.0, 0.0],
     [3.75, 0.38, 0.08, 0.04, 0.03, 0.02, 0.01, 0.01, 0.01, 0.01, 0.01],
     [3.76, 0.33, 0.06, 0.03, 0.02, 0.01, 0.01, 0.01, 0.01, 0.0, 0.0]),
    (LEAK,
     [4.17, 2.53, 2.21, 2.02, 1.84, 1.71, 1.57, 1.46, 1.32, 1.22, 1.21],
     [4.17, 2.56, 2.27, 2.1, 1.9, 1.77, 1.61, 1.47, 1.36, 1.26, 1.27],
     [4.17, 2.84, 2.78, 2.75, 2.91, 3.0, 3.12, 3.26, 3.39, 3.57, 3.73]),
    (HEALTHY,
     [3.34, 2.62, 2.45, 2.34, 2.29, 2.22, 2.2],
     [3.34, 2.63, 2.49, 2.38, 2.36, 2.31, 2.29],
     [3.33, 2.61, 2.47, 2.38, 2.36, 2.28, 2.27]),
    (HIGH,
     [3.34, 9.53, 3.19, 2.96, 3.05, 2.97, 2.97],
     [3.34, 9.84, 3.19, 2.98, 3.07, 2.98, 2.99],
     [3.33, 9.63, 3.14, 2.94, 3.05, 2.95, 2.96]),
    (LOW,
     [3.34, 3.33, 3.32, 3.3, 3.29, 3.27, 3.25],
     [3.34, 3.33, 3.31, 3.3, 3.28, 3.27, 3.25],
     [3.33, 3.32, 3.31, 3.29, 3.28, 3.26, 3.25]),
    (OVERFIT,
     [3.34, 2.24, 1.95, 1.7, 1.45, 1.24, 1.09],
     [3.34, 2.58, 2.55, 2.64, 2.87, 3.07, 3.37],
     [3.33, 2.6, 2.57, 2.67, 2.91, 3.14, 3.38]),
    (COPY,
     [2.93, 0.04, 0.01, 0.01, 0.0, 0.0, 0.0],
     [2.92, 0.04, 0.01, 0.01, 0.0, 0.0, 0.0],
     [2.92, 0.04, 0.01, 0.01, 0.0, 0.0, 0.0]),
    (LEAK,
     [3.34, 2.24, 1.95, 1.7, 1.45, 1.24, 1.09],
     [3.35, 2.27, 1.94, 1.7, 1.52, 1.28, 1.14],
     [3.33, 2.6, 2.57, 2.67, 2.91, 3.14, 3.38]),
]  # fmt: skip


def doctor(training: list[float], validation: list[float], fresh: list[float]) -> str:
    """One who is right."""
    if max(training) > training[0] + 1:
        return HIGH
    if training[-1] > training[0] - 0.5:
        return LOW
    if fresh[-1] < 0.5:
        return COPY
    if validation[-1] < fresh[-1] - 0.5:
        return LEAK
    return OVERFIT if validation[-1] > min(validation) + 0.2 else HEALTHY


def confusing(*pairs: tuple[str, str]) -> Answer:
    """One who is right, but for what he takes for something else."""
    return lambda *run: dict(pairs).get(doctor(*run), doctor(*run))


def always(name: str) -> Answer:
    """One who looks at nothing."""
    return lambda *run: name


def broken(training: list[float], validation: list[float], fresh: list[float]) -> str:
    """One who believes that every gap is overfitting."""
    if validation[-1] > training[-1]:
        return "overfitting"
    return "healthy"
