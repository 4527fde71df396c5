"""The choice of who sleeps, against every other choice there is."""

from functools import cache
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlgraph.scheduling.eviction import Moves, Short, fewest_transitions
from rlgraph.scheduling.memory import Memory

NAMES = "abcd"


@st.composite
def problems(draw):
    names = NAMES[: draw(st.integers(1, 4))]
    memory = {}
    for name in names:
        asleep = draw(st.integers(0, 1))
        weights = asleep + draw(st.integers(0, 3))
        awake = weights + draw(st.integers(0, 3))
        memory[name] = Memory(awake, asleep, draw(st.sampled_from([None, weights])))
    budget = draw(st.integers(2, 16))
    levels = {name: draw(st.sampled_from([0, 2])) for name in names}
    need = st.dictionaries(st.sampled_from(names), st.sampled_from([1, 2]), max_size=2)
    return memory, budget, levels, draw(st.lists(need, min_size=1, max_size=5))


def brute_force(memory, budget, levels, needs):
    """Fewest transitions over all ways to set every resident's level before every action."""
    names = sorted(memory)

    def changes(before, after):
        # Nobody gives back its KV cache alone: it sleeps, and wakes with its weights.
        return sum(2 if (b, a) == (2, 1) else b != a for b, a in zip(before, after, strict=True))

    def allowed(after, need):
        held = sum(memory[n].levels[level] for n, level in zip(names, after, strict=True))
        enough = all(after[names.index(n)] >= level for n, level in need.items())
        return enough and held <= budget

    @cache
    def best(position, state):
        if position == len(needs):
            return 0
        ways = [
            changes(state, after) + best(position + 1, after)
            for after in product(range(3), repeat=len(names))
            if allowed(after, needs[position])
        ]
        return min(ways, default=10**6)

    return best(0, tuple(levels[name] for name in names))


def count_and_check(memory, budget, levels, needs, moves):
    now, total = dict(levels), 0
    for move, need in zip(moves, needs, strict=True):
        for name in move.sleep:
            assert now[name] > 0
            now[name] = 0
        for name, level in move.wake:
            assert now[name] < level
            now[name] = level
        total += len(move.sleep) + len(move.wake)
        assert all(now[name] >= level for name, level in need.items())
        assert sum(memory[name].levels[now[name]] for name in now) <= budget
    return total


@given(problems())
def test_nobody_can_do_with_fewer(problem):
    memory, budget, levels, needs = problem
    least = brute_force(*problem)
    try:
        moves = fewest_transitions(memory, budget, levels, needs)
    except Short as short:
        assert least >= 10**6 and short.missing > 0
        return
    assert count_and_check(memory, budget, levels, needs, moves) == least


@given(problems())
def test_without_a_limit_nobody_sleeps(problem):
    memory, _, levels, needs = problem
    assert not any(move.sleep for move in fewest_transitions(memory, None, levels, needs))


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=12), st.integers(2, 4))
def test_alike_sizes_are_beladys_pages(uses, slots):
    """With pages of one size, dropping the one needed last is best (Belady, 1966)."""
    memory = {name: Memory(1) for name in "abcdef"}
    needs = [{name: 2} for name in uses]
    moves = fewest_transitions(memory, slots, dict.fromkeys("abcdef", 0), needs)
    resident, faults, evictions = set(), 0, 0
    for position, name in enumerate(uses):
        if name not in resident:
            faults += 1
            if len(resident) == slots:
                rest = uses[position:]
                last = max(resident, key=lambda n: rest.index(n) if n in rest else len(rest))
                resident.remove(last)
                evictions += 1
            resident.add(name)
    assert sum(len(move.wake) + len(move.sleep) for move in moves) == faults + evictions


def test_sizes_make_a_difference_that_beladys_rule_does_not_see():
    # The big one is needed first; but its sleep spares those of both small ones.
    memory = {"big": Memory(4), "one": Memory(2), "two": Memory(2), "new": Memory(4)}
    levels = {"big": 2, "one": 2, "two": 2, "new": 0}
    needs = [{"new": 2}, {"big": 2}]
    moves = fewest_transitions(memory, 8, levels, [*needs, {"one": 2}, {"two": 2}])
    assert moves[0] == Moves(("big",), (("new", 2),))


def test_what_is_short_says_where_and_how_much():
    memory = {"a": Memory(5), "b": Memory(5, 1)}
    with pytest.raises(Short) as caught:
        fewest_transitions(memory, 5, {"a": 0, "b": 0}, [{"b": 2}, {"a": 2}])
    assert (caught.value.position, caught.value.missing) == (1, 1)


def test_a_dozen_residents_in_every_order_that_is_needed():
    memory = {f"r{i}": Memory(1 + i % 5) for i in range(12)}
    needs = [{f"r{i}": 2, f"r{j}": 2} for i, j in combinations(range(12), 2)][::5]
    levels = dict.fromkeys(memory, 0)
    moves = fewest_transitions(memory, 12, levels, needs)
    count_and_check(memory, 12, levels, needs, moves)
