"""python -m helpers.sampling: write with a trained model, letter by letter (`make write`)."""

from helpers.commands.writing import options_of, write
from helpers.runs.checkpoint import load_model
from helpers.runs.folder import RUNS, best_run, folder_named
from helpers.support import console


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
    model, tokenizer = load_model(folder)
    write(model, tokenizer, told)
