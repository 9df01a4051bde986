"""The names of helpers/core/gpt.py and helpers/core/modern.py."""

from helpers.core.gpt import GPT, Block, GPTConfig, attention_maps, count_parameters
from helpers.core.modern import ModernConfig, ModernGPT

__all__ = ["GPT", "Block", "GPTConfig", "ModernConfig", "ModernGPT", "attention_maps", "count_parameters"]
