"""python -m helpers.sampling: write with a trained model, letter by letter (`make write`)."""

from helpers.commands.writing import options_of, write
from helpers.runs.checkpoint import load, writer_of
from helpers.runs.folder import RUNS, best_run, folder_named
from helpers.support import console
from helpers.world.corpus import find_corpus
from helpers.writing.drafting import Counts


def main(arguments: list[str] | None = None) -> int:
    """The command; the exit status is as in `console.command`."""
    return console.command(_command, arguments)


def _command(arguments: list[str]) -> None:
    parser = options_of("python -m helpers.sampling", "Write with a trained model.", "characters", length=500)
    parser.add_argument("--run", help="folder of a run (default: the best finished one in build/runs)")
    told = parser.parse_args(arguments)
    if told.run is None:
        folder, why = best_run(RUNS)
        console.note(why)
    else:
        folder = folder_named(told.run, "--run")
    state = load(folder)
    model, tokenizer = writer_of(state)
    text = find_corpus(state.identity.corpus_sha256)
    # What the model read can be counted, and the counts guess what it will write: the same text, sooner.
    draft = Counts(tokenizer.encode_compactly(text.text), tokenizer.vocab_size) if text else None
    write(model, tokenizer, told, draft)
