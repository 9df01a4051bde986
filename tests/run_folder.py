"""What the tests of a run's folder share: how it ended, how to stop it, and how to change its checkpoint."""

import dataclasses
import io
import signal

import torch

from helpers.runs import checkpoint

ALPHABET = "".join(map(chr, range(65)))


def end_of(folder):
    """All that must be equal after a stop and a resume: weights, best ones, snapshots, history without the clock."""
    state = checkpoint.load(folder)
    records = [{**dataclasses.asdict(r), "seconds": 0, "tokens_per_second": 0} for r in state.history]
    kept = (state.model, state.best, *state.snapshots.values())
    weights = [torch.cat([w.flatten() for w in part.values()]).tolist() for part in kept]
    return state.step, records, [*state.snapshots], *weights, state.generators["dropout"].tolist()


def stop_at(step, number=signal.SIGTERM):
    """An `on_record` that asks the training to stop."""
    return lambda model, record: signal.raise_signal(number) if record.step == step else None


def resave(path, change):
    """Write the state back after `change` did something to it, with a right checksum."""
    state = torch.load(path, weights_only=True)
    packed = io.BytesIO()
    torch.save(change(state) or state, packed)
    path.write_bytes(checkpoint.sign(packed.getvalue()))
