"""Lesson 00's translator: it reads a German question, and writes it in English.

The sentences come from a small grammar whose German verbs are last. English has as many words as
German, and each of them comes from one German word.
"""

import random
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from helpers.gpt import one_thread
from helpers.rooms.copying import Seen, Texts, TextSource, train

Pair = tuple[str, str]
BEGIN = {  # with du, with others
    "Can": ("Kannst", "Kann"),
    "Could": ("Könntest", "Könnte"),
    "Shall": ("Sollst", "Soll"),
    "Should": ("Solltest", "Sollte"),
    "May": ("Darfst", "Darf"),
    "Must": ("Musst", "Muss"),
    "Will": ("Wirst", "Wird"),
    "Would": ("Würdest", "Würde"),
}


def pairs(text: str) -> list[Pair]:
    """From "du you, er he": ("du", "you"), ("er", "he")."""
    return [(german, english) for german, english in (pair.split() for pair in text.split(","))]


WHO = pairs("du you, er he, Anna Anna, Otto Otto, Eva Eva, Max Max, Ida Ida, Paul Paul")
WHOM = pairs("mir me, uns us, ihm him, ihr her, ihnen them, Lea Lea, Tom Tom, Kai Kai")
HELP = pairs(
    "helfen help, erlauben allow, raten advise, beibringen teach, befehlen order, verbieten forbid, "
    "gestatten permit, versprechen promise"
)
WHICH = pairs("diesen this, jenen that, jeden every, keinen no, einen a, meinen my, deinen your, unseren our")
HOW = pairs("langen long, kurzen short, tollen great, neuen new, guten good, schweren hard, ersten first, letzten last")
WHAT = pairs("Satz sentence, Brief letter, Text text, Roman novel, Witz joke, Bericht report, Vers verse, Titel title")
DO = pairs(
    "übersetzen translate, lesen read, schreiben write, verstehen understand, erklären explain, lernen learn, "
    "vergessen forget, drucken print"
)
ALL = (*WHO, *WHOM, *HELP, *WHICH, *HOW, *WHAT, *DO, ("zu", "to"))
GERMAN = sorted({german for german, _ in ALL} | {form for forms in BEGIN.values() for form in forms})
ENGLISH = sorted({english for _, english in ALL} | set(BEGIN))
WIDTH = 48


# ---------------------------------------------------------------- the grammar
def question(dice: random.Random, helps: bool, tells_how: bool) -> tuple[list[str], list[str]]:
    """A German question and its translation, with two parts or without: 5 to 9 words."""
    begin, who, do = dice.choice(sorted(BEGIN)), dice.choice(WHO), dice.choice(DO)
    thing = [dice.choice(WHICH), dice.choice(WHAT)]
    if tells_how:
        thing.insert(1, dice.choice(HOW))
    german, english = [BEGIN[begin][who[0] != "du"], who[0]], [begin, who[1]]
    if helps:
        whom, verb = dice.choice(WHOM), dice.choice(HELP)
        german += [whom[0], verb[0], *firsts(thing), "zu", do[0]]
        english += [verb[1], whom[1], "to", do[1], *seconds(thing)]
    else:
        german += [*firsts(thing), do[0]]
        english += [do[1], *seconds(thing)]
    return german, english


def firsts(pairs: Sequence[Pair]) -> list[str]:
    return [first for first, _ in pairs]


def seconds(pairs: Sequence[Pair]) -> list[str]:
    return [second for _, second in pairs]


def questions(seed: int, never: Sequence[str]) -> TextSource:
    """Batches of 64 random questions of one form; the German sentence `never` is not among them."""
    dice = random.Random(seed)

    def examples(progress: float) -> tuple[Texts, Texts]:
        form = dice.choice((False, True)), dice.choice((False, True))
        batch = [question(dice, *form) for _ in range(64)]
        batch = [pair for pair in batch if pair[0] != list(never)]
        return (
            torch.tensor([[GERMAN.index(word) for word in german] for german, _ in batch]),
            torch.tensor([[ENGLISH.index(word) for word in english] for _, english in batch]),
        )

    return examples


# ---------------------------------------------------------------- the network
class Translator(nn.Module):
    """A reader and a writer: German (B, S) -> logits of the English words (B, S, vocabulary).

    What is written comes from the words that are looked at ("words"), or from the reader's states
    there ("states"); the writer's own state says where to look, and no more. Or it comes from the
    states and the writer's own together, as in Copier ("both").
    """

    def __init__(self, writes_from: str):
        super().__init__()
        self.writes_from = writes_from
        self.word = nn.Embedding(len(GERMAN), WIDTH)
        self.reader = nn.GRU(len(GERMAN), WIDTH, batch_first=True)
        self.writer = nn.GRU(1, WIDTH, batch_first=True)
        self.head = nn.Linear(2 * WIDTH if writes_from == "both" else WIDTH, len(ENGLISH))

    def see(self, german: Texts) -> Seen:
        memory, last = self.reader(F.one_hot(german, len(GERMAN)).float())
        h, _ = self.writer(torch.zeros(*german.shape, 1), last)
        scores = h @ memory.mT
        weights = scores.softmax(dim=-1)
        looked_at = self.word(german) if self.writes_from == "words" else memory
        return Seen(memory, h, scores, weights, weights @ looked_at)

    def forward(self, german: Texts) -> Float[Tensor, "B S V"]:
        seen = self.see(german)
        return self.head(torch.cat([seen.h, seen.context], dim=-1) if self.writes_from == "both" else seen.context)

    @torch.no_grad()
    def translate(self, german: Sequence[str]) -> tuple[list[str], Float[Tensor, "T S"]]:
        """The English words, and where each of them looked."""
        read = torch.tensor([[GERMAN.index(word) for word in german]])
        return [ENGLISH[i] for i in self(read)[0].argmax(dim=-1).tolist()], self.see(read).weights[0]


def trained(
    never: Sequence[str], writes_from: str = "words", steps: int = 1000, peak_rate: float = 3e-2, seed: int = 1
) -> Translator:
    """A network that has practised on random questions, but `never` on this one."""
    torch.manual_seed(seed)
    model = Translator(writes_from)
    train(model, questions(seed, never), steps, peak_rate)
    return model


@one_thread()
@torch.no_grad()
def accuracy(model: Translator) -> float:
    """The share of words that are right, in eight batches of questions."""
    examples = questions(0, ())
    right = total = 0
    for _ in range(8):
        german, english = examples(1.0)
        right += (model(german).argmax(dim=-1) == english).sum().item()
        total += english.numel()
    return right / total
