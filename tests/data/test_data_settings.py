import pickle

import pytest
import tyro

from rlgraph import DataError, Graph, GraphError
from rlgraph.data import DataConfig, take_prompts
from rlgraph.data.settings import parse_options
from rlgraph.engines.protocols import PromptStream


def test_options_are_read_as_what_they_look_like() -> None:
    given = ("a=2", "b=false", "c=None", 'd=["+"]', "e=plain text", "f=x=y", "g=(1, 2)")
    assert parse_options(given) == {
        **{"a": 2, "b": False, "c": None, "d": ["+"]},
        **{"e": "plain text", "f": "x=y", "g": (1, 2)},
    }


@pytest.mark.parametrize("option", ["max_terms", "=2", ""])
def test_an_option_without_key_or_value_is_refused(option: str) -> None:
    with pytest.raises(DataError, match="key=value"):
        parse_options((option,))


@pytest.mark.parametrize("setting", ["size", "max_prompt_tokens", "eval_size"])
def test_senseless_sizes_are_refused(setting: str) -> None:
    with pytest.raises(DataError, match=setting):
        DataConfig(**{setting: -1})


def test_settings_come_from_the_command_line() -> None:
    flags = "--task-options a=1 --chat-template False --answer-key None --on-bad-row skip"
    config = tyro.cli(DataConfig, args=flags.split())
    assert config == DataConfig(
        task_options=("a=1",), chat_template=False, answer_key=None, on_bad_row="skip"
    )
    assert tyro.cli(DataConfig, args=["--task-options"]).task_options == ()


def test_training_and_held_out_prompts_are_two_residents() -> None:
    config = DataConfig()
    train, held_out = config("model"), config.held_out("model")
    residents = [handle.roles[PromptStream] for handle in (train, held_out)]
    assert residents[0].name != residents[1].name
    assert [r.settings.held_out for r in residents] == [False, True]
    assert pickle.loads(pickle.dumps(residents)) == residents


def test_nothing_held_out_cannot_be_evaluated_on() -> None:
    with pytest.raises(DataError, match="eval-size"):
        DataConfig(eval_size=0).held_out("model")


def test_drawing_is_recorded_in_a_graph() -> None:
    with Graph("drawing") as graph:
        prompts = take_prompts(DataConfig()("model"), count=4)
    assert str(prompts.group) == "take_prompts.group"
    assert graph.nodes["take_prompts"].constants == {"count": 4}
    with Graph("wrong"), pytest.raises(GraphError, match="count"):
        take_prompts(DataConfig()("model"), count="four")
