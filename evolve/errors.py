"""What goes wrong for a person at the command line: one message that names what was found and the way out."""

from __future__ import annotations


class CommandError(Exception):
    """The command cannot do what was asked; its text is all that the user sees. Exit code 1."""

    exit_code = 1


class UsageError(CommandError):
    """What was asked makes no sense: an unknown key, a value out of range. Exit code 2."""

    exit_code = 2
