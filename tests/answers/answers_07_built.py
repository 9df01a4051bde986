"""Answers to the exercises 7b and 7f, a block and a GPT: wrong ones, with words that must refuse them, and right."""

import torch
import torch.nn.functional as F
from gpt_variants import (
    GPT,
    AlibiGPT,
    Block,
    Dropout,
    Heads,
    LoopBlock,
    ParallelBlock,
    PostNormBlock,
    PostNormGPT,
    RMSNorm,
    RotaryBlock,
    RotaryGPT,
    SinusGPT,
    TorchBlock,
    TorchGPT,
    TorchPreNormGPT,
)
from nanogpt import NanoBlock, NanoGPT
from torch import nn


# ---------------------------------------------------------------- blocks
def block(forward=Block.forward, **parts):
    return type("Block", (Block,), {"forward": lambda self, x, cache=None: forward(self, x), **parts})


def attending(attend):
    """A block whose heads attend in another way."""
    return block(attention=type("Heads", (Heads,), {"attend": lambda self, q, k, v, start: attend(q, k, v)}))


def masked(mask, fill=-torch.inf):
    def attend(query, key, value):
        scores = query @ key.mT / query.shape[-1] ** 0.5
        return scores.masked_fill(~mask(torch.ones_like(scores, dtype=torch.bool)), fill).softmax(-1) @ value

    return attend


class OverTime(nn.Module):
    """A norm over the words."""

    dim = 1

    def __init__(self, C):
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(C)), nn.Parameter(torch.zeros(C))

    def forward(self, x):
        variance, mean = torch.var_mean(x, self.dim, correction=0, keepdim=True)
        return (x - mean) / (variance + 1e-5).sqrt() * self.gain + self.shift


class OverTexts(OverTime):
    dim = 0


class AlwaysOn(Dropout):
    def forward(self, x):
        return F.dropout(x, self.p)


class AlwaysAThird(nn.Dropout):
    def __init__(self, p):
        super().__init__(0.3)


class Never(nn.Identity):
    pass


class InAList(Block):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.layers = list(self.mlp)
        del self.mlp

    def forward(self, x, cache=None):
        x = x + self.heads(self.norm1(x))
        return x + self.layers[2](F.gelu(self.layers[0](self.norm2(x))))


def no_path(self, x):
    return self.mlp(self.norm2(self.heads(self.norm1(x))))


def only_round_attention(self, x):
    return self.mlp(self.norm2(x + self.heads(self.norm1(x))))


def only_round_the_mlp(self, x):
    x = self.heads(self.norm1(x))
    return x + self.mlp(self.norm2(x))


class OneNorm(Block):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.norm2

    def forward(self, x, cache=None):
        x = x + self.heads(self.norm1(x))
        return x + self.mlp(x)


class NoNorm(Block):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.norm1, self.norm2

    def forward(self, x, cache=None):
        x = x + self.heads(x)
        return x + self.mlp(x)


class NoMLP(Block):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.mlp, self.norm2

    def forward(self, x, cache=None):
        return x + self.drop(self.heads(self.norm1(x)))


class NoAttention(Block):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.heads, self.norm1

    def forward(self, x, cache=None):
        return x + self.drop(self.mlp(self.norm2(x)))


class Sandwich(Block):
    """A norm behind each branch, too."""

    def __init__(self, C, num_heads, dropout=0.0):
        super().__init__(C, num_heads, dropout)
        self.behind = nn.ModuleList([nn.LayerNorm(C), nn.LayerNorm(C)])

    def forward(self, x, cache=None):
        x = x + self.drop(self.behind[0](self.heads(self.norm1(x))))
        return x + self.drop(self.behind[1](self.mlp(self.norm2(x))))


class LinearSandwich(Sandwich):
    bend = nn.Identity


class LinearPostNorm(PostNormBlock):
    bend = nn.Identity


class TorchPostNorm(nn.TransformerEncoderLayer):
    def __init__(self, C, num_heads, dropout=0.0):
        super().__init__(C, num_heads, 4 * C, dropout, batch_first=True)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return super().forward(x, src_mask=mask, is_causal=True)


def normed_stream(self, x):
    x = self.norm1(x)
    x = self.norm2(x + self.drop(self.heads(x)))
    return x + self.drop(self.mlp(x))


def normed_at_the_door(self, x):
    return Block.forward(self, self.norm1(x))


