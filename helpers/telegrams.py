"""The thread through notebooks 01 to 07: a tiny world in which people send each other presents.

A scene is six cards, "romeo gives the ring to rosaline". Every card is one vector, a question is
another, and a model has to answer with the vector of a word. What each part of attention is for
shows in what the model can't answer without it: the scoreboard shows that, a row for each part.

A model gets its scene in one of two forms, each a function that makes examples:

look_up   the asker's word, and the cards         model(asker, cards)
page      cards, then a question                  model(tokens)

Shapes: n scenes, 6 cards of 3 boxes (giver, thing, receiver), C = 32 numbers a word; `ids` are
places in WORDS.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from helpers.errors import ConfigError
from helpers.gpt import one_thread

NAMES = ["romeo", "juliet", "rosaline", "tybalt", "mercutio", "benvolio", "paris", "laurence"]
THINGS = ["ring", "rose", "letter", "dagger", "potion", "lute", "mask", "torch"]
WORDS = NAMES + THINGS
CARDS = 6  # of a scene
WIDTH = 32  # numbers of a word
HERO = {  # whom each admires: nobody is admired by his own hero
    "romeo": "mercutio",
    "mercutio": "benvolio",
    "benvolio": "tybalt",
    "tybalt": "paris",
    "paris": "laurence",
    "laurence": "rosaline",
    "rosaline": "juliet",
    "juliet": "romeo",
}
MAKER = {  # of each thing; no card says so
    "ring": "paris",
    "rose": "juliet",
    "letter": "tybalt",
    "dagger": "laurence",
    "potion": "mercutio",
    "lute": "romeo",
    "mask": "rosaline",
    "torch": "benvolio",
}
QUESTIONS = {
    "give": "what does {} give?",
    "hero": "what does {}'s hero give?",
    "maker": "who made what {}'s hero gives?",
    "both": "what does {} give, and what does {} get?",
    "next": "what does the one give who gets from {}?",
    "last": "what did {} give last?",
    "brew": "what does laurence brew from what {} gives and gets?",
}
# Of the read-out in training: words have length 1, and a softmax of numbers up to 1 is never sure.
SHARPNESS = 20.0

# What a model gets, and the ids that it should answer.
Examples = tuple[tuple[Tensor, ...], Int64[Tensor, "n k"]]


def vectors() -> Float[Tensor, "16 32"]:
    """The vector of each word: of length 1, at right angles to all others (Sylvester 1867)."""
    signs = torch.ones(1, 1)
    while len(signs) < WIDTH:
        signs = torch.cat([torch.cat([signs, signs], dim=1), torch.cat([signs, -signs], dim=1)])
    return signs[8 : 8 + len(WORDS)] / WIDTH**0.5


VECTORS = vectors()
HEROES = torch.tensor([NAMES.index(HERO[name]) for name in NAMES])  # by their places


def embed(ids: Int64[Tensor, "*shape"]) -> Float[Tensor, "*shape 32"]:
    """The vectors of words."""
    return VECTORS[ids]


def nearest_words(answers: Float[Tensor, "*shape 32"]) -> Int64[Tensor, "*shape"]:
    """The fixed read-out: which of the WORDS is the nearest to each vector, by dot product."""
    return (answers @ VECTORS.T).round(decimals=4).argmax(dim=-1)  # equal is exactly equal, on every processor


# ---------------------------------------------------------------- the world
def _random_orders(n: int, size: int, generator: torch.Generator) -> Int64[Tensor, "n size"]:
    """n times the numbers from 0 to size - 1, each time in another order."""
    return torch.rand(n, size, generator=generator).argsort(dim=1)


def scenes(n: int, generator: torch.Generator) -> Int64[Tensor, "n 6 3"]:
    """Six people in a ring, each gives the next one a thing; the cards lie in random order."""
    giver = _random_orders(n, len(NAMES), generator)[:, :CARDS]
    thing = _random_orders(n, len(THINGS), generator)[:, :CARDS]
    cards = torch.stack([giver, thing + len(NAMES), giver.roll(-1, dims=1)], dim=2)
    order = _random_orders(n, CARDS, generator)
    return cards.gather(1, order[:, :, None].expand_as(cards))


def repeated_givers(n: int, generator: torch.Generator) -> Int64[Tensor, "n 6 3"]:
    """Three people give twice each; only a card's place says which telegram was the later one."""
    three = _random_orders(n, len(NAMES), generator)[:, :3]
    thing = _random_orders(n, len(THINGS), generator)[:, :CARDS]
    giver = three.repeat(1, 2).gather(1, _random_orders(n, CARDS, generator))
    somebody_else = torch.randint(1, len(NAMES), (n, CARDS), generator=generator)
    receiver = (giver + somebody_else) % len(NAMES)
    return torch.stack([giver, thing + len(NAMES), receiver], dim=2)


def sentence(giver: str, thing: str, receiver: str) -> str:
    return f"{giver} gives the {thing} to {receiver}"


def sentences(scene: Int64[Tensor, "6 3"]) -> list[str]:
    """The cards of one scene in words."""
    return [sentence(*(WORDS[i] for i in card)) for card in scene.tolist()]


def print_scene(scene: Int64[Tensor, "6 3"]) -> None:
    """Print the cards of one scene as sentences."""
    print("\n".join(sentences(scene)))


