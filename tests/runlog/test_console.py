import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from rlgraph.runlog import Evaluation, Event, Sample, Samples, Step
from rlgraph.runlog.console import console_sink
from rlgraph.runlog.live import LiveSink
from rlgraph.runlog.plain import PlainSink

METRICS = {
    "reward/mean": 0.412,
    "reward/std": 0.3,
    "kl/reference": 0.0013,
    "policy/loss": -0.02,
    "policy/grad_norm": 0.7,
    "rollout/response_length": 3.2,
    "rollout/truncated": 0.25,
    "rollout/tokens_per_second": 12345.0,
    "some/thing_else": 7.0,
}
SECONDS = {"prompts": 0.01, "generate": 0.61, "update": 0.9, "sync": 0.05, "total": 1.9}


def sample(prompt="1+1=", response="2", reward=1.0, truncated=False, answer="2") -> Sample:
    return Sample(prompt, response, reward, len(response), truncated, answer)


def plain(*entries, total=50) -> list[str]:
    stream = io.StringIO()
    sink = PlainSink(stream, "grpo", total, Path("runs/x"))
    for entry in entries:
        sink.write(entry)
    sink.close()
    return stream.getvalue().splitlines()


def live(*entries, width=100) -> tuple[str, str]:
    """What the display looks like in the end, and every byte that was sent."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=width, height=60)
    sink = LiveSink(console, "grpo", 50, now=lambda: 0.0)
    for entry in entries:
        sink.write(entry)
    page = Console(file=io.StringIO(), width=width)
    page.print(sink._view)
    sink.close()
    return page.file.getvalue(), stream.getvalue()


def test_a_plain_step_is_one_readable_line():
    header, line = plain(Step(12, METRICS, SECONDS))
    assert header == "grpo: 50 steps, log in runs/x"
    assert " ".join(line.split()) == (
        "step 12/50 reward 0.412 kl 0.0013 length 3.20 12.3k tok/s "
        "1.9 s (generate 0.6, update 0.9, rest 0.1)"
    )
    assert len(line) < 120


def test_plain_steps_are_aligned_and_missing_numbers_are_dashes():
    _, first, last = plain(Step(1, {}, {}), Step(50, METRICS, SECONDS))
    assert first.startswith("step  1/50  reward       -")
    assert last.startswith("step 50/50  reward   0.412")
    assert first.index("tok/s") == last.index("tok/s")


def test_plain_samples_show_prompt_response_reward_and_answer():
    rows = (sample(), sample(response="", reward=None, truncated=True, answer=None))
    _, first, second = plain(Samples(1, rows))
    assert " ".join(first.split()) == "sample reward 1.00 1+1= -> 2 (answer: 2)"
    assert " ".join(second.split()) == "sample reward none 1+1= -> (empty) (cut off)"


def test_plain_events_and_evaluations():
    _, event, evaluation = plain(
        Event("warning", "a worker died", {"rank": 1}), Evaluation(50, {"reward/mean": 0.85})
    )
    assert event == "warning: a worker died (rank=1)"
    assert evaluation == "evaluation after step 50: reward 0.850"


def test_plain_lines_survive_a_stream_that_cannot_say_everything():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    sink = PlainSink(stream, "grpo", 5, Path("runs/x"))
    sink.write(Samples(1, (sample(response="é" * 100),)))
    assert b"\\xe9" in stream.buffer.getvalue()


@given(st.text(), st.text())
@settings(max_examples=60)
def test_a_plain_sample_is_one_line_without_anything_a_terminal_acts_on(prompt, response):
    _, line = plain(Samples(1, (sample(prompt=prompt, response=response),)))
    assert "\x1b" not in line and line.isprintable()
    assert cell_len(line) < 240


def test_the_live_display_shows_progress_numbers_times_and_samples():
    page, _ = live(Step(12, METRICS, SECONDS), Samples(12, (sample(),)))
    for expected in ("grpo", "step 12/50", "0.412", "0.0013", "12.3k", "25% cut off", "generate"):
        assert expected in page
    assert "1+1=" in page and "samples of step 12" in page
    assert "thing_else" not in page


def test_missing_numbers_are_dashes_in_the_live_display():
    page, _ = live(Step(1, {}, {}))
    reward = next(line for line in page.splitlines() if "reward" in line)
    assert " - " in reward


@pytest.mark.parametrize("text", ["[bold red]x[/bold red]", "[/nothing]", ":smile:", "[link=a]b"])
def test_markup_in_a_response_is_shown_not_obeyed(text):
    page, sent = live(Step(1, {}, {}), Samples(1, (sample(response=text),)), width=120)
    assert text in page and text in sent
    _, sent = live(Event("note", text, {"field": text}))
    assert text in sent


def test_escape_sequences_in_a_response_do_not_reach_the_terminal():
    evil = "\x1b[2J\x1b]0;title\x07\u202egnp"
    entries = (Samples(1, (sample(prompt=evil, response=evil, answer=evil),)), Event("e", evil, {}))
    page, sent = live(*entries, width=160)
    assert "\\x1b[2J" in page
    for bad in ("\x1b[2J", "\x1b]0;", "\x07", "\u202e"):
        assert bad not in sent


@given(st.text(max_size=60), st.sampled_from([24, 40, 71, 72, 100]))
@settings(max_examples=40, deadline=None)
def test_no_line_is_wider_than_the_terminal(text, width):
    rows = (sample(prompt=text, response=text * 9, answer=text), sample(response="漢字" * 90))
    page, _ = live(Step(12, METRICS, SECONDS), Samples(12, rows), width=width)
    assert all(cell_len(line) <= width for line in page.splitlines())


def test_the_cursor_is_hidden_and_given_back():
    _, sent = live(Step(1, METRICS, SECONDS))
    assert sent.count("\x1b[?25l") == sent.count("\x1b[?25h") == 1
    assert sent.index("\x1b[?25l") < sent.index("\x1b[?25h")


def test_the_remaining_time_comes_from_the_last_steps():
    times = iter([0.0, 0.0, *[10.0] * 3])
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    sink = LiveSink(console, "grpo", 7, now=lambda: next(times, 10.0))
    sink.write(Step(1, {}, {}))
    page = Console(file=io.StringIO(), width=100)
    page.print(sink._view)
    sink.close()
    assert "left" in page.file.getvalue()
    # Started at 0, one step in 10 s, six to go.
    assert "0:10 elapsed, 1:00 left" in page.file.getvalue()


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_the_display_is_live_only_on_a_terminal_that_can_show_it(monkeypatch):
    def chosen(stream):
        sink = console_sink(stream, "t", 1, Path("x"))
        sink.close()
        return type(sink)

    monkeypatch.setenv("TERM", "xterm")
    assert chosen(Terminal()) is LiveSink
    assert chosen(io.StringIO()) is PlainSink
    # Colour for a log file is no reason to redraw it.
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert chosen(io.StringIO()) is PlainSink
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert chosen(Terminal()) is PlainSink
    monkeypatch.setenv("TERM", "xterm")
    latin = Terminal()
    latin.encoding = "latin-1"
    assert chosen(latin) is PlainSink
