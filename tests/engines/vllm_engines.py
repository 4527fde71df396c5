"""What the tests of the vLLM sampler share, besides the fixtures in conftest.py."""

import pytest
import torch

from rlgraph.engines.protocols import Weights
from rlgraph.engines.vllm import VllmSampler
from rlgraph.settings import PolicyConfig, RunContext, SamplerConfig
from rlgraph.training.model import checkpoint_tensors

EOS = 1
CLOSE = 1e-4
# The second one fills a block of 32 tokens, so that it sits in the prefix cache.
TEXTS = ["1+2=", "what is 7*8? " * 5, "a", "12-3=", "hello."]


def build(path, seed=5, cache=64, **sampler):
    config = SamplerConfig(**({"max_new_tokens": 10, "kv_cache_mib": cache} | sampler))
    return VllmSampler(PolicyConfig(path=path, sampler=config), RunContext(seed=seed))


both_heads = pytest.mark.parametrize("path", ["tied", "untied"], indirect=True)


def weights_of(model, version):
    return Weights(version, checkpoint_tensors(model))


def jolt(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)


def naive_logprobs(model, rollout, temperature=1.0, keep=None):
    """Row by row, without padding or cache; ``keep`` most probable tokens."""
    result = torch.zeros_like(rollout.logprobs)
    for row, real in enumerate(rollout.attention_mask):
        tokens = rollout.tokens[row][real]
        with torch.no_grad():
            scores = model(input_ids=tokens[None], use_cache=False).logits[0, :-1] / temperature
        if keep is not None:
            least = scores.topk(keep).values[:, -1:]
            scores = scores.masked_fill(scores < least, -torch.inf)
        result[row, 1 : len(tokens)] = scores.log_softmax(-1)[range(len(tokens) - 1), tokens[1:]]
    return result.where(rollout.action_mask, 0.0)


def same(left, right):
    return torch.equal(left.tokens, right.tokens) and torch.equal(left.logprobs, right.logprobs)
