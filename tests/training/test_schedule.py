import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlgraph.errors import EngineError
from rlgraph.settings import TrainerConfig
from rlgraph.training.schedule import learning_rate


def rates(total, **settings):
    config = TrainerConfig(learning_rate=1.0, **settings)
    return [learning_rate(config, step, total) for step in range(total)]


def test_warm_up_then_constant():
    assert rates(5, warmup_steps=2) == [0.5, 1.0, 1.0, 1.0, 1.0]


def test_linear_reaches_the_minimum_at_the_last_step():
    expected = [0.5, 1.0, 1.0, 0.75, 0.5]
    assert rates(5, schedule="linear", warmup_steps=2, min_learning_rate=0.5) == expected


def test_cosine():
    assert rates(3, schedule="cosine") == pytest.approx([1.0, 0.5, 0.0])


def test_a_missing_rate_is_an_error():
    with pytest.raises(EngineError, match="learning_rate is not set"):
        learning_rate(TrainerConfig(), 0, 1)


@given(
    st.sampled_from(["constant", "linear", "cosine"]),
    st.integers(0, 10),
    st.integers(1, 30),
    st.integers(0, 60),
)
def test_always_between_zero_and_the_peak_and_falling_after_the_warm_up(kind, warmup, total, step):
    config = TrainerConfig(learning_rate=1.0, schedule=kind, warmup_steps=warmup)
    rate, later = (learning_rate(config, at, total) for at in (step, step + 1))
    assert 0 <= rate <= 1
    assert step < warmup or later <= rate
