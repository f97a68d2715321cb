"""Ctrl-C and SIGTERM: the first one stops the run cleanly, the second one at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequested(BaseException):
    """The user, or the system, asked this process to stop."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.exit_code = 128 + signal_number


@contextmanager
def stoppable() -> Iterator[None]:
    """Let the first SIGINT or SIGTERM raise `StopRequested` in the block and the second one end the process."""
    asked = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            kill_children()
            os._exit(128 + number)
        asked = True
        raise StopRequested(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def no_survivors() -> Iterator[None]:
    """End the worker processes at once when the block is left by an exception: nobody waits for what they compute."""
    try:
        yield
    except BaseException:
        kill_children()
        raise


def kill_children() -> None:
    """End every process that this one started through multiprocessing."""
    for child in multiprocessing.active_children():
        child.kill()
