"""The built-in model: the same each time, made once, and never shown what is held out."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlgraph import EngineError
from rlgraph.builtin import learning_rate, resolve, tiny
from rlgraph.builtin.cache import built, cache_folder
from rlgraph.builtin.heldout import is_held_out
from rlgraph.data import DataConfig
from rlgraph.data.dataset import PromptDataset
from rlgraph.data.settings import StreamSettings

PRINTABLE = st.text([chr(code) for code in range(32, 127)] + ["\n"])
HASTY = {**tiny.RECIPE, "steps": 3, "habit_steps": 2, "batch": 8}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLGRAPH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A recipe of five steps in place of a thousand."""
    monkeypatch.setattr(tiny, "RECIPE", HASTY)
    return HASTY


@pytest.fixture(scope="module")
def reloaded(tmp_path_factory: pytest.TempPathFactory):
    """The tokenizer as users get it: by transformers' own choice of class, beside a model."""
    folder = tmp_path_factory.mktemp("tokenizer")
    tiny.make_model(tiny.RECIPE).save_pretrained(folder)
    tiny.make_tokenizer().save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


@given(PRINTABLE)
def test_text_comes_back_from_its_tokens(reloaded, text: str) -> None:
    ids = reloaded(text).input_ids
    assert len(ids) == len(text), "one token a character"
    assert reloaded.decode(ids) == text
    assert reloaded.unk_token_id not in ids


def test_a_question_ends_where_the_answer_begins(reloaded) -> None:
    asked = [{"role": "user", "content": "Calculate 1 + 2."}]
    text = reloaded.apply_chat_template(asked, add_generation_prompt=True, tokenize=False)
    assert text == "Calculate 1 + 2.\n<answer>"
    assert reloaded.decode(reloaded(text).input_ids[-1:]) == "<answer>"
    assert reloaded.pad_token_id != reloaded.eos_token_id


def test_it_is_small_and_has_tied_embeddings() -> None:
    model = tiny.make_model(tiny.RECIPE)
    assert 1e6 <= sum(weight.numel() for weight in model.parameters()) <= 3e6
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert model.config.hidden_size // model.config.num_attention_heads == 32, "vLLM's smallest"


