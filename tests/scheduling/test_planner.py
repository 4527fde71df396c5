"""Plans are valid whatever the graph, the placement, the memory, and however events overlap."""

from collections import Counter as Tally

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rlgraph import PlacementError
from rlgraph.scheduling.memory import Memory
from rlgraph.scheduling.placement import Placement
from rlgraph.scheduling.plan import HOST, Part, Plan, Run, Sleep, SyncWeights, Wake, label
from rlgraph.scheduling.planner import Pace, plan_step
from rlgraph.scheduling.progress import drive, simulate
from tests.scheduling.cases import Case, cases, placed, small_grpo

LEVELS = {"asleep": 0, "weights": 1, "awake": 2}


def steps(case: Case, staleness: int, count: int, parts: int = 1) -> list[Plan]:
    """The plans of a whole run of ``count`` steps."""
    awake: frozenset[str] = frozenset()
    plans = []
    for step in range(count):
        ahead = staleness > 0 and step < count - 1
        pace = Pace(parts, waiting=staleness > 0 and step > 0, ahead=ahead)
        plan = plan_step(case.graph, case.placement, case.memory, awake, pace)
        plans.append(plan)
        awake = plan.awake
    return plans


def feasible(case: Case, staleness: int, count: int, parts: int = 1) -> list[Plan]:
    try:
        return steps(case, staleness, count, parts)
    except PlacementError as error:
        assert "it is short of" in str(error) or "shares device set" in str(error)
        assume(False)
        raise


