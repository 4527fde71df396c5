import pytest
import torch

import rlgraph  # noqa: F401  (before transformers: hides extensions that do not load)
from rlgraph.errors import EngineError
from rlgraph.training.model import (
    Headed,
    checkpoint_tensors,
    compute_dtype,
    load,
    load_tensors,
    training_dtype,
)

SIZES = {
    "vocab_size": 20,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 48,
    "initializer_range": 0.5,
    "pad_token_id": 0,
}
CPU = torch.device("cpu")


def gemma():
    """Scales its embeddings and caps its logits after the head."""
    from transformers import Gemma2Config, Gemma2ForCausalLM

    torch.manual_seed(0)
    config = Gemma2Config(**SIZES, head_dim=16, final_logit_softcapping=2.0, sliding_window=4)
    return Gemma2ForCausalLM(config).eval()


def gpt2(dropout):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    drop = {"resid_pdrop": dropout, "embd_pdrop": dropout, "attn_pdrop": dropout}
    return GPT2LMHeadModel(GPT2Config(vocab_size=20, n_embd=32, n_layer=1, n_head=2, **drop))


def test_picked_positions_equal_those_of_the_whole_model():
    model = gemma()
    tokens = torch.randint(20, (3, 7))
    with torch.no_grad():
        whole = model(tokens).logits
        picked = Headed(model, "lm")(tokens, torch.tensor([2, 13, 20]))
        assert torch.allclose(picked, whole.flatten(0, 1)[[2, 13, 20]], atol=1e-5)
        # Used without the wrapper, the model is what it was.
        assert torch.allclose(model(tokens).logits, whole)


def test_padding_on_the_right_does_not_reach_real_tokens():
    model = Headed(gemma(), "lm")
    tokens = torch.randint(1, 20, (1, 6))
    padded = torch.nn.functional.pad(tokens, (0, 4))
    with torch.no_grad():
        assert torch.allclose(
            model(tokens, torch.arange(6)), model(padded, torch.arange(6)), atol=1e-5
        )


@pytest.mark.parametrize("head", ["lm", "value"])
def test_dropout_is_off_even_in_training_mode(tmp_path, head):
    (gpt2(0.5) if head == "lm" else gemma()).save_pretrained(tmp_path)
    model = Headed(load(str(tmp_path), head, torch.float32), head).train()
    tokens, positions = torch.randint(20, (2, 5)), torch.arange(8)
    assert torch.equal(model(tokens, positions), model(tokens, positions))


def test_tied_tensors_appear_once_and_load_into_a_copy():
    torch.manual_seed(1)
    one, other = gemma(), gemma()
    with torch.no_grad():
        for parameter in one.parameters():
            parameter.add_(1)
    tensors = checkpoint_tensors(one)
    assert "lm_head.weight" not in tensors
    load_tensors(other, tensors)
    tokens = torch.randint(20, (1, 5))
    assert torch.equal(one(tokens).logits, other(tokens).logits)
    # A tied head may also be given under its own name.
    load_tensors(other, one.state_dict())


def test_a_critic_takes_over_a_reward_models_head(tmp_path):
    from transformers import LlamaConfig, LlamaForSequenceClassification

    reward_model = LlamaForSequenceClassification(LlamaConfig(**SIZES, num_labels=1))
    reward_model.save_pretrained(tmp_path)
    critic = load(str(tmp_path), "value", torch.float32)
    assert torch.equal(critic.score.weight, reward_model.score.weight)
    assert not critic.score.bias.any()


def test_dtypes():
    assert compute_dtype("auto", CPU) == torch.float32
    assert compute_dtype("auto", torch.device("cuda")) == torch.bfloat16
    assert compute_dtype("float16", CPU) == torch.float16
    with pytest.raises(EngineError, match="float16"):
        training_dtype("float16", CPU)
