"""The names of helpers/core/gpt.py and helpers/core/modern.py."""

from helpers.core.gpt import GPT, Block, GPTConfig, attention_maps, count_parameters
from helpers.core.modern import ModernConfig, ModernGPT, build_gpt

__all__ = ["GPT", "Block", "GPTConfig", "ModernConfig", "ModernGPT", "attention_maps", "build_gpt", "count_parameters"]