def draw_askers(question: str, scene: Int64[Tensor, "n 6 3"], generator: torch.Generator) -> Int64[Tensor, "n 1"]:
    """Who asks in each scene: somebody who has a card.

    Where heroes are asked for, the hero of the asker has one too, and so has the fan, whose hero is the asker.
    ConfigError for a question not in QUESTIONS.
    """
    if question not in QUESTIONS:
        raise ConfigError(f"question must be one of {', '.join(QUESTIONS)}, not {question!r}")
    has_card = torch.zeros(len(scene), len(NAMES), dtype=torch.bool).scatter(1, scene[:, :, 0], True)
    may_ask = has_card
    if question in ("hero", "maker"):
        fans = HEROES.argsort()
        may_ask = may_ask & has_card[:, HEROES] & has_card[:, fans]
    return may_ask.float().multinomial(1, generator=generator)


def right_answers(
    question: str, scene: Int64[Tensor, "n 6 3"], askers: Int64[Tensor, "n 1"]
) -> Int64[Tensor, "n answers"]:
    """The right answer to the asker of each scene, or two for "both"."""
    giver, thing, receiver = scene.unbind(dim=2)
    asked_about = askers
    if question in ("hero", "maker"):
        asked_about = HEROES[askers]
    elif question == "next":
        asked_about = receiver.gather(1, _card(giver, askers))
    given = thing.gather(1, _card(giver, asked_about))
    got = thing.gather(1, _card(receiver, askers))
    if question == "maker":
        makers = torch.tensor([NAMES.index(MAKER[word]) for word in THINGS])
        return makers[given - len(NAMES)]
    if question == "both":
        return torch.cat([given, got], dim=1)
    if question == "brew":  # things have numbers, 0 to 7: the sum, beginning again after 7
        return len(NAMES) + (given + got) % len(THINGS)
    return given


def _card(box: Int64[Tensor, "n 6"], names: Int64[Tensor, "n k"]) -> Int64[Tensor, "n k"]:
    """The place of the last card that bears each name in this box."""
    bears_it = box[:, None] == names[:, :, None]  # (n, k, 6)
    return (bears_it * torch.arange(1, CARDS + 1)).argmax(dim=2)


def look_up(question: str, n: int, generator: torch.Generator) -> Examples:
    """The asker's word (n, 32), and the cards (n, 6, 96), their three boxes side by side."""
    scene = repeated_givers(n, generator) if question == "last" else scenes(n, generator)
    askers = draw_askers(question, scene, generator)
    inputs = (embed(askers[:, 0]), embed(scene).flatten(start_dim=2))
    return inputs, right_answers(question, scene, askers)


def few(size: int, seed: int) -> Callable[[str, int, torch.Generator], Examples]:
    """Examples like `look_up`'s, always from the same `size` scenes, which `seed` alone chooses."""

    def examples(question: str, n: int, generator: torch.Generator) -> Examples:
        inputs, answers = look_up(question, size, torch.Generator().manual_seed(seed))
        picked = torch.randint(size, (n,), generator=generator)
        return tuple(x[picked] for x in inputs), answers[picked]

    return examples


def page(question: str, n: int, generator: torch.Generator) -> Examples:
    """Six cards, then a question, which is a card with the asker's name alone: (n, 7, 96)."""
    (asker, cards), answers = look_up(question, n, generator)
    question_card = F.pad(asker, (0, 2 * WIDTH))  # (n, 96): thing and receiver are empty
    return (torch.cat([cards, question_card[:, None]], dim=1),), answers


# ---------------------------------------------------------------- learning and scoring
def loss(outputs: Float[Tensor, "*shape 32"], answers: Int64[Tensor, "..."]) -> Float[Tensor, ""]:
    """The cross-entropy of reading the outputs out, in nats."""
    logits = SHARPNESS * outputs @ VECTORS.T
    return F.cross_entropy(logits.flatten(end_dim=-2), answers.flatten())


@one_thread()
def fit(
    make: Callable[[], nn.Module],
    question: str,
    seed: int = 0,
    *,
    examples: Callable[[str, int, torch.Generator], Examples] = look_up,
    steps: int = 300,
    batch: int = 32,
    lr: float = 0.01,
    make_optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam,
) -> nn.Module:
    """Train a model made by `make()`; all that is random depends on `seed` alone.

    A model whose answer has no gradient can't learn: it comes back as it was made.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = make()
        optimizer = make_optimizer(model.parameters(), lr=lr)
        generator = torch.Generator().manual_seed(seed)
        for _ in range(steps):
            inputs, answers = examples(question, batch, generator)
            nats = loss(model(*inputs), answers)
            if not nats.requires_grad:
                break
            optimizer.zero_grad()
            nats.backward()
            optimizer.step()
    return model.eval()


def accuracy(
    model: Callable[..., Tensor],
    question: str,
    seed: int = 0,
    *,
    examples: Callable[[str, int, torch.Generator], Examples] = look_up,
    n: int = 2000,
) -> float:
    """The share of n fresh scenes in which the model's last words are the answers, all of them."""
    inputs, answers = examples(question, n, torch.Generator().manual_seed(seed + 1_000_000))
    with torch.no_grad():
        words = nearest_words(model(*inputs)).view(n, -1)[:, -answers.shape[1] :]
    return (words == answers).all(dim=1).float().mean().item()
