"""Where the numbers of a table come from: its first comment line."""

import subprocess

from helpers import ROOT


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
