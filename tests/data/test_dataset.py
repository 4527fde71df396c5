import json
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import datasets
import pytest
from characters import ids

from rlgraph import DataError
from rlgraph.data import DataConfig, StreamSettings
from rlgraph.data.dataset import PromptDataset, held_out_prompts

ALL = DataConfig(answer_key=None, eval_size=0)
"""Everything is trained on, and no answer is wanted."""

Write = Callable[..., str]


def load(config: DataConfig, tokenizer: str, held_out: bool = False) -> PromptDataset:
    return PromptDataset.load(StreamSettings(config, tokenizer, held_out))


def rows(*given: dict[str, Any]) -> list[str]:
    return [json.dumps(row) for row in given]


def texts(data: PromptDataset) -> list[Any]:
    return [columns["prompt"] for columns in data.columns]


def test_columns_keep_their_names_and_get_the_common_ones(lines: Write, plain: str) -> None:
    source = lines(*rows({"question": "1+1", "solution": "2", "level": 3}))
    config = DataConfig(source, prompt_key="question", answer_key="solution", eval_size=0)
    data = load(config, plain)
    assert data.columns == [
        {"question": "1+1", "solution": "2", "level": 3, "prompt": "1+1", "answer": "2"}
    ]
    assert [row.tolist() for row in data.tokens] == [ids("1+1")]


def test_a_beginning_token_is_kept_and_an_end_token_is_not(lines: Write, beginning: str) -> None:
    data = load(replace(ALL, source=lines(*rows({"prompt": "hi"}))), beginning)
    assert data.tokens[0].tolist() == [1, *ids("hi")]


def test_text_and_messages_go_through_the_chat_template(lines: Write, chatty: str) -> None:
    chat = [{"role": "user", "content": "1+1"}]
    system = [{"role": "system", "content": "sums"}, *chat]
    source = lines(*rows({"prompt": "1+1"}, {"prompt": chat}, {"prompt": system}))
    data = load(replace(ALL, source=source), chatty)
    assert [row.tolist() for row in data.tokens] == [
        ids("[u]1+1[a]"),
        ids("[u]1+1[a]"),
        ids("[s]sums[u]1+1[a]"),
    ]
    assert texts(data) == ["1+1", chat, system]
    data = load(replace(ALL, source=source, system_prompt="be brief"), chatty)
    assert [row.tolist() for row in data.tokens] == [
        ids("[s]be brief[u]1+1[a]"),
        ids("[s]be brief[u]1+1[a]"),
        ids("[s]sums[u]1+1[a]"),
    ]


def test_the_chat_template_can_be_turned_off(lines: Write, chatty: str) -> None:
    config = replace(ALL, source=lines(*rows({"prompt": "hi"})), chat_template=False)
    assert load(config, chatty).tokens[0].tolist() == [1, *ids("hi")]


def test_table_formats_do_not_leave_empty_keys_in_messages(tmp_path: Any, chatty: str) -> None:
    chats = [
        [{"role": "user", "content": "a"}],
        [{"role": "user", "content": "b", "name": "Bo"}],
    ]
    path = str(tmp_path / "chats.parquet")
    datasets.Dataset.from_list([{"prompt": chat} for chat in chats]).to_parquet(path)
    assert texts(load(replace(ALL, source=path), chatty)) == chats


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chat_template": True}, "has no chat template"),
        ({"system_prompt": "be brief"}, "system_prompt needs a chat template"),
        ({"prompt_key": "question"}, "no column 'question'.*columns are answer, prompt"),
        ({"answer_key": "solution"}, "no column 'solution'.*None if there is none"),
    ],
)
def test_settings_that_do_not_fit(
    lines: Write, plain: str, change: dict[str, Any], message: str
) -> None:
    source = lines(*rows({"prompt": "1+1", "answer": "2"}))
    with pytest.raises(DataError, match=message):
        load(replace(ALL, source=source, **change), plain)


def test_messages_need_a_chat_template(lines: Write, plain: str) -> None:
    source = lines(*rows({"prompt": [{"role": "user", "content": "hi"}]}))
    with pytest.raises(DataError, match="list of chat messages, but no chat template"):
        load(replace(ALL, source=source, on_bad_row="skip"), plain)


def test_a_missing_tokenizer_is_named(lines: Write, tmp_path: Any) -> None:
    source = lines(*rows({"prompt": "hi"}))
    with pytest.raises(DataError, match=r"tokenizer of .*nowhere"):
        load(replace(ALL, source=source), str(tmp_path / "nowhere"))


def test_an_empty_file_is_refused(lines: Write, plain: str) -> None:
    with pytest.raises(DataError, match="empty"):
        load(replace(ALL, source=lines()), plain)


BAD_PROMPTS = [
    (3, "is a int"),
    (None, "is a NoneType"),
    ("", "empty"),
    ([], "no messages"),
    (["hi"], "message 0 is a str"),
    ([{"content": "hi"}], "no text under 'role'"),
    ([{"role": "user"}], "no text under 'content'"),
    ([{"role": "user", "content": [{"type": "image"}]}], "no text under 'content'"),
    ([{"role": "assistant", "content": "hi"}], "last message is the assistant's"),
    ([{"role": "tool", "content": "hi"}], "chat template refuses.*no tools here"),
]


