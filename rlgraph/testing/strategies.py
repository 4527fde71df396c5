"""Hypothesis strategies for rollouts, and for what is computed from them.

Shapes and masks are drawn by hypothesis, so that failures shrink to short rows.
Numbers come from a seeded generator, so that drawing them is cheap.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from hypothesis import strategies as st
from torch import Tensor

from rlgraph.records import Rewards, Rollout
from rlgraph.rows import resize
from rlgraph.types import Array, Record

Rows = TypeVar("Rows", Tensor, Rollout)
_Draw = Callable[[st.SearchStrategy[Any]], Any]
_seeds = st.integers(0, 2**31 - 1)


@st.composite
def rollouts(
    draw: _Draw,
    *,
    max_groups: int = 4,
    max_samples: int = 4,
    max_turns: int = 3,
    max_turn_length: int = 4,
    max_prompt_length: int = 4,
    vocabulary: int = 11,
) -> Rollout:
    """Valid rollouts in all the shapes that occur.

    Among them: ragged lengths, groups of one, empty responses and rows without
    any action token, several turns with observation tokens in between, groups
    whose rows are interleaved, and padding beyond the longest row.
    """
    sizes = draw(st.lists(st.integers(1, max_samples), min_size=1, max_size=max_groups))
    ids = draw(st.lists(st.integers(0, 999), min_size=len(sizes), max_size=len(sizes), unique=True))
    group = [name for name, size in zip(ids, sizes, strict=True) for _ in range(size)]
    group = draw(st.permutations(group))
    length = st.integers(0, max_turn_length)
    turns = st.lists(st.tuples(length, length), max_size=max_turns)
    rows = []
    for _ in group:
        row = [False] * draw(st.integers(1, max_prompt_length))
        for actions, observations in draw(turns):
            row += [True] * actions + [False] * observations
        rows.append(row)
    width = max(map(len, rows)) + draw(st.integers(0, 2))
    acted = torch.tensor([row + [False] * (width - len(row)) for row in rows])
    lengths = torch.tensor([len(row) for row in rows])
    real = torch.arange(width) < lengths[:, None]
    generator = torch.Generator().manual_seed(draw(_seeds))
    tokens = torch.randint(vocabulary, acted.shape, generator=generator).where(real, 0)
    logprobs = -torch.rand(acted.shape, generator=generator) * draw(st.sampled_from([0.1, 3.0]))
    flags = torch.randint(2, (2, len(rows)), generator=generator)
    return Rollout(
        tokens=tokens,
        attention_mask=real,
        action_mask=acted,
        logprobs=logprobs.where(acted, 0.0),
        group=torch.tensor(group),
        truncated=flags[0].bool(),
        policy_version=flags[1],
        response=[" ".join(map(str, t[m].tolist())) for t, m in zip(tokens, acted, strict=True)],
        columns=[{"prompt": str(name)} for name in group],
        batch_size=[len(rows)],
    )


@st.composite
def rewards_for(draw: _Draw, rollout: Rollout, *, invalid: bool = True) -> Rewards:
    """A reward for each row: equal, binary or spread out; some invalid if ``invalid``."""
    count = len(rollout)
    # No denormal numbers: engines switch them off, which hypothesis takes for an error.
    score = draw(
        st.sampled_from(
            [
                st.just(0.5),
                st.sampled_from([0.0, 1.0]),
                st.floats(-100, 100, width=32, allow_subnormal=False),
            ]
        )
    )
    scores = torch.tensor(draw(st.lists(score, min_size=count, max_size=count)))
    if not invalid:
        return Rewards.of(scores)
    valid = draw(st.lists(st.sampled_from([True, True, False]), min_size=count, max_size=count))
    return Rewards.of(scores.where(torch.tensor(valid), torch.nan))


@st.composite
def scored_rollouts(draw: _Draw, *, invalid: bool = True, **shape: int) -> tuple[Rollout, Rewards]:
    """A rollout and its rewards; ``shape`` as for :func:`rollouts`."""
    rollout = draw(rollouts(**shape))
    return rollout, draw(rewards_for(rollout, invalid=invalid))


@st.composite
def action_values(draw: _Draw, rollout: Rollout, *, scale: float = 1.0) -> Tensor:
    """Normally distributed numbers ``[batch seq]`` at the action tokens; 0 elsewhere.

    Serves as advantages or values; minus its magnitude, as log-probabilities.
    """
    generator = torch.Generator().manual_seed(draw(_seeds))
    numbers = torch.randn(rollout.action_mask.shape, generator=generator) * scale
    return numbers.where(rollout.action_mask, 0.0)


def widen(value: Rows, extra: int) -> Rows:
    """The same rows with ``extra`` more positions of padding on the right.

    Whatever a node computes, this must not change it.
    """
    if isinstance(value, Rollout):
        return cast(Rows, resize(value, Record(Rollout), value.tokens.shape[1] + extra))
    kind = Array("any", frozenset(), ("batch", "seq"))
    return resize(value, kind, value.shape[1] + extra)
