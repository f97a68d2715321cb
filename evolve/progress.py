"""What a person sees while a run goes on: a live view on a terminal, a line now and then elsewhere.

Views are fed; they own neither the loop nor the clock of the search.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO

from evolve.tables import percent
from evolve.tally import Scored, Tally

if TYPE_CHECKING:
    from rich.console import Console, Group, RenderableType
    from rich.progress_bar import ProgressBar
    from rich.table import Table

LINE_INTERVAL_S = 5.0
"""Plain lines come no faster than this, but for the first."""
FRONTIER_ROWS = 8


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Where a run stands after a round."""

    round_number: int
    evaluations: int
    budget: int
    elapsed_s: float
    rate_per_s: float | None
    """Evaluations per second of this session; None before the first."""
    best_error: float | None
    champion: Scored | None
    frontier: tuple[Scored, ...]
    """The steps of accuracy against operations: each row is more accurate than all smaller ones."""
    rejected: Mapping[str, int]

    @property
    def left_s(self) -> float | None:
        """Return the time that the rest of the budget will take at this rate."""
        return None if self.rate_per_s is None else (self.budget - self.evaluations) / self.rate_per_s


class View(Protocol):
    """Whoever shows the progress of a run."""

    def begin(self, title: str, budget: int) -> None:
        """Name what is about to run."""

    def phase(self, text: str) -> None:
        """Say what is going on before the first round."""

    def show(self, snapshot: Snapshot) -> None:
        """Show where the run stands."""

    def close(self) -> None:
        """Leave the terminal as it was; showing nothing more."""


def snapshot(round_number: int, tally: Tally, budget: int, elapsed_s: float, evaluated_before: int) -> Snapshot:
    """Return where a run stands; ``evaluated_before`` evaluations are of earlier sessions."""
    own = tally.evaluations - evaluated_before
    return Snapshot(
        round_number=round_number,
        evaluations=tally.evaluations,
        budget=budget,
        elapsed_s=elapsed_s,
        rate_per_s=own / elapsed_s if own > 0 and elapsed_s > 0.0 else None,
        best_error=tally.best_error(),
        champion=tally.champion(),
        frontier=accuracy_steps(tally.front),
        rejected=dict(sorted(tally.rejected.items())),
    )


def accuracy_steps(front: tuple[Scored, ...]) -> tuple[Scored, ...]:
    """Return, by operations, the programs with a lower E2E error than every smaller one."""
    steps: list[Scored] = []
    for entry in sorted(front, key=lambda entry: (entry.elite.descriptor.operations, entry.errors.e2e)):
        if not steps or entry.errors.e2e < steps[-1].errors.e2e:
            steps.append(entry)
    return tuple(steps)


def make_view(stream: TextIO, environment: Mapping[str, str] = os.environ) -> View:
    """Return the live view on a terminal that can be drawn on, the plain one elsewhere."""
    if not stream.isatty() or environment.get("NO_COLOR") or environment.get("TERM", "dumb") in ("dumb", "unknown"):
        return PlainView(stream)
    from rich.console import Console

    return LiveView(Console(file=stream))


class PlainView:
    """One line per phase, and one per round that ends at least five seconds after the last line."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._said_s: float | None = None
        self._waiting: Snapshot | None = None

    def begin(self, title: str, budget: int) -> None:
        """Name what is about to run."""
        self._say(f"{title}: {budget} evaluations")

    def phase(self, text: str) -> None:
        """Say what is going on before the first round."""
        self._say(text)

    def show(self, snapshot: Snapshot) -> None:
        """Write a line if the last one is old enough."""
        now = self._clock()
        if self._said_s is not None and now - self._said_s < LINE_INTERVAL_S:
            self._waiting = snapshot
            return
        self._said_s, self._waiting = now, None
        self._say(line(snapshot))

    def close(self) -> None:
        """Write the last state if it has not been written."""
        if self._waiting is not None:
            self._say(line(self._waiting))
            self._waiting = None

    def _say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class LiveView:
    """A few lines that are redrawn in place."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._console = console
        self._title, self._phase, self._budget = "", "", 0
        self._snapshot: Snapshot | None = None
        self._began_s = time.monotonic()
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=4, transient=True)

    def begin(self, title: str, budget: int) -> None:
        """Name what is about to run and start drawing."""
        self._title, self._budget, self._began_s = title, budget, time.monotonic()
        self._live.start()

    def phase(self, text: str) -> None:
        """Say what is going on before the first round."""
        self._phase = text

    def show(self, snapshot: Snapshot) -> None:
        """Redraw."""
        self._snapshot = snapshot

    def close(self) -> None:
        """Wipe the view; what it came to is printed by the command."""
        self._live.stop()

    def _render(self) -> Group:
        return rendered(
            self._title, self._phase, self._snapshot, self._budget, time.monotonic() - self._began_s,
            rows=min(FRONTIER_ROWS, max(self._console.height - 10, 1)),
        )  # fmt: skip


