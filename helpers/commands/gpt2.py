"""python -m helpers.commands.gpt2 --weights FOLDER: write with OpenAI's GPT-2 (`python -m helpers.gpt2`)."""

from helpers.commands.writing import options_of, write
from helpers.support import console
from helpers.world.gpt2 import load


def main(arguments: list[str] | None = None) -> int:
    """The command: print what GPT-2 writes, piece by piece; the exit status is as in `console.command`."""
    return console.command(_command, arguments)


def _command(arguments: list[str]) -> None:
    parser = options_of("python -m helpers.commands.gpt2", "Write with GPT-2.", "tokens", length=200)
    parser.add_argument("--weights", required=True, help="folder with config.json, model.safetensors, tokenizer.json")
    told = parser.parse_args(arguments)
    model, tokenizer = load(told.weights)
    write(model, tokenizer, told)


if __name__ == "__main__":
    console.leave(main)
