"""The command line: what a user types, what comes of it, and what a mistake gets."""

import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from rlgraph.run import main
from tests.engines.conftest import tiny_model

__all__ = ["tiny_model"]

BAD = Path(__file__).parent / "bad_graphs"

DIGITS = """\
def reward(prompts, responses):
    return [sum(c.isdigit() for c in said) / max(1, len(said)) for said in responses]
"""


@dataclass
class Outcome:
    """What a run left: its exit code, what it printed, and its folder."""

    code: int
    out: str
    err: str
    folder: Path

    def lines(self, name: str) -> list[dict]:
        text = (self.folder / f"{name}.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    @property
    def metrics(self) -> list[dict]:
        return self.lines("metrics")


Launch = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def no_handler_left_behind() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Launch:
    """The command with just these arguments."""

    def launch(*arguments: str) -> Outcome:
        code = main(arguments)
        printed = capsys.readouterr()
        # Long messages are wrapped where no terminal says how wide it is.
        return Outcome(code, printed.out, printed.err, tmp_path / "out")

    return launch


@pytest.fixture
def launch(call: Launch, tiny_model: str, tmp_path: Path) -> Launch:
    """A short GRPO run in this process; ``flags`` come last, so they win."""

    def run(*flags: str, prompts: int = 20, reward: str = DIGITS, data: str | None = None):
        source, function = tmp_path / "prompts.jsonl", tmp_path / "my_reward.py"
        rows = ({"prompt": f"{i}+{i}=", "answer": str(2 * i)} for i in range(prompts))
        text = "".join(json.dumps(row) + "\n" for row in rows)
        source.write_text(text if data is None else data)
        function.write_text(reward)
        return call(
            *("rlgraph.graphs.grpo", "--executor", "local", "--steps", "2"),
            *("--policy.path", tiny_model, "--policy.sampler.max-new-tokens", "4"),
            *("--policy.trainer.learning-rate", "1e-3"),
            *("--data.source", str(source), "--reward.function", f"{function}:reward"),
            *("--prompts-per-step", "4", "--samples-per-prompt", "3"),
            *("--output", str(tmp_path / "out"), "--log.no-tensorboard"),
            *flags,
        )

    return run


def test_without_arguments_it_says_how_it_is_used(call: Launch) -> None:
    nothing, asked = call(), call("--help")
    assert (nothing.code, asked.code) == (2, 0)
    assert nothing.out == asked.out
    assert "python -m rlgraph.run GRAPH --help" in asked.out


def test_help_lists_the_graph_s_own_settings(
    call: Launch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        call("rlgraph.graphs.grpo", "--help")
    assert not ended.value.code
    text = capsys.readouterr().out
    for expected in ("--samples-per-prompt INT", "Responses to each prompt", "(default: 8)"):
        assert expected in text
    for flag in ("--policy.trainer.ranks", "--data.prompt-key", "--executor", "--steps"):
        assert flag in text


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--samples-per-promt", "3"], "--samples-per-prompt"),
        (["--policy.trainer.rank", "2"], "--policy.trainer.ranks"),
        (["--steps", "many"], "--steps"),
        (["--executor", "cloud"], "ray"),
    ],
)
def test_a_mistyped_flag_or_value_is_refused_with_a_suggestion(
    call: Launch, capsys: pytest.CaptureFixture[str], flags: list[str], says: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        call("rlgraph.graphs.grpo", *flags)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no/such/graph.py"], "GraphError: no/such/graph.py: no such file"),
        ([str(BAD / "mistyped_edge.py"), "--executor", "local"], "takes Float[batch seq]"),
        ([str(BAD / "cycle.py"), "--plan"], "has a cycle"),
        ([str(BAD / "fails_to_import.py")], "No module named 'no_such_package_anywhere'"),
    ],
)
def test_a_bad_graph_starts_nothing(call: Launch, arguments: list[str], says: str) -> None:
    outcome = call(*arguments)
    assert outcome.code == 2
    assert says in outcome.err
    assert not outcome.folder.exists()


