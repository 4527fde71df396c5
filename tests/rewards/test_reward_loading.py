import pickle
from pathlib import Path

import pytest
import tyro
from rollouts import rollout_of

from rlgraph import RewardError
from rlgraph.engines.protocols import Rewarder
from rlgraph.rewards import RewardConfig, build_rewarder
from rlgraph.rewards.loading import load_function
from rlgraph.settings import RunContext


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "beside_it.py").write_text("SCORE = 0.25")
    (tmp_path / "mine.py").write_text(
        "from beside_it import SCORE\n"
        "from math import sqrt\n"
        "number = 3\n"
        "def reward(prompts, responses): return [1.0] * len(responses)\n"
        "def other(prompts, responses): return [SCORE] * len(responses)\n"
    )
    (tmp_path / "broken.py").write_text("import no_such_module_anywhere")
    return tmp_path


def test_a_function_in_a_file(folder: Path) -> None:
    assert load_function(f"{folder}/mine.py:other")([], ["a"]) == [0.25]
    assert load_function(f"{folder}/mine.py")([], ["a"]) == [1.0]


def test_a_function_in_a_module() -> None:
    for target in ("rlgraph.rewards.maths:equal_answer", "rlgraph.rewards.maths.equal_answer"):
        assert load_function(target).__name__ == "equal_answer"
    assert load_function("math_verify").__name__ == "equal_answer"
    assert load_function("reasoning_gym").__name__ == "task_score"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("missing.py:reward", "there is no file .*missing.py"),
        ("{folder}/mine.py:rewards", "has no 'rewards'; it defines reward, other$"),
        ("{folder}/mine.py:number", "has no function 'number'"),
        ("{folder}/broken.py:reward", "(?s)importing .*fails.*no_such_module_anywhere"),
        ("no_such_module:reward", "no module 'no_such_module'.*file.py:name"),
        ("no.such.module.reward", "no module 'no.such.module'"),
        ("rlgraph.rewards.maths:no", "has no 'no'; it defines equal_answer"),
        ("reward", "write file.py:name.*reasoning_gym, math_verify"),
        ("", "write file.py:name"),
        (":reward", "write file.py:name"),
    ],
)
def test_targets_that_lead_nowhere(folder: Path, target: str, message: str) -> None:
    with pytest.raises(RewardError, match=message):
        load_function(target.format(folder=folder))


def test_a_handle_leads_to_the_function(folder: Path) -> None:
    resident = RewardConfig(function=f"{folder}/mine.py")("judge").roles[Rewarder]
    assert (resident.name, resident.kind) == ("judge", "reward")
    assert pickle.loads(pickle.dumps(resident)) == resident
    rewards = build_rewarder(resident.settings, RunContext()).score(rollout_of(["a", "b"]))
    assert rewards.scores.tolist() == [1.0, 1.0]


def test_settings_come_from_the_command_line() -> None:
    config = tyro.cli(RewardConfig, args=["--function", "mine.py:f", "--timeout", "2.5"])
    assert config == RewardConfig(function="mine.py:f", timeout=2.5)


@pytest.mark.parametrize("change", [{"timeout": 0}, {"timeout": float("nan")}])
def test_a_time_limit_is_needed(change: dict[str, float]) -> None:
    with pytest.raises(RewardError, match="timeout"):
        RewardConfig(**change)  # type: ignore[arg-type]


def test_a_batch_of_the_reward_model_holds_tokens() -> None:
    with pytest.raises(RewardError, match="max_tokens_per_batch"):
        RewardConfig(max_tokens_per_batch=0)
