"""What is shown of a run: the live view fits narrow terminals, plain lines come seldom."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from evolve.progress import (
    LINE_INTERVAL_S,
    LiveView,
    PlainView,
    Snapshot,
    accuracy_steps,
    duration,
    line,
    make_view,
    rendered,
    snapshot,
)
from evolve.tally import Tally
from tests.evolve.tiny_runs import accepted, duplicate, rejected


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def tally() -> Tally:
    result = Tally()
    result.add([accepted(0, 0.30, operations=2), accepted(1, 0.10, operations=4), rejected(2), duplicate(3)])
    return result


def drawn(shown: Snapshot | None, width: int) -> str:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, height=24, force_terminal=False)
    console.print(rendered("run runs/some-long-name-of-a-run-folder", "compiling the simulator", shown, 9, 3.0))
    stream = console.file
    assert isinstance(stream, io.StringIO)
    return stream.getvalue()


def test_a_snapshot_counts_this_session_only_in_its_rate_and_time_left() -> None:
    shown = snapshot(4, tally(), budget=13, elapsed_s=2.0, evaluated_before=1)
    assert (shown.evaluations, shown.rate_per_s, shown.left_s) == (3, 1.0, 10.0)


def test_nothing_evaluated_yet_gives_no_rate_and_no_time_left() -> None:
    shown = snapshot(0, Tally(), budget=9, elapsed_s=2.0, evaluated_before=0)
    assert (shown.rate_per_s, shown.left_s) == (None, None)
    assert "no program accepted yet" in line(shown)


def test_the_frontier_is_shown_as_steps_of_falling_error() -> None:
    result = Tally()
    result.add([
        accepted(0, 0.30, operations=2), accepted(1, 0.10, operations=4),
        accepted(2, 0.05, operations=6, e2e=0.2), accepted(3, 0.04, operations=8, e2e=0.02),
    ])  # fmt: skip
    steps = accuracy_steps(result.front)
    assert [entry.elite.descriptor.operations for entry in steps] == [2, 4, 8]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_the_live_view_keeps_within_the_terminal_and_shows_all_that_matters(width: int) -> None:
    text = drawn(snapshot(4, tally(), 9, 2.0, 0), width)
    assert max(map(len, text.splitlines())) <= width
    flat = " ".join(text.split())
    for piece in ("3/9 evaluations", "1.5/s", "4 s left", "10.00 %", "duplicate 1", "fit 1"):
        assert piece in flat


def test_the_live_view_names_the_phase_before_the_first_round() -> None:
    assert "compiling the simulator (3 s)" in drawn(None, 80)


def test_a_plain_view_writes_the_first_round_then_one_line_in_five_seconds_and_the_last() -> None:
    now, stream = [0.0], io.StringIO()
    view = PlainView(stream, lambda: now[0])
    view.begin("run x", 9)
    first = snapshot(0, tally(), 9, 1.0, 0)
    for number in range(12):
        now[0] = number * LINE_INTERVAL_S / 5.0
        view.show(replace(first, round_number=number))
    view.close()
    view.close()
    rounds = [text.split(":")[0] for text in stream.getvalue().splitlines()[1:]]
    assert rounds == ["round 0", "round 5", "round 10", "round 11"]


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"}, {}])
def test_a_terminal_that_does_not_want_drawing_gets_plain_lines(environment: dict[str, str]) -> None:
    assert isinstance(make_view(Terminal(), environment), PlainView)


def test_a_pipe_gets_plain_lines_and_a_terminal_the_live_view() -> None:
    assert isinstance(make_view(io.StringIO(), {"TERM": "xterm"}), PlainView)
    assert isinstance(make_view(Terminal(), {"TERM": "xterm"}), LiveView)


def test_the_live_view_starts_shows_and_wipes_itself() -> None:
    stream = Terminal()
    view = make_view(stream, {"TERM": "xterm"})
    view.begin("run x", 9)
    view.phase("compiling")
    view.show(snapshot(0, tally(), 9, 1.0, 0))
    view.close()
    assert "run x" in stream.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (185, "3 min 05 s"), (3725, "1 h 02 min")]
)
def test_a_duration_is_said_as_a_person_would(seconds: float, text: str) -> None:
    assert duration(seconds) == text
