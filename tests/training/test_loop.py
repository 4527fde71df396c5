"""The loop on a bigram model with plain gradient descent, over ranks that are threads."""

import threading
from itertools import chain

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float
from torch import Tensor

from rlgraph.errors import EngineError
from rlgraph.metrics import collect, log, merge_into
from rlgraph.records import Rollout
from rlgraph.rows import resize
from rlgraph.settings import RunContext, TrainerConfig
from rlgraph.testing import rollouts
from rlgraph.training.loop import TrainingLoop
from rlgraph.types import Record

VOCABULARY = 11


class ThreadRanks:
    def __init__(self, rank, world_size, board, barrier):
        self.rank, self.world_size = rank, world_size
        self.board, self.barrier = board, barrier

    def _all(self, values):
        self.board[self.rank] = values.clone()
        self.barrier.wait(10)
        everything = torch.stack(self.board[: self.world_size])
        self.barrier.wait(10)
        return everything

    def sum(self, values):
        return self._all(values).sum(0)

    def max(self, values):
        return self._all(values).max(0).values


class Bigram:
    """Logits by the previous token; gradient descent without momentum."""

    device = torch.device("cpu")

    def __init__(self, ranks):
        start = torch.Generator().manual_seed(0)
        self.table = torch.randn(VOCABULARY, VOCABULARY, generator=start).requires_grad_()
        self.ranks = ranks
        self.passes = []
        self.steps = 0

    def forward(self, tokens, positions):
        self.passes.append(tuple(tokens.shape))
        return self.table[tokens].flatten(0, 1)[positions]

    def backward(self, loss, *, last):
        loss.backward()

    def step(self, learning_rate):
        gradient = self.ranks.sum(self.table.grad)
        norm = float(gradient.norm())
        if torch.isfinite(gradient).all():
            with torch.no_grad():
                self.table -= learning_rate * gradient
        self.table.grad = None
        self.steps += 1
        return norm


def run(loss, rows, inputs, *, ranks=1, budget=10**6, version=0, **options):
    """Backends of all ranks after one update, and the metrics of all ranks merged."""
    barrier, board = threading.Barrier(ranks), [torch.zeros(()) for _ in range(ranks)]
    backends = [Bigram(ThreadRanks(rank, ranks, board, barrier)) for rank in range(ranks)]
    merged, errors = {}, []
    asked = {"epochs": 1, "minibatches": 1, "aggregation": "token-mean", "constant_length": None}

    def work(backend):
        config, context = TrainerConfig(learning_rate=0.5), RunContext(seed=3, steps=10)
        loop = TrainingLoop(backend, "lm", config, context, 1.0, budget)
        try:
            with collect() as found:
                loop.update(version, loss, rows, inputs, **(asked | options))
            merge_into(merged, found)
        except Exception as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(backend,)) for backend in backends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    if errors:
        raise errors[0]
    return backends, merged


def weighted(
    logprobs: Float[Tensor, "batch seq"],
    entropy: Float[Tensor, "batch seq"],
    rollout: Rollout,
    advantages: Float[Tensor, " batch"],
) -> Float[Tensor, "batch seq"]:
    ratio = (logprobs - rollout.logprobs).exp()
    log("policy/ratio", ratio, rollout.action_mask)
    return -ratio * advantages[:, None] - 0.1 * entropy


def by_row(logprobs: Float[Tensor, "batch seq"]) -> Float[Tensor, " batch"]:
    return -logprobs.sum(-1)


def advantages_for(rows, seed=0):
    return torch.randn(len(rows), generator=torch.Generator().manual_seed(seed))


acting_rollouts = rollouts().filter(lambda rollout: bool(rollout.action_mask.any()))


@settings(max_examples=40, deadline=None)
@given(
    acting_rollouts,
    st.sampled_from(["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"]),
    st.integers(1, 3),
    st.sampled_from([1, 8, 20]),
    st.integers(1, 3),
    st.integers(0, 3),
)
def test_ranks_micro_batches_and_padding_change_nothing(
    rollout, mode, ranks, budget, minibatches, padding
):
    advantages = advantages_for(rollout)
    options = {"minibatches": minibatches, "epochs": 2, "aggregation": mode}
    (whole,), expected = run(weighted, rollout, {"advantages": advantages}, **options)
    wide = resize(rollout, Record(Rollout), rollout.tokens.shape[1] + padding)
    backends, found = run(
        weighted, wide, {"advantages": advantages}, ranks=ranks, budget=budget, **options
    )
    for backend in backends:
        assert torch.allclose(backend.table, whole.table, atol=1e-5)
        assert len(backend.passes) == len(backends[0].passes)
        assert all(rows * width <= budget or rows == 1 for rows, width in backend.passes)
    assert found.keys() == expected.keys()
    for name, metric in expected.items():
        assert found[name].value == pytest.approx(metric.value, rel=1e-4, abs=1e-5), name
        assert found[name].count == metric.count


