"""Cutting and joining loses nothing, whatever the widths."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float
from torch import Tensor

from rlgraph import rows
from rlgraph.records import Prompts
from rlgraph.types import alternatives
from tests.toys import prompts_of

PROMPTS = alternatives(Prompts)[0]
PER_TOKEN = alternatives(Float[Tensor, "batch seq"])[0]
LENGTHS = st.lists(st.integers(1, 9), max_size=6)


@given(st.lists(LENGTHS, min_size=1, max_size=4))
def test_joined_pieces_hold_every_row_in_order(pieces):
    joined = rows.join([prompts_of(lengths) for lengths in pieces], PROMPTS)
    flat = [length for lengths in pieces for length in lengths]
    assert joined.attention_mask.sum(-1).tolist() == flat
    assert [c["row"] for c in joined.columns] == [i for p in pieces for i in range(len(p))]
    assert not joined.tokens[~joined.attention_mask].any(), "padding is 0"


@given(LENGTHS, st.integers(0, 5))
def test_aligning_drops_padding_and_nothing_else(lengths, extra):
    prompts = prompts_of(lengths)
    wide = rows.resize(prompts, PROMPTS, prompts.tokens.shape[1] + extra)
    x = wide.tokens * 1.0
    aligned = rows.align({"p": wide, "x": x}, {"p": PROMPTS, "x": PER_TOKEN})
    assert (
        aligned["p"].tokens.shape == aligned["x"].shape == (len(lengths), max(lengths, default=0))
    )
    assert aligned["x"].sum() == x.sum()


def test_a_record_decides_the_width_of_a_wider_array():
    aligned = rows.align(
        {"p": prompts_of([2, 1]), "x": torch.zeros(2, 7)}, {"p": PROMPTS, "x": PER_TOKEN}
    )
    assert aligned["x"].shape == (2, 2)


def test_joining_nothing_is_an_error():
    with pytest.raises(ValueError, match="no piece to join into a Prompts"):
        rows.join([], PROMPTS)