class PlainGain(nn.Module):
    """A norm whose gain is a tensor that nobody has registered."""

    def __init__(self, C):
        super().__init__()
        self.gain, self.shift = torch.ones(C), torch.zeros(C)

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:]) * self.gain + self.shift


class OneHead(Heads):
    """However many are asked for."""

    def __init__(self, C, num_heads):
        super().__init__(C, 1)


def with_mlp(*layers_of):
    """A block with another MLP: functions of C that make its layers."""

    def __init__(self, C, num_heads, dropout=0.0):
        Block.__init__(self, C, num_heads, dropout)
        self.mlp = nn.Sequential(*(layer(C) for layer in layers_of))

    return block(__init__=__init__)


def matrix(before, behind):
    """From `before` times C numbers to `behind` times C."""
    return lambda C: nn.Linear(before * C, behind * C)


def bent(kind):
    return lambda C: kind()


class OneNumber(Block):
    """An MLP of a single hidden number."""

    def __init__(self, C, num_heads, dropout=0.0):
        super().__init__(C, num_heads, dropout)
        self.mlp = nn.Sequential(nn.Linear(C, 1), nn.GELU(), nn.Linear(1, C))


class DropsWeightsAlone(TorchBlock):
    def __init__(self, C, num_heads, dropout=0.0):
        super().__init__(C, num_heads, dropout)
        self.mlp[2] = nn.Identity()


def drops_attention_alone(self, x):
    x = x + self.drop(self.heads(self.norm1(x)))
    return x + self.mlp(self.norm2(x))


def drops_the_mlp_alone(self, x):
    x = x + self.heads(self.norm1(x))
    return x + self.drop(self.mlp(self.norm2(x)))


def side_by_side(self, x):
    return x + self.drop(self.heads(self.norm1(x))) + self.drop(self.mlp(self.norm2(x)))


def the_mlp_first(self, x):
    x = x + self.drop(self.mlp(self.norm2(x)))
    return x + self.drop(self.heads(self.norm1(x)))


BLOCKS = [
    ("what attention makes is dropped, and what the MLP makes is not", block(drops_attention_alone)),
    ("what the MLP makes is dropped, and what attention makes is not", block(drops_the_mlp_alone)),
    ("what attention makes is dropped, and what the MLP makes is not", DropsWeightsAlone),
    ("the MLP doesn't read what attention has found", block(side_by_side)),
    ("the MLP doesn't read what attention has found", block(the_mlp_first)),
    ("and none behind them", with_mlp(matrix(1, 4), matrix(4, 1), bent(nn.ReLU))),
    ("and none behind them", with_mlp(matrix(1, 4), bent(nn.ReLU), matrix(4, 1), bent(nn.ReLU))),
    ("is there an MLP, and does it widen", OneNumber),
    (
        "dropout takes parts of the stream itself away",
        block(lambda self, x: self.drop(x + self.mlp(self.norm2(x + self.heads(self.norm1(x)))))),
    ),
    ("with 4 heads it gives what it gives with 1: is num_heads used?", block(attention=OneHead)),
    ("self.gain is a plain tensor and will not be learned", block(norm=PlainGain)),
    ("the stream itself is normalised", block(normed_stream)),
    ("the stream itself is normalised", block(normed_at_the_door)),
    ("is x added, both to what attention gives and to", block(no_path)),
    ("a fresh block leaves little of its input", block(only_round_attention)),
    ("a fresh block leaves little of its input", block(only_round_the_mlp)),
    ("a fresh block leaves little of its input", block(lambda self, x: Block.forward(self, x) - x)),
    ("the MLP doesn't read what attention has found", ParallelBlock),
    ("and none behind them", with_mlp(matrix(1, 4), matrix(4, 1), bent(nn.GELU))),
    ("and none behind them", with_mlp(matrix(1, 4), bent(nn.GELU), matrix(4, 1), bent(nn.GELU))),
    ("is there an MLP, and does it widen", NoMLP),
    ("is there an MLP, and does it widen", with_mlp(matrix(1, 1), bent(nn.GELU), matrix(1, 1))),
    ("is there an MLP, with a GELU or ReLU", block(bend=nn.Identity)),
    ("is there an MLP, with a GELU or ReLU", LinearPostNorm),
    ("is there an MLP, with a GELU or ReLU", LinearSandwich),
    ("inputs 1,000 times as large are changed", NoNorm),
    ("inputs 1,000 times as large are changed", OneNorm),
    ("output 1 doesn't change with input 0: it must see all", NoAttention),
    ("it looks into the future", attending(masked(lambda ones: ones))),
    ("is the mask on the wrong side", attending(masked(lambda ones: ones.triu()))),
    ("does a row of the mask allow nothing", attending(masked(lambda ones: ones.tril(-1)))),
    ("it looks into the future", block(norm=OverTime)),
    ("when other texts stand in its batch", block(norm=OverTexts)),
    ("two calls in evaluation differ", block(dropout_layer=AlwaysOn)),
    ("two calls in training give the same", block(dropout_layer=Never)),
    ("with dropout=0, two calls in training differ", block(dropout_layer=AlwaysAThird)),
    ("the list self.layers is not registered", InAList),
    ("norm2.weight gets no gradient", block(lambda self, x: x + self.heads(self.norm1(x)))),
    ("has the shape (2, 5, 48)", block(lambda self, x: self.mlp[0](x + self.heads(x)))),
    ("it returns nothing", block(lambda self, x: print(end=""))),
]  # fmt: skip


