"""The names of helpers/core/attention.py, and of the book's classes in helpers/world/book.py."""

from helpers.core.attention import KVCache, MultiHeadAttention, attention, causal_mask
from helpers.world.book import CausalAttention, MultiHeadAttentionWrapper, SelfAttention

__all__ = [
    "CausalAttention",
    "KVCache",
    "MultiHeadAttention",
    "MultiHeadAttentionWrapper",
    "SelfAttention",
    "attention",
    "causal_mask",
]
