"""The first comment lines of a study's table: what decides its numbers."""

import platform

import torch

from helpers.data import Corpus
from tools.provenance import made_by


def header(study: str, *conditions: str, corpus: Corpus | None = None) -> list[str]:
    """The code, the versions, the conditions, and the text that is read."""
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    lines = [
        made_by(f"python -m tools.studies {study}"),
        ", ".join([versions, f"{platform.system()} {platform.machine()}", *conditions]),
    ]
    return lines + ([f"corpus: {corpus.name}, SHA-256 {corpus.sha256}"] if corpus else [])
