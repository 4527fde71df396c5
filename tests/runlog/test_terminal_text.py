import doctest
import math

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from rlgraph.runlog import text
from rlgraph.runlog.text import clock, number, shorten, sparkline, visible


def test_the_examples_hold():
    assert doctest.testmod(text).failed == 0


@given(st.text())
def test_visible_text_is_printable_and_plain_text_is_untouched(given_text):
    assert visible(given_text).isprintable()
    if given_text.isascii() and given_text.isprintable():
        assert visible(given_text) == given_text


def test_chat_messages_show_the_last_one():
    assert visible([{"content": "be brief"}, {"content": "hi\n"}]) == "hi\\n"


@given(st.text(), st.integers(0, 40))
def test_shortened_text_fits_and_short_text_is_untouched(given_text, cells):
    shown = visible(given_text)
    short = shorten(shown, cells)
    assert cell_len(short) <= cells
    if cell_len(shown) <= cells:
        assert short == shown


@given(st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=False))
def test_numbers_are_short(value):
    assert 1 <= len(number(value)) <= 10


@given(st.floats(min_value=1e-9, max_value=1e12))
def test_numbers_mean_what_they_say(value):
    shown = number(value)
    scale = {"k": 1e3, "M": 1e6}.get(shown[-1], 1.0)
    assert math.isclose(float(shown.rstrip("kM")) * scale, value, rel_tol=0.06)


def test_clock():
    assert [clock(s) for s in (-1, 59.9, 60, 3600)] == ["0:00", "0:59", "1:00", "1:00:00"]


@given(
    st.lists(st.floats(-1e6, 1e6, allow_subnormal=False) | st.just(math.nan), max_size=50),
    st.integers(1, 30),
)
def test_a_sparkline_is_as_wide_as_its_values_and_no_wider_than_asked(values, width):
    line = sparkline(values, width)
    known = any(math.isfinite(value) for value in values)
    assert len(line) == (min(len(values), width) if known else 0)


def test_a_sparkline_rises_with_its_values():
    assert sparkline([0.0, 0.5, 1.0], 3) == "▁▅█"
    assert sparkline([1.0, math.nan, 1.0], 3) == "▁ ▁"
