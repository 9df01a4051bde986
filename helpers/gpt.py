"""The names of helpers/core/gpt.py, helpers/core/modern.py and helpers/core/counted.py."""

from helpers.core.counted import CountedConfig, CountedGPT, build_gpt
from helpers.core.gpt import GPT, Block, GPTConfig, attention_maps, count_parameters
from helpers.core.modern import ModernConfig, ModernGPT

__all__ = [
    "GPT",
    "Block",
    "CountedConfig",
    "CountedGPT",
    "GPTConfig",
    "ModernConfig",
    "ModernGPT",
    "attention_maps",
    "build_gpt",
    "count_parameters",
]