class Devices:
    """An independent account of who is on the devices, checked at every event's start."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.level = dict.fromkeys(case.placement.homes, 0)
        self.trained = Tally()
        self.loaded: dict[str, int] = {}
        self.used: list[int] = []
        """Versions of the weights of each batch that was sampled."""

    def start(self, action) -> None:
        level, placement = self.level, self.case.placement
        match action:
            case Run(node=name, resident=resident):
                if resident in placement.homes:
                    assert level[resident] == 2, f"{name} on a sleeping {resident}"
                if resident == "policy.sampler":
                    self.used.append(self.loaded[resident])
            case SyncWeights(trainer=trainer, sampler=sampler):
                assert level[trainer] == 2 and level[sampler] >= 1
                self.loaded[sampler] = self.trained[trainer]
            case Wake(resident=name, part=part):
                assert level[name] < 2
                level[name] = 2 if part == "all" else 1
            case Sleep(resident=name):
                assert level[name] > 0
                level[name] = 0
        budget = placement.devices.memory
        for home in placement.sets if budget is not None else ():
            held = sum(self.case.memory[n].levels[level[n]] for n in placement.tenants(home))
            assert held <= budget, f"{home} is over budget"

    def end(self, action) -> None:
        if isinstance(action, Run) and action.node.startswith("update"):
            self.trained[action.resident] += 1


@given(cases(), st.sampled_from([1, 2, 3]))
def test_every_plan_in_its_own_order(case, parts):
    plans = feasible(case, 0, 3, parts)
    devices = Devices(case)
    fits = case.placement.devices.memory is None or all(
        sum(case.memory[n].awake for n in case.placement.tenants(home))
        <= case.placement.devices.memory
        for home in case.placement.sets
    )
    for step, plan in enumerate(plans):
        done: set[str] = set()
        parts_run: dict[str, list[Part]] = {}
        for index, event in enumerate(plan.events):
            assert all(earlier < index for earlier in event.after)
            devices.start(event.action)
            if isinstance(event.action, Run):
                node = case.graph.nodes[event.action.node]
                assert {v.node.name for v in node.inputs.values()} <= parts_run.keys()
                parts_run.setdefault(node.name, []).append(event.action.part)
                done.add(node.name)
            assert not (fits and isinstance(event.action, Sleep)), "all fit, and one sleeps"
            devices.end(event.action)
        assert done == set(case.graph.nodes), "every node"
        for name, ran in parts_run.items():
            assert ran == [Part(i, ran[0].of) for i in range(ran[0].of)], f"{name} exactly once"
        assert set(devices.used) == {step}, "sampled from the newest weights"
        devices.used.clear()
        assert plan.awake == {name for name, level in devices.level.items() if level == 2}


def parts_of(actions, node: str, ahead: bool) -> list[Part]:
    runs = [action for action in actions if isinstance(action, Run)]
    return sorted(run.part for run in runs if (run.node, run.ahead) == (node, ahead))


class AnyOrder:
    """Goes through a plan; which of the running events ends next, hypothesis decides."""

    def __init__(self, plan: Plan, devices: Devices, data: st.DataObject) -> None:
        self.plan, self.devices, self.data = plan, devices, data
        self.running: set[int] = set()
        self.ended: set[int] = set()

    def start(self, index, event):
        assert set(event.after) <= self.ended
        busy = {place for other in self.running for place in self.plan.events[other].places}
        assert not (busy - {HOST}) & set(event.places), "two at a time on one device set"
        if isinstance(event.action, Run):
            self.check_inputs(event.action)
        self.devices.start(event.action)
        self.running.add(index)
        return True

    def check_inputs(self, run):
        done = [self.plan.events[index].action for index in self.ended]
        for value in self.devices.case.graph.nodes[run.node].inputs.values():
            source = value.node.name
            parts = parts_of(done, source, run.ahead)
            planned = parts_of([event.action for event in self.plan.events], source, run.ahead)
            assert run.part in parts or parts == planned, f"{run} before {source}"

    def wait(self):
        index = self.data.draw(st.sampled_from(sorted(self.running)))
        self.running.remove(index)
        self.ended.add(index)
        self.devices.end(self.plan.events[index].action)
        return [index]


@given(cases(sampler_alone=True), st.integers(0, 1), st.sampled_from([1, 3]), st.data())
def test_every_interleaving_that_a_plan_allows(case, staleness, parts, data):
    devices = Devices(case)
    batches: list[set[int]] = []
    for plan in feasible(case, staleness, 3, parts):
        through = AnyOrder(plan, devices, data)
        drive(plan, through.start, through.wait)
        assert len(through.ended) == len(plan.events), "no deadlock"
        batches.append(set(devices.used))
        devices.used.clear()
    # Batch k is trained on when the weights have seen k updates.
    if staleness == 0:
        assert batches == [{0}, {1}, {2}]
    else:
        assert batches == [{0}, {1}, set()], "one behind, and nothing is sampled in vain"


@given(cases(), st.sampled_from([1, 2]))
def test_the_same_plan_whatever_the_dict_order(case, parts):
    def backwards(mapping):
        return dict(reversed(list(mapping.items())))

    placement = case.placement
    other = Placement(backwards(placement.sets), backwards(placement.homes), placement.devices)
    plan = feasible(case, 0, 1, parts)[0]
    again = plan_step(case.graph, other, backwards(case.memory), set(), Pace(parts))
    assert again.events == plan.events and again.awake == plan.awake


@given(cases(), st.data())
def test_a_mock_clock_goes_through_a_plan_without_waiting(case, data):
    plan = feasible(case, 0, 1)[0]
    seconds = [data.draw(st.integers(0, 9)) for _ in plan.events]
    spans = simulate(plan, lambda event: seconds[plan.events.index(event)])
    assert [plan.events.index(span.event) for span in spans] != [] or not plan.events
    ends = {id(span.event): span.end for span in spans}
    assert len(ends) == len(plan.events)
    for span in spans:
        ready = max((ends[id(plan.events[i])] for i in span.event.after), default=0.0)
        assert span.begin == ready, "starts as soon as it may"


def actions(plan: Plan) -> list:
    return [event.action for event in plan.events]


def test_a_step_in_order():
    graph = small_grpo()
    memory = {name: Memory(1) for name in graph.residents}
    plan = plan_step(graph, placed(graph, None), memory)
    assert [action for action in actions(plan) if not isinstance(action, Wake)] == [
        Run("source", "counter"),
        SyncWeights("policy.trainer", "policy.sampler"),
        Run("generate", "policy.sampler"),
        Run("logprobs", "reference0"),
        Run("update", "policy.trainer"),
    ]
    assert plan.awake == {"policy.trainer", "policy.sampler", "reference0"}


def test_residents_with_devices_of_their_own_do_not_wait_for_each_other():
    graph = small_grpo(scorers=2)
    memory = {name: Memory(1) for name in graph.residents}
    plan = plan_step(graph, placed(graph, None, together=False), memory, graph.residents)
    index = {label(action): i for i, action in enumerate(actions(plan))}
    assert plan.events[index["logprobs_2"]].after == (index["generate"],)


def test_the_one_needed_last_sleeps_first():
    graph = small_grpo(scorers=2)
    sizes = {"policy.trainer": 4, "policy.sampler": 4, "reference0": 2, "reference1": 2}
    table = {name: Memory(size) for name, size in sizes.items()}
    plan = plan_step(graph, placed(graph, 10), table)
    assert [action for action in actions(plan) if isinstance(action, Sleep)] == [
        # The trainer is needed next; the sampler comes before this one in the next step.
        Sleep("reference0")
    ]


def test_a_sampler_takes_its_weights_first_where_the_trainer_leaves_no_room():
    graph = small_grpo()
    memory = {"policy.trainer": Memory(6), "policy.sampler": Memory(8, 0, 2)}
    memory["reference0"] = Memory(1)
    plan = plan_step(graph, placed(graph, 9), memory)
    assert actions(plan)[1:8] == [
        Wake("policy.trainer"),
        Wake("policy.sampler", "weights"),
        SyncWeights("policy.trainer", "policy.sampler"),
        Sleep("policy.trainer"),
        Wake("policy.sampler"),
        Run("generate", "policy.sampler"),
        Wake("reference0"),
    ]
    assert Sleep("policy.sampler", discard=True) in actions(plan), "a sync brings new weights"


def test_what_was_too_much_at_the_start_is_put_to_sleep():
    graph = small_grpo()
    memory = {name: Memory(4) for name in placed(graph, None).homes}
    plan = plan_step(graph, placed(graph, 8), memory, awake=memory)
    assert actions(plan)[0] == Sleep("reference0")


def test_what_cannot_fit_says_by_how_much_it_is_short_and_what_to_do():
    graph = small_grpo()
    memory = {name: Memory(3 << 30) for name in graph.residents}
    with pytest.raises(PlacementError) as caught:
        plan_step(graph, placed(graph, 4 << 30), memory)
    assert "policy.trainer with 3.00 GiB and policy.sampler with 3.00 GiB" in str(caught.value)
    assert "set 'shared'" in str(caught.value) and "short of 2.00 GiB" in str(caught.value)
    assert "--device-memory 6144MiB" in str(caught.value)


def test_sampling_ahead_wants_devices_of_its_own():
    graph = small_grpo()
    memory = {name: Memory(1) for name in graph.residents}
    with pytest.raises(PlacementError, match="policy.sampler shares device set 'shared' with"):
        plan_step(graph, placed(graph, None), memory, pace=Pace(ahead=True))


def test_a_step_that_is_sampled_ahead():
    graph = small_grpo()
    memory = {name: Memory(1) for name in graph.residents}
    placement = placed(graph, None, together=False)
    plan = plan_step(graph, placement, memory, memory, Pace(waiting=True, ahead=True))
    sync, sampling, training = (
        next(i for i, event in enumerate(plan.events) if event.action == wanted)
        for wanted in (
            SyncWeights("policy.trainer", "policy.sampler"),
            Run("generate", "policy.sampler", ahead=True),
            Run("update", "policy.trainer"),
        )
    )
    assert sync in plan.events[training].after, "the weights are taken before they change"
    assert sampling not in plan.events[training].after
    assert training not in plan.events[sampling].after


def test_parts_let_the_next_model_begin():
    graph = small_grpo(scorers=2)
    memory = {name: Memory(1) for name in graph.residents}
    plan = plan_step(graph, placed(graph, None, together=False), memory, memory, Pace(parts=2))
    index = {event.action: i for i, event in enumerate(plan.events)}
    first = index[Run("generate", "policy.sampler", Part(0, 2))]
    second = index[Run("generate", "policy.sampler", Part(1, 2))]
    assert plan.events[index[Run("logprobs", "reference0", Part(0, 2))]].after == (first,)
    assert {first, second} <= set(plan.events[index[Run("update", "policy.trainer")]].after)


def test_on_shared_devices_parts_would_only_take_turns():
    graph = small_grpo()
    memory = {name: Memory(1) for name in graph.residents}
    plan = plan_step(graph, placed(graph, None), memory, memory, Pace(parts=4))
    assert all(event.action.part.of == 1 for event in plan.events if hasattr(event.action, "node"))
