"""A plan as a table, for people."""

from rich.table import Table

from rlgraph.scheduling.plan import Action, Plan, Run, Sleep, SyncWeights, Wake

_STYLES = {Run: "", Wake: "green", Sleep: "yellow", SyncWeights: "cyan"}


def plan_table(plan: Plan) -> Table:
    """One row an event: what, where, after which others, and the memory held then."""
    devices = plan.placement.devices
    limit = f"{devices.memory / 2**30:.1f} GiB each" if devices.memory else "no memory limit"
    sets = ", ".join(
        f"{name} = {device_set.devices} {devices.kind.upper()}"
        for name, device_set in plan.placement.sets.items()
    )
    table = Table(title=f"A step of {plan.graph.name} on {sets} ({limit})", title_justify="left")
    table.add_column("#", justify="right")
    for heading in ("event", "resident", "devices", "after"):
        table.add_column(heading)
    table.add_column("held per device", justify="right")
    for index, event in enumerate(plan.events):
        what, resident = _words(event.action)
        table.add_row(
            str(index),
            what,
            resident,
            ", ".join(event.places),
            " ".join(map(str, event.after)) or "-",
            ", ".join(f"{size / 2**20:,.0f} MiB" for size in event.held.values()) or "-",
            style=_STYLES[type(event.action)],
        )
    return table


def _words(action: Action) -> tuple[str, str]:
    match action:
        case Run(node=node, resident=resident, part=part, ahead=ahead):
            when = " (next step)" if ahead else ""
            return f"run {node} {part}".rstrip() + when, resident or "-"
        case SyncWeights(trainer=trainer, sampler=sampler):
            return "sync weights", f"{trainer} -> {sampler}"
        case Wake(resident=resident, part=part):
            return "wake" if part == "all" else f"wake {part}", resident
        case Sleep(resident=resident):
            return "sleep", resident
