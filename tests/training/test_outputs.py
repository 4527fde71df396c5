import torch
from hypothesis import given
from hypothesis import strategies as st

from rlgraph.testing import rollouts
from rlgraph.training.outputs import Actions, named_outputs


@given(rollouts(), st.sampled_from([0.3, 1.0, 2.0]), st.integers(0, 2**31 - 1))
def test_logprobs_and_entropy_equal_a_full_log_softmax(rollout, temperature, seed):
    logits = torch.randn(
        *rollout.tokens.shape, 11, generator=torch.Generator().manual_seed(seed), dtype=torch.double
    )
    actions = Actions(rollout.tokens, rollout.action_mask)
    width = actions.inputs.shape[1]
    raw = (3 * logits[:, :width]).flatten(0, 1)[actions.positions]
    found = named_outputs(raw, actions, "lm", temperature, ("logprobs", "entropy"))
    whole = (3 * logits / temperature).log_softmax(-1)
    for row, position in rollout.action_mask.nonzero().tolist():
        before = whole[row, position - 1]
        chosen = before[rollout.tokens[row, position]]
        entropy = -(before.exp() * before).sum()
        assert torch.allclose(found["logprobs"][row, position].double(), chosen, atol=1e-5)
        assert torch.allclose(found["entropy"][row, position].double(), entropy, atol=1e-5)
    for values in found.values():
        assert values.dtype == torch.float32
        assert not values[~rollout.action_mask].any()


def test_values_are_those_before_the_action():
    tokens = torch.tensor([[5, 6, 7, 8]])
    actions = Actions(tokens, torch.tensor([[False, False, True, True]]))
    raw = torch.tensor([[10.0], [11.0], [12.0]])[actions.positions]
    found = named_outputs(raw, actions, "value", 1.0, ("values",))
    assert found["values"].tolist() == [[0.0, 0.0, 11.0, 12.0]]


def test_only_what_is_asked_for_is_computed():
    actions = Actions(torch.tensor([[1, 2]]), torch.tensor([[False, True]]))
    assert set(named_outputs(torch.zeros(1, 5), actions, "lm", 1.0, ("logprobs",))) == {"logprobs"}