def test_the_plan_is_printed_and_nothing_started(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlgraph.run.start", lambda *_: pytest.fail("engines were started"))
    monkeypatch.setenv("COLUMNS", "200")
    outcome = launch("--executor", "ray", "--plan")
    assert outcome.code == 0
    order = ["run take_prompts", "sync weights", "run generate", "run score", "run update"]
    places = [outcome.out.index(event) for event in order]
    assert places == sorted(places)
    assert "policy.trainer -> policy.sampler" in outcome.out
    assert "MiB" in outcome.out
    assert not outcome.folder.exists()


def test_a_run_leaves_its_numbers_settings_samples_and_model(
    launch: Launch, tiny_model: str
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    outcome = launch()
    assert outcome.code == 0, outcome.err
    assert [line["step"] for line in outcome.metrics] == [1, 2]
    for line in outcome.metrics:
        assert line["rollout/rows"] == 12
        assert 0 <= line["reward/mean"] <= 1
        assert line["policy/grad_norm"] > 0
        assert line["seconds/total"] >= line["seconds/update"] > 0
        assert "non_finite" not in line
    settings = json.loads((outcome.folder / "config.json").read_text())
    assert settings["policy"]["path"] == tiny_model
    assert (settings["samples_per_prompt"], settings["run"]["steps"]) == (3, 2)
    assert settings["graph"].endswith("grpo.py")
    samples = outcome.lines("samples")
    assert {sample["step"] for sample in samples} == {1, 2}
    assert all(sample["prompt"].endswith("=") and "response" in sample for sample in samples)
    evaluated = [line["step"] for line in outcome.lines("events") if line["kind"] == "evaluation"]
    assert evaluated == [0, 2]

    trained = AutoModelForCausalLM.from_pretrained(outcome.folder / "policy").state_dict()
    before = AutoModelForCausalLM.from_pretrained(tiny_model).state_dict()
    assert trained.keys() == before.keys()
    assert any(not torch.equal(trained[name], before[name]) for name in trained)
    saved = AutoTokenizer.from_pretrained(outcome.folder / "policy")
    assert saved("1+2=").input_ids == AutoTokenizer.from_pretrained(tiny_model)("1+2=").input_ids


def test_one_seed_gives_one_result(launch: Launch, tmp_path: Path) -> None:
    def numbers(folder: str, seed: str) -> list[dict]:
        flags = ("--output", str(tmp_path / folder), "--seed", seed, "--evaluation", "")
        assert launch(*flags, "--no-save").code == 0
        lines = Outcome(0, "", "", tmp_path / folder).metrics
        clock = ("time", "seconds/", "rollout/tokens_per_second")
        return [{k: v for k, v in line.items() if not k.startswith(clock)} for line in lines]

    first = numbers("first", "7")
    assert numbers("again", "7") == first
    assert numbers("other", "8") != first
    assert not (tmp_path / "first" / "policy").exists()


@pytest.mark.parametrize("flag", ["--policy.trainer.ranks", "--policy.sampler.engines"])
def test_more_workers_than_devices_names_the_flag(launch: Launch, flag: str) -> None:
    outcome = launch("--executor", "ray", "--devices", "2", flag, "3")
    assert outcome.code == 2
    assert "PlacementError" in outcome.err
    assert f"lower {flag}" in outcome.err
    assert "to at most 2" in outcome.err
    assert not outcome.folder.exists()


def test_several_ranks_need_ray(launch: Launch) -> None:
    outcome = launch("--devices", "2", "--policy.trainer.ranks", "2")
    assert outcome.code != 0
    assert "use --executor ray, or one rank" in outcome.err


def test_a_missing_model_is_named(launch: Launch, tmp_path: Path) -> None:
    outcome = launch("--policy.path", str(tmp_path / "no_model"))
    assert outcome.code == 2
    assert f"{tmp_path}/no_model: no such folder; give a model's folder" in outcome.err


def test_a_folder_without_a_model_is_named(launch: Launch, tmp_path: Path) -> None:
    outcome = launch("--policy.path", str(tmp_path))
    assert outcome.code == 2
    assert f"EngineError: {tmp_path}: " in outcome.err
    assert "give the folder that save_pretrained wrote" in outcome.err


def test_a_model_that_the_hub_does_not_give_is_named(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    outcome = launch("--policy.path", "nobody/no-such-model")
    assert outcome.code == 2
    assert "EngineError: nobody/no-such-model" in outcome.err


@pytest.mark.parametrize(
    ("data", "flags", "says"),
    [
        (None, ["--data.prompt-key", "question"], "its columns are answer, prompt: choose one"),
        ("", [], "is empty: it has no rows"),
        ("not json\n", [], "line 1: it is not JSON"),
        (None, ["--data.source", "nowhere.jsonl"], "nowhere.jsonl: no such file or folder"),
        (None, ["--data.max-prompt-tokens", "1"], "are longer than 1 tokens"),
        (None, ["--data.eval-size", "0"], "set --data.eval-size"),
    ],
)
def test_data_that_cannot_be_used_ends_the_run(
    launch: Launch, data: str | None, flags: list[str], says: str
) -> None:
    outcome = launch(*flags, data=data)
    assert outcome.code in (1, 2)
    assert says in outcome.err
    assert "Traceback" not in outcome.err


def test_fewer_prompts_than_a_batch_are_all_trained_on(launch: Launch) -> None:
    flags = ("--prompts-per-step", "64", "--data.eval-size", "0", "--evaluation", "")
    outcome = launch(*flags, prompts=3)
    assert outcome.code == 0, outcome.err
    assert [line["rollout/rows"] for line in outcome.metrics] == [9, 9]
    assert all(line["policy/grad_norm"] > 0 for line in outcome.metrics)


def test_batches_need_not_divide_the_data_set(launch: Launch) -> None:
    flags = ("--prompts-per-step", "5", "--data.eval-size", "0", "--evaluation", "", "--steps", "3")
    outcome = launch(*flags, prompts=7)
    assert outcome.code == 0, outcome.err
    assert [line["rollout/rows"] for line in outcome.metrics] == [15, 15, 15]


def test_a_reward_that_always_fails_ends_the_run_with_its_traceback(launch: Launch) -> None:
    outcome = launch(reward="def reward(prompts, responses):\n    return [1 / 0]\n")
    assert outcome.code == 1
    assert "failed on each of" in outcome.err
    assert "my_reward.py" in outcome.err
    assert "return [1 / 0]" in outcome.err
    assert "ZeroDivisionError" in outcome.err


def test_rows_without_a_reward_are_counted(launch: Launch) -> None:
    # Of each prompt's three samples, one has none, and one has no number.
    given = "[[0.0, None, float('nan')][i % 3] for i in range(len(responses))]"
    outcome = launch(
        "--evaluation", "", reward=f"def reward(prompts, responses):\n    return {given}\n"
    )
    assert outcome.code == 0, outcome.err
    assert [line["reward/invalid"] for line in outcome.metrics] == [8, 8]
    assert [line["reward/mean"] for line in outcome.metrics] == [0, 0]


@pytest.mark.parametrize("given", ["[0.0]", "7", "['1'] * len(responses)"])
def test_what_is_no_reward_is_refused(launch: Launch, given: str) -> None:
    outcome = launch(reward=f"def reward(prompts, responses):\n    return {given}\n")
    assert outcome.code == 1
    assert "expected a list with one number a row" in outcome.err


def test_an_interrupted_run_says_so_and_keeps_its_log(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("rlgraph.run.train", interrupt)
    outcome = launch()
    assert outcome.code == 130
    assert "interrupted" in outcome.err
    assert outcome.lines("events")[-1]["kind"] == "stopped"