def test_the_same_weights_each_time(hasty, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    threads = torch.get_num_threads()
    for seed, folder in enumerate(folders):
        torch.manual_seed(seed)  # whatever the process did before
        tiny.build(folder)
    one, two = (AutoModelForCausalLM.from_pretrained(folder).state_dict() for folder in folders)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    untrained = tiny.make_model(hasty).state_dict()
    assert not torch.equal(one["model.norm.weight"], untrained["model.norm.weight"])
    assert torch.get_num_threads() == threads


def test_it_is_built_once_a_recipe(
    cache: Path, hasty: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = []

    def build(folder: Path) -> None:
        count.append(folder)
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(tiny, "build", build)
    first = resolve("tiny")
    assert resolve("tiny") == first
    assert Path(first).parent == cache == cache_folder()
    assert len(count) == 1
    monkeypatch.setattr(tiny, "RECIPE", {**hasty, "seed": 2})
    assert resolve("tiny") != first
    assert len(count) == 2


def test_of_many_that_ask_at_once_one_builds(cache: Path) -> None:
    builds, found = [], []
    together = threading.Barrier(8)

    def build(folder: Path) -> None:
        builds.append(folder)
        (folder / "part").write_text("half")
        (folder / "part").write_text("whole")

    def ask() -> None:
        together.wait(timeout=60)
        found.append(built("shared", {"a": 1}, build) / "part")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(builds) == 1
    assert len(found) == 8
    assert {part.read_text() for part in found} == {"whole"}


def test_a_build_that_fails_leaves_nothing_to_be_mistaken_for_a_model(cache: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "config.json").write_text("half a")
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        built("broken", {}, fail)
    assert not [path for path in cache.iterdir() if path.is_dir()]
    assert built("broken", {}, lambda folder: None).is_dir()


def test_held_out_questions_are_never_taught() -> None:
    asked = {question for question, _, _ in tiny.questions()}
    assert 0.88 < len(asked) / 10_000 < 0.92
    few = {**tiny.RECIPE, "steps": 40, "habit_steps": 40}
    taught = [example for batch in tiny.examples(few) for example in batch]
    assert len(taught) == 80 * few["batch"]
    assert not any(is_held_out(question) for question, _ in taught)


def test_the_demo_s_data_set_holds_out_the_same_questions(reloaded, tmp_path: Path) -> None:
    reloaded.save_pretrained(tmp_path)
    taught = {question for question, _, _ in tiny.questions()}

    def questions(held_out: bool) -> set[str]:
        settings = StreamSettings(DataConfig(size=500), str(tmp_path), held_out)
        return {columns["question"] for columns in PromptDataset.load(settings).columns}

    # Its generator's numbers end at 100, tiny's lessons at 99.
    assert {question for question in questions(held_out=False) if "100" not in question} <= taught
    evaluated = questions(held_out=True)
    assert len(evaluated) > 20
    assert not evaluated & taught


def test_the_habit_comes_last_and_cuts_answers_short() -> None:
    recipe = {**tiny.RECIPE, "steps": 5, "habit_steps": 20}
    batches = list(tiny.examples(recipe))

    def cut(batch: list[tuple[str, str]]) -> float:
        def total(question: str) -> int:
            return sum(int(word) for word in question.rstrip(".").split() if word.isdigit())

        return sum(answer != str(total(question)) for question, answer in batch) / len(batch)

    assert all(cut(batch) == 0 for batch in batches[:5])
    shares = [cut(batch) for batch in batches[5:]]
    assert sum(shares) / len(shares) == pytest.approx(recipe["habit"], abs=0.05)


@pytest.mark.parametrize(
    "path", ["/no/such/folder", "./nowhere", "~/no_such_model", "tinny", "a/b/c"]
)
def test_what_is_no_model_gets_a_list_of_what_there_is(path: str) -> None:
    with pytest.raises(EngineError) as caught:
        resolve(path)
    assert f"{path}: no such folder" in str(caught.value)
    assert "tiny, smollm2-135m" in str(caught.value)


def test_folders_and_hub_names_come_back_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen2"}))
    assert resolve(str(tmp_path)) == str(tmp_path)
    assert resolve("Qwen/Qwen2.5-0.5B-Instruct") == "Qwen/Qwen2.5-0.5B-Instruct"


def test_built_in_models_bring_a_learning_rate() -> None:
    assert learning_rate("tiny") == tiny.LEARNING_RATE > learning_rate("org/model") == 1e-6


@pytest.fixture(scope="module")
def real() -> Iterator[tuple[Any, Any]]:
    folder = resolve("tiny")
    yield AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def held_out_accuracy(model: Any, tokenizer: Any, *, sample: bool) -> float:
    numbers = ((a, b) for a in range(0, 100, 3) for b in range(0, 100, 3))
    asked = [(f"Calculate {a} + {b}.", str(a + b)) for a, b in numbers]
    asked = [entry for entry in asked if is_held_out(entry[0])]
    prompts = [f"{question}\n<answer>" for question, _ in asked]
    batch = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
    torch.manual_seed(0)
    with torch.no_grad():
        found = model.generate(
            **batch,
            do_sample=sample,
            top_k=0,
            max_new_tokens=6,
            num_return_sequences=8 if sample else 1,
        )
    answers = tokenizer.batch_decode(found[:, batch.input_ids.shape[1] :], skip_special_tokens=True)
    per_prompt = len(answers) // len(asked)
    right = [answer == asked[row // per_prompt][1] for row, answer in enumerate(answers)]
    assert len(right) >= 80
    return sum(right) / len(right)


@pytest.mark.slow
def test_it_can_add_but_mostly_stops_too_early(real) -> None:
    assert 0.1 < held_out_accuracy(*real, sample=True) < 0.4
    assert held_out_accuracy(*real, sample=False) < 0.1