@settings(max_examples=20, deadline=None)
@given(acting_rollouts, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(rollout, random):
    order = list(range(len(rollout)))
    random.shuffle(order)
    advantages = advantages_for(rollout)
    (one,), _ = run(weighted, rollout, {"advantages": advantages})
    (other,), _ = run(weighted, rollout[torch.tensor(order)], {"advantages": advantages[order]})
    assert torch.allclose(one.table, other.table, atol=1e-6)


def small(lengths=(3, 4, 2, 5), width=6):
    """Rows of one prompt token and some actions."""
    position, sizes = torch.arange(width), torch.tensor(lengths)[:, None]
    real = position < sizes
    tokens = torch.randint(VOCABULARY, real.shape, generator=torch.Generator().manual_seed(1))
    count = len(lengths)
    return Rollout(
        tokens=tokens * real,
        attention_mask=real,
        action_mask=real & (position > 0),
        logprobs=-torch.ones(real.shape) * (real & (position > 0)),
        group=torch.arange(count),
        truncated=torch.zeros(count, dtype=torch.bool),
        policy_version=torch.zeros(count, dtype=torch.long),
        response=[""] * count,
        columns=[{}] * count,
        batch_size=[count],
    )


def test_one_step_is_gradient_descent_on_the_naive_loss():
    rows = small()
    (backend,), metrics = run(by_row, rows, {})
    table = Bigram(None).table.detach().double().requires_grad_()
    whole = table[rows.tokens[:, :-1]].log_softmax(-1)
    chosen = whole.gather(-1, rows.tokens[:, 1:, None]).squeeze(-1)
    loss = -(chosen * rows.action_mask[:, 1:]).sum() / len(rows)
    (gradient,) = torch.autograd.grad(loss, table)
    assert torch.allclose(backend.table.double(), table - 0.5 * gradient, atol=1e-6)
    assert metrics["policy/loss"].value == pytest.approx(float(loss.detach()), rel=1e-5)
    assert metrics["policy/grad_norm"].value == pytest.approx(float(gradient.norm()), rel=1e-5)


def test_the_gradient_equals_finite_differences():
    rows, advantages, step = small(), torch.tensor([1.0, -2.0, 0.5, 3.0]).double(), 1e-6
    start = Bigram(None).table.detach().double()

    def loss_at(table):
        whole = table[rows.tokens[:, :-1]].log_softmax(-1)
        chosen = whole.gather(-1, rows.tokens[:, 1:, None]).squeeze(-1)
        mask = rows.action_mask[:, 1:]
        ratio = (chosen - rows.logprobs[:, 1:].double()).exp()
        entropy = -(whole.exp() * whole).sum(-1)
        terms = -ratio * advantages[:, None] - 0.1 * entropy
        return (terms * mask).sum() / mask.sum()

    (backend,), _ = run(weighted, rows, {"advantages": advantages.float()})
    moved = (start - backend.table.detach()) / 0.5
    before = int(rows.tokens[0, 0])
    for after in range(VOCABULARY):
        shift = torch.zeros_like(start)
        shift[before, after] = step
        slope = (loss_at(start + shift) - loss_at(start - shift)) / (2 * step)
        assert float(moved[before, after]) == pytest.approx(float(slope), abs=1e-5)


def test_minibatches_cover_every_row_once_an_epoch_and_differ_between_updates():
    seen = []

    def spy(
        logprobs: Float[Tensor, "batch seq"], row: Float[Tensor, " batch"]
    ) -> Float[Tensor, "batch seq"]:
        seen.append(sorted(row.int().tolist()))
        return -logprobs

    rows, numbers = small((3,) * 6), {"row": torch.arange(6.0)}
    (backend,), _ = run(spy, rows, numbers, epochs=2, minibatches=3)
    assert backend.steps == 6
    assert sorted(chain(*seen[:3])) == sorted(chain(*seen[3:])) == list(range(6))
    first, seen[:] = list(seen), []
    run(spy, rows, numbers, epochs=2, minibatches=3)
    assert seen == first
    seen.clear()
    run(spy, rows, numbers, epochs=2, minibatches=3, version=1)
    assert seen != first


def test_more_minibatches_than_rows_make_no_empty_step():
    (backend,), _ = run(by_row, small(), {}, minibatches=9)
    assert backend.steps == 4


def test_rows_without_actions_are_left_out_and_counted():
    rows = small((3, 1, 4, 1))
    (backend,), metrics = run(by_row, rows, {}, minibatches=4)
    assert backend.steps == 2
    assert metrics["policy/rows_without_action"].value == 2
    assert metrics["policy/tokens"].value == 7


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_loss_that_is_not_finite_skips_the_step_on_all_ranks(ranks):
    rows = small()

    def broken(
        logprobs: Float[Tensor, "batch seq"], scale: Float[Tensor, " batch"]
    ) -> Float[Tensor, "batch seq"]:
        return logprobs + scale[:, None]

    scale = torch.tensor([0.0, 0.0, torch.inf, 0.0])
    backends, metrics = run(broken, rows, {"scale": scale}, ranks=ranks, budget=5)
    for backend in backends:
        assert torch.equal(backend.table, Bigram(None).table)
    assert metrics["policy/skipped_steps"].value == 1
    assert "policy/loss" not in metrics
    _, metrics = run(broken, rows, {"scale": scale}, minibatches=4)
    assert metrics["policy/skipped_steps"].value == 1
    assert metrics["policy/loss"].count == 3


def test_nothing_to_train_on_is_an_error():
    with pytest.raises(EngineError, match="none of 2 rows has an action"):
        run(by_row, small((1, 1)), {})
    with pytest.raises(EngineError, match="none of 0 rows"):
        run(by_row, small()[:0], {})


def test_malformed_rows_are_named():
    rows = small()
    rows.action_mask[2, 0] = True
    with pytest.raises(EngineError, match="row 2: its first token is an action"):
        run(by_row, rows, {})
    rows = small()
    rows.action_mask[1, 5] = True
    with pytest.raises(EngineError, match="row 1: an action token is padding"):
        run(by_row, rows, {})
    rows = small()
    rows.attention_mask[3, 0] = False
    with pytest.raises(EngineError, match="row 3: padding before"):
        run(by_row, rows, {})
