"""Prompts: where they come from, and how they are drawn."""

from rlgraph.data.settings import DataConfig, PromptSource, StreamSettings
from rlgraph.data.source import build_stream, take_prompts
from rlgraph.data.stream import Stream

__all__ = [
    "DataConfig",
    "PromptSource",
    "Stream",
    "StreamSettings",
    "build_stream",
    "take_prompts",
]
