"""A GPT laid out for writing on a CPU: the same logits but for rounding, for a few tokens at a time, in half the time.

`generate(..., reader=quick_reader(model, ...))` uses it. For a single token, modules that call modules and matrices
that are stacked anew cost as much as the matrix products. Here they are prepared once.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from helpers.core.attention import MultiHeadAttention
from helpers.core.gpt import GPT, Block
from helpers.core.modern import ModernAttention, ModernBlock, ModernGPT, SquaredReLU, SwiGLU
from helpers.core.sampling import FEW, Drawing
from helpers.support.modes import evaluating, one_thread
from helpers.writing.drafting import Counts

OURS = (GPT, Block, MultiHeadAttention, ModernGPT, ModernBlock, ModernAttention, SquaredReLU, SwiGLU)
PYTORCHS = (nn.Linear, nn.Embedding, nn.LayerNorm, nn.RMSNorm, nn.GELU, nn.Dropout)
HOLDERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
MLPS = ([nn.Linear, nn.GELU, nn.Linear], [nn.Linear, SquaredReLU, nn.Linear], [SwiGLU, nn.Linear])
FORWARD = {kind: kind.forward for kind in (*OURS, *PYTORCHS, *HOLDERS)}  # as they were when this file was read


def quick_reader(
    model: nn.Module,
    rules: Drawing | None = None,
    generator: torch.Generator | None = None,
    draft: Counts | None = None,
) -> "QuickGPT | None":
    """A reader for one text of `model`, or None where the model itself must be asked.

    With a `draft`, and the `rules` and the `generator` of the drawing, several tokens are read in one pass. Whoever has
    changed gpt.py or modern.py gets None too, for then the first logits differ from the model's.
    """
    if not is_plain(model):
        return None
    guess = None if draft is None else draft.ahead((rules or Drawing()).draw, generator)
    window = torch.arange(min(5, model.config.context_length))[None] % model.config.vocab_size
    with torch.no_grad(), evaluating(model):
        right = model(window)[:, -1]
    same = torch.allclose(QuickGPT(model)(window), right, rtol=1e-3, atol=1e-3)
    return QuickGPT(model, guess) if same else None


def is_plain(model: nn.Module) -> bool:
    """Whether `model` is one of this package down to its last part, in float32 on the CPU, and nobody listens in."""
    if type(model) not in (GPT, ModernGPT) or torch.is_autocast_enabled("cpu"):
        return False
    if torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks:
        return False
    for part in model.modules():
        heard = part._forward_hooks or part._forward_pre_hooks
        own = "forward" in vars(part) or FORWARD.get(type(part)) is not type(part).forward
        if heard or own:
            return False
    for block in model.blocks:
        asking = (block.attention.W_query, block.attention.W_key, block.attention.W_value)
        if [type(layer) for layer in block.mlp] not in MLPS or len({layer.bias is None for layer in asking}) == 2:
            return False
    return all(p.dtype == torch.float32 and p.device.type == "cpu" for p in model.parameters())


def product(layers: list[nn.Linear], by_columns: bool) -> Callable[[Tensor], Tensor]:
    """A function that applies all layers in one matrix product and joins their outputs."""
    weight = layers[0].weight if len(layers) == 1 else torch.cat([layer.weight for layer in layers])
    matrix = weight.t().contiguous() if by_columns else weight.t()
    if layers[0].bias is None:
        return lambda x: torch.mm(x, matrix)
    bias = torch.cat([layer.bias for layer in layers])
    return lambda x: torch.addmm(bias, x, matrix)


def norm(layer: nn.LayerNorm | nn.RMSNorm) -> Callable[[Tensor], Tensor]:
    shape, weight, eps = layer.normalized_shape, layer.weight, layer.eps
    if isinstance(layer, nn.RMSNorm):
        return lambda x: torch.rms_norm(x, shape, weight, eps)
    return lambda x: torch.layer_norm(x, shape, weight, layer.bias, eps)


def gate(x: Float[Tensor, "n two_widths"]) -> Float[Tensor, "n width"]:
    opening, content = x.chunk(2, dim=-1)
    return F.silu(opening) * content


def activation(mlp: nn.Sequential) -> Callable[[Tensor], Tensor]:
    if isinstance(mlp[0], SwiGLU):
        return gate
    if isinstance(mlp[1], nn.GELU):
        return partial(F.gelu, approximate=mlp[1].approximate)
    return mlp[1].forward


class QuickBlock:
    """A block of a GPT, and the keys and values that it has computed so far."""

    def __init__(self, block: Block, by_columns: bool):
        layer, mlp = block.attention, block.mlp
        self.heads = layer.num_heads
        self.width = layer.W_query.out_features // self.heads
        self.shared = layer.W_key.out_features // self.width  # heads of keys, and of values
        self.place = layer.place if isinstance(layer, ModernAttention) else None
        self.cache = torch.empty(1, 2 * self.shared, len(layer.mask), self.width)  # keys, then values
        self.norm1, self.norm2 = norm(block.norm1), norm(block.norm2)
        self.query_key_value = product([layer.W_query, layer.W_key, layer.W_value], by_columns)
        self.out = product([layer.out_proj], by_columns)
        self.up, self.down = product([mlp[0]], by_columns), product([mlp[-1]], by_columns)
        self.activate = activation(mlp)

    def __call__(self, x: Float[Tensor, "n C"], start: int, mask: Tensor | None) -> Float[Tensor, "n C"]:
        """The rows from position `start` on; they look at each other as `mask` says, or at everything before."""
        n, end = len(x), start + len(x)
        heads = self.query_key_value(self.norm1(x)).view(1, n, -1, self.width).transpose(1, 2)
        if self.place:
            placed, value = heads.split((self.heads + self.shared, self.shared), dim=1)
            heads = torch.cat([self.place(placed, start), value], dim=1)
        self.cache[:, :, start:end] = heads[:, self.heads :]
        key, value = self.cache[:, :, :end].chunk(2, dim=1)
        query, group = heads[:, : self.heads], self.shared < self.heads
        context = F.scaled_dot_product_attention(query, key, value, mask, enable_gqa=group)
        x = x + self.out(context.transpose(1, 2).reshape(n, -1))
        return x + self.down(self.activate(self.up(self.norm2(x))))


class QuickGPT:
    """A plain model, asked for the logits after a window of tokens; what it has read before, it doesn't read again.

    `guess(tokens, most)` names up to `most` tokens that may come next. They are read along in the same pass, and when
    they do come, the answer is there. Then the matrices are copied by columns, which is quicker for several rows.
    """

    def __init__(self, model: GPT, guess: Callable[[list[int], int], list[int]] | None = None):
        self.model, self.guess = model, guess
        with torch.no_grad():
            self.blocks = [QuickBlock(block, by_columns=guess is not None) for block in model.blocks]
        self.read: list[int] = []  # the tokens whose keys and values are in the caches
        self.start = 0  # the position of the first row of logits
        self.logits = torch.empty(0)

    def __call__(self, window: Int64[Tensor, "1 T"]) -> Float[Tensor, "1 V"]:
        tokens = window[0].tolist()
        same = len(tokens)
        while tokens[:same] != self.read[:same]:
            same -= 1
        last = len(tokens) - 1
        if same <= last or last < self.start:
            self.start = min(same, last)
            guesses = self.guess(tokens, self.model.config.context_length - len(tokens)) if self.guess else []
            self.read = tokens + guesses
            self.logits = self.rows(self.read, self.start)
        return self.logits[last - self.start, None]

    @torch.no_grad()
    def rows(self, tokens: list[int], start: int) -> Float[Tensor, "n V"]:
        """The logits at the positions from `start` on: n rows in one pass."""
        end = len(tokens)
        alone = start == end - 1 and not getattr(self.model.config, "window", None)
        mask = None if alone else self.model.blocks[0].attention.mask_for(end - start, end)
        text = torch.tensor([tokens])
        past, new = text.tensor_split([start], dim=1)
        looks_back = {"past": past} if isinstance(self.model, ModernGPT) else {}
        with one_thread() if end - start <= FEW else nullcontext():
            x = self.model.embed(new, start, **looks_back)[0]
            for block in self.blocks:
                x = block(x, start, mask)
            return self.model.logits(x)