@pytest.mark.parametrize(("prompt", "reason"), BAD_PROMPTS)
def test_a_bad_row_stops_or_is_left_out(
    lines: Write,
    chatty: str,
    caplog: pytest.LogCaptureFixture,
    prompt: Any,
    reason: str,
) -> None:
    source = lines(*rows({"prompt": "good"}, {"prompt": prompt}))
    with pytest.raises(DataError, match=f"line 2: .*{reason}"):
        load(replace(ALL, source=source), chatty)
    with caplog.at_level(logging.WARNING):
        data = load(replace(ALL, source=source, on_bad_row="skip"), chatty)
    assert texts(data) == ["good"]
    assert data.bad == 1
    assert "line 2 is left out" in caplog.text
    assert "1 of 2 rows are left out" in caplog.text


def test_a_row_may_lack_a_column_that_others_have(lines: Write, plain: str) -> None:
    source = lines(*rows({"prompt": "a", "answer": "b"}, {"prompt": "c"}), "{oops")
    config = DataConfig(source, eval_size=0)
    with pytest.raises(DataError, match="line 2: it has no 'answer'"):
        load(config, plain)
    data = load(replace(config, on_bad_row="skip"), plain)
    assert (texts(data), data.bad) == (["a"], 2)


def test_only_bad_rows_are_no_data_set(lines: Write, plain: str) -> None:
    with pytest.raises(DataError, match="none of its 2 rows"):
        load(replace(ALL, source=lines("{oops", "[]"), on_bad_row="skip"), plain)


def test_long_prompts_are_counted_and_skipped_or_cut(
    lines: Write, plain: str, caplog: pytest.LogCaptureFixture
) -> None:
    source = lines(*rows({"prompt": "1234"}, {"prompt": "12345"}, {"prompt": "123456"}))
    config = replace(ALL, source=source, max_prompt_tokens=4)
    data = load(config, plain)
    assert (texts(data), data.long) == (["1234"], 2)
    assert "2 of 3 prompts are longer than 4 tokens" in caplog.text
    data = load(replace(config, on_long="truncate"), plain)
    assert [row.tolist() for row in data.tokens] == [ids("1234"), ids("2345"), ids("3456")]
    assert (texts(data), data.long) == (["1234", "12345", "123456"], 2)
    with pytest.raises(DataError, match="no prompt is left of 3; 3 are longer than 1 tokens"):
        load(replace(config, max_prompt_tokens=1), plain)


def test_a_tenth_of_a_file_is_held_out(lines: Write, plain: str) -> None:
    every = [f"{number} + {number}" for number in range(50)]
    source = lines(*rows(*({"prompt": text} for text in [*every, *every])))
    config = replace(ALL, source=source, eval_size=100)
    train, held_out = texts(load(config, plain)), texts(load(config, plain, held_out=True))
    assert len(held_out) == 5 and len(train) == 90
    assert {*train, *held_out} == {*every} and not {*train} & {*held_out}
    few = texts(load(replace(config, eval_size=2), plain, held_out=True))
    assert len(few) == 2 and {*few} < {*held_out}


def test_what_is_held_out_does_not_depend_on_the_order_of_rows() -> None:
    prompts = [f"question {number}" for number in range(30)]
    assert held_out_prompts(prompts, 9) == held_out_prompts(prompts[::-1], 9)
    assert len(held_out_prompts(prompts, 9)) == 3
    assert len(held_out_prompts(prompts[:2], 9)) == 1
    assert held_out_prompts(prompts[:1], 9) == set()


def test_one_row_cannot_be_held_out(lines: Write, plain: str) -> None:
    config = replace(ALL, source=lines(*rows({"prompt": "hi"})), eval_size=5)
    assert len(load(config, plain)) == 1
    with pytest.raises(DataError, match=r"too small.*eval-source"):
        load(config, plain, held_out=True)


def test_held_out_rows_can_have_a_source_of_their_own(lines: Write, plain: str) -> None:
    config = replace(
        ALL,
        source=lines(*rows({"prompt": "a"}, {"prompt": "b"})),
        eval_source=lines(*rows({"prompt": "a"}, {"prompt": "c"}), name="eval.jsonl"),
        eval_size=9,
    )
    assert texts(load(config, plain)) == ["a", "b"]
    assert texts(load(config, plain, held_out=True)) == ["a", "c"]


def test_fingerprints_tell_prompts_and_their_order(lines: Write, plain: str) -> None:
    def fingerprint(*prompts: str) -> str:
        source = lines(*rows(*({"prompt": text} for text in prompts)))
        return load(replace(ALL, source=source), plain).fingerprint

    assert fingerprint("a", "b") == fingerprint("a", "b")
    assert len({fingerprint("a", "b"), fingerprint("b", "a"), fingerprint("ab")}) == 3