# ---------------------------------------------------------------- GPTs
def gpt(forward=GPT.forward, **parts):
    return type("GPT", (GPT,), {"forward": lambda self, tokens, cache=None: forward(self, tokens), **parts})


def of(a_block):
    return gpt(block=a_block)


def then(change):
    return gpt(lambda self, tokens: change(GPT.forward(self, tokens)))


def nowhere(self, T, C):
    pass


def list_of_blocks(self, n_layer, C, n_head, dropout):
    return [self.block(C, n_head, dropout) for _ in range(n_layer)]


def one_block(self, n_layer, C, n_head, dropout):
    return nn.ModuleList([self.block(C, n_head, dropout)])


def always_one_head(self, n_layer, C, n_head, dropout):
    return nn.ModuleList(self.block(C, 1, dropout) for _ in range(n_layer))


def by_default(self):
    """PyTorch's own beginning, with a table of numbers of size 1, and the head of the same."""


def untied(self):
    self.head = nn.Linear(self.token.embedding_dim, self.token.num_embeddings, bias=False)


def untied_and_small(self):
    untied(self)
    GPT.begin(self)


def a_hidden_table(self, T, C):
    table = 0.1 * torch.randn(T, C)
    self.place = lambda places: table[places]


def a_plain_tensor(self, T, C):
    self.table = 0.1 * torch.randn(T, C)
    self.place = lambda places: self.table[places]


def learned_in_vain(self, T, C):
    self.table = torch.zeros(T, C, requires_grad=True)
    self.place = lambda places: self.table[places]


class NoContext(GPT):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.context_length


class OfOneLength(GPT):
    def placed(self, x, start):
        return x + self.place.weight


class FromTheEnd(GPT):
    def placed(self, x, start):
        return x + self.place(torch.arange(x.shape[1]).flip(0))


class PlacesOfTheBatch(GPT):
    def placed(self, x, start):
        return x + self.place(torch.arange(x.shape[0]))[:, None]


class Frozen(GPT):
    def placed(self, x, start):
        return super().placed(x.detach(), start)


def no_grad(self, tokens):
    with torch.no_grad():
        return GPT.forward(self, tokens)


