"""Where the numbers of a table come from: its first comment lines."""

import platform
import subprocess

import torch

from helpers import ROOT
from helpers.data import Corpus


def header(study: str, *conditions: str, corpus: Corpus | None = None) -> list[str]:
    """What decides the numbers of a study's table: the code, the versions, the conditions, the text that is read."""
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    lines = [
        made_by(f"python -m tools.studies {study}"),
        ", ".join([versions, f"{platform.system()} {platform.machine()}", *conditions]),
    ]
    return lines + ([f"corpus: {corpus.name}, SHA-256 {corpus.sha256}"] if corpus else [])


def made_by(command: str) -> str:
    """The command, and the commit."""
    code = ("helpers", "exercises", "pictures", "tools")
    changed = " with uncommitted changes" if _git("status", "--porcelain", *code) else ""
    return f"made by: {command}, at commit {commit()}{changed}"


def commit() -> str:
    return _git("rev-parse", "--short", "HEAD") or "unknown"


def _git(*arguments: str) -> str:
    try:
        process = subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=ROOT)
    except OSError:  # there is no git
        return ""
    return process.stdout.strip()
