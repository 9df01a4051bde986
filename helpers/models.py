"""Which kind of GPT a config or a saved run describes."""

from dataclasses import fields
from typing import Any

from helpers.counted import CountedConfig, CountedGPT
from helpers.errors import ConfigError
from helpers.gpt import GPT, GPTConfig
from helpers.modern import ModernConfig, ModernGPT


def build_gpt(config: GPTConfig) -> GPT:
    """The GPT that a config describes: plain, today's, or today's beside counts."""
    if isinstance(config, CountedConfig):
        return CountedGPT(config)
    return ModernGPT(config) if isinstance(config, ModernConfig) else GPT(config)


def config_of(sizes: dict[str, Any]) -> GPTConfig:
    """A config from its fields by name: the first kind that has them all. ConfigError if none has."""
    for kind in (GPTConfig, ModernConfig, CountedConfig):
        if sizes.keys() <= {field.name for field in fields(kind)}:
            return kind(**sizes)
    unknown = min(sizes.keys() - {field.name for field in fields(CountedConfig)})
    raise ConfigError(f"no GPT here has a setting {unknown}: it is one of another version of this project")