GPTS = [
    ("is there an MLP, and does it widen", of(OneNumber)),
    ("is there an MLP, and does it widen", of(NoMLP)),
    ("the tokens before in another order give the same", gpt(make_places=nowhere, placed=lambda self, x, start: x)),
    ("it looks into the future", of(attending(masked(lambda ones: ones)))),
    ("is the mask on the wrong side", of(attending(masked(lambda ones: ones.triu())))),
    ("it looks into the future", of(attending(masked(lambda ones: ones.tril(1))))),
    ("it looks into the future", of(attending(masked(lambda ones: ones.tril(), 0.0)))),
    ("does a row of the mask allow nothing", of(attending(masked(lambda ones: ones.tril(-1))))),
    ("it looks into the future", of(block(norm=OverTime))),
    ("it looks into the future", gpt(
        lambda self, tokens: GPT.forward(self, tokens) - self.token(tokens).mean((1, 2), keepdim=True))),
    ("ln 65 = 4.17 is right: it starts out sure of itself", gpt(begin=by_default)),
    ("it starts out sure of itself", gpt(begin=lambda self: nn.init.xavier_normal_(self.token.weight, gain=3))),
    ("the logits at a place hardly change with its own token", of(block(no_path))),
    ("the logits at a place hardly change with its own token", of(block(only_round_the_mlp))),
    ("it gives probabilities: logits are asked for", then(lambda logits: logits.softmax(-1))),
    ("it gives log-probabilities", then(lambda logits: logits.log_softmax(-1))),
    ("has the shape (3, 8)", then(lambda logits: logits.argmax(-1))),
    ("it gives logits for one place of each text", then(lambda logits: logits[:, -1])),
    ("it returns a tuple of 2", then(lambda logits: (logits, None))),
    ("has the shape (3, 8, 32)", gpt(lambda self, tokens: self.norm(self.through(self.token(tokens))))),
    ("self.blocks is not registered: use nn.ModuleList", gpt(make_blocks=list_of_blocks)),
    ("is n_layer used", gpt(make_blocks=one_block)),
    ("is n_head used", gpt(make_blocks=always_one_head)),
    ("two calls in evaluation differ", of(block(dropout_layer=AlwaysOn))),
    ("two calls in training give the same", of(block(dropout_layer=Never))),
    ("with dropout=0, two calls in training differ", of(block(dropout_layer=AlwaysAThird))),
    ("two with the same parameters give two results", gpt(make_places=a_hidden_table)),
    ("two with the same parameters give two results", gpt(make_places=a_plain_tensor)),
    ("self.table is not registered and will not be learned", gpt(make_places=learned_in_vain)),
    ("output 1 doesn't change with input 0: it must see all", of(NoAttention)),
    ("doesn't change with input 0: it must see all", of(attending(masked(lambda ones: ones.tril() & ones.triu(-2))))),
    ("context_length should be 8, and is missing", NoContext),
    ("it raises RuntimeError", OfOneLength),
    ("does a place depend on how long the text is", FromTheEnd),
    ("when other texts stand in its batch", PlacesOfTheBatch),
    ("place.weight gets no gradient", gpt(
        placed=lambda self, x, start: x + self.place.weight[: x.shape[1]].detach())),
    ("no gradient reaches its parameters", gpt(no_grad)),
    ("token.weight gets no gradient", type("Frozen", (Frozen,), {"begin": untied_and_small})),
    ("that should be learned by heart", then(lambda logits: logits.clamp(-0.5, 0.5))),
    ("n_layer=2, n_head=2, n_embd=32 it makes a float", lambda *sizes: sum(sizes) / 2),
]  # fmt: skip


class Untied(GPT):
    """Begins as PyTorch begins, and not far from a guess."""

    begin = untied


class GivenBehind(GPT):
    """As a function of keywords, with its dropout on the embeddings alone."""

    def __init__(self, vocab_size, context_length, n_layer, n_head, n_embd, dropout=0.0):
        super().__init__(vocab_size, context_length, n_layer, n_head, n_embd)
        self.first = nn.Dropout(dropout)

    def placed(self, x, start):
        return self.first(super().placed(x, start))


class Functional(Dropout):
    """F.dropout, which must be told whether the block learns."""

    def forward(self, x):
        return F.dropout(x, self.p, training=self.training)


class Slowly(Block):
    """RMSNorm, and branches that begin with next to nothing."""

    norm = RMSNorm
    dropout_layer = Functional

    def __init__(self, C, num_heads, dropout=0.0):
        super().__init__(C, num_heads, dropout)
        self.shares = nn.ParameterList(torch.full((C,), 1e-3) for _ in range(2))

    def forward(self, x, cache=None):
        x = x + self.drop(self.shares[0] * self.heads(self.norm1(x)))
        return x + self.drop(self.shares[1] * self.mlp(self.norm2(x)))


WRONG = {"7b": BLOCKS, "7f": GPTS}
RIGHT = {
    "7b": [Block, NanoBlock, TorchBlock, TorchPostNorm, RotaryBlock, LoopBlock, PostNormBlock, Sandwich, Slowly],
    "7f": [
        GPT, NanoGPT, RotaryGPT, SinusGPT, AlibiGPT, PostNormGPT, TorchGPT, TorchPreNormGPT, Untied, GivenBehind,
        of(Sandwich), of(ParallelBlock),
    ],
}  # fmt: skip
