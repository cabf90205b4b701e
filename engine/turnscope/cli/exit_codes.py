"""What the exit code of `turnscope` means: one table for all commands."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class ExitCode(IntEnum):
    """Every exit code of every command. `meaning` is a sentence for people; `turnscope --help` and the docs list them.

    128 and above follow the shells: 128 plus the number of the signal that ended the command.
    """

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Self:
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        return code

    DONE = 0, "The command did its work."
    NEGATIVE = 1, "The answer is no: a check failed, nothing can be advised, or a report cannot be redacted."
    ERROR = 2, "The command could not do its work: wrong usage, unreadable input, or output that cannot be written."
    DEFECT = 70, "Turnscope has a defect. The traceback is on standard error: please report it."
    HANGUP = 129, "The terminal was closed."
    INTERRUPTED = 130, "Ctrl-C stopped the command."
    PIPE_CLOSED = 141, "The program that reads the output ended first, as `head` does."
    TERMINATED = 143, "The command received SIGTERM."