def rendered(
    title: str, phase: str, snapshot: Snapshot | None, budget: int, elapsed_s: float, *, rows: int = FRONTIER_ROWS
) -> Group:
    """Return the live view's content, ``rows`` rows of the frontier at most."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    parts: list[RenderableType] = [Text(title, style="bold", no_wrap=True, overflow="ellipsis")]
    if snapshot is None:
        parts.append(Text(f"{phase} ({duration(elapsed_s)})"))
        parts.append(_bar(ProgressBar(total=budget, pulse=True, width=60)))
    else:
        parts.append(Text(f"{_counts(snapshot)}, running {duration(elapsed_s)}"))
        parts.append(_bar(ProgressBar(total=budget, completed=snapshot.evaluations, width=60)))
        parts.append(Text("\n".join(_best(snapshot))))
        parts.append(Text(f"rejected: {_rejected(snapshot)}"))
        parts.append(_frontier_table(snapshot, rows))
    parts.append(Text("Ctrl-C stops; `resume` goes on", style="dim"))
    return Group(*parts)


def _bar(bar: ProgressBar) -> Table:
    """Return a bar on a line of its own; by itself it does not end its line."""
    from rich.table import Table

    grid = Table.grid()
    grid.add_row(bar)
    return grid


def _frontier_table(snapshot: Snapshot, rows: int) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("frontier: operations", justify="right")
    table.add_column("E2E %", justify="right")
    table.add_column("loss %", justify="right")
    shown = snapshot.frontier[-rows:]
    for entry in shown:
        operations = str(entry.elite.descriptor.operations)
        table.add_row(operations, percent(entry.errors.e2e), percent(entry.error))
    return table


def line(snapshot: Snapshot) -> str:
    """Return a snapshot as one line."""
    rejected = sum(snapshot.rejected.values())
    return f"{_counts(snapshot)}; {'; '.join(_best(snapshot))}; rejected {rejected}"


def _counts(snapshot: Snapshot) -> str:
    text = f"round {snapshot.round_number}: {snapshot.evaluations}/{snapshot.budget} evaluations"
    if snapshot.rate_per_s is not None and snapshot.left_s is not None:
        text += f", {snapshot.rate_per_s:.1f}/s, {duration(snapshot.left_s)} left"
    return text


def _best(snapshot: Snapshot) -> tuple[str, ...]:
    if snapshot.champion is None or snapshot.best_error is None:
        return ("no program accepted yet",)
    champion = snapshot.champion
    errors = ", ".join(
        f"{name.upper()} {percent(getattr(champion.errors, name))} %" for name in ("e2e", "ttft", "tpot")
    )
    operations = champion.elite.descriptor.operations
    return f"best loss {percent(snapshot.best_error)} %", f"champion: {operations} operations, {errors}"


def _rejected(snapshot: Snapshot) -> str:
    return ", ".join(f"{stage} {count}" for stage, count in snapshot.rejected.items()) or "none"


def duration(seconds: float) -> str:
    """Return a time as a person says it: 42 s, 3 min 05 s, 1 h 02 min."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def default_view() -> View:
    """Return the view on standard error: standard output is for results."""
    return make_view(sys.stderr)
