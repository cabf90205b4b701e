"""The results of a parameter search, a line of a file for each setting and session, so that a stopped search can go on."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import msgspec

from turnscope.library import session_summary
from turnscope.planning.policy import Policy
from turnscope.settings import find_data_folder
from turnscope.views.advice import Figures

VERSION = 2  # count up when a setting has another result on the same session
_END = ".jsonl"


class TrialResult(msgspec.Struct):
    """The figures of a setting on a session. `error`: why it has none."""

    setting: str
    session: str
    figures: Figures = Figures()
    unpriced: int = 0
    error: str = ""


@dataclass(slots=True)
class TrialLog:
    """The results of one policy, in memory and, with a `file`, as a line each. An incomplete line is skipped."""

    file: Path | None = None
    known: dict[tuple[str, str], TrialResult] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.file is None or not self.file.exists():
            return
        for text in self.file.read_bytes().splitlines():
            try:
                line = msgspec.json.decode(text, type=TrialResult)
            except msgspec.DecodeError:
                continue
            self.known[line.setting, line.session] = line

    def add(self, line: TrialResult) -> None:
        """Add a result. If the last line of the file is incomplete, the result gets a line of its own."""
        self.known[line.setting, line.session] = line
        if self.file:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("ab+") as out:
                torn = out.tell() > 0 and out.seek(-1, 2) >= 0 and out.read(1) != b"\n"
                out.write(b"\n" * torn + msgspec.json.encode(line) + b"\n")


def find_advice_folder() -> Path:
    """The folder in which commands and pages store results."""
    return find_data_folder() / "advice"


def open_log(folder: Path, policy: Policy) -> TrialLog:
    """Open the log of a policy, for this version of Turnscope and of its prices.

    Args:
        folder: where logs are stored.
        policy: the policy.
    """
    version = f"{VERSION}\n{session_summary.get_version()}\n{policy.to_toml()}"
    return TrialLog(folder / f"{policy.name}-{blake2b(version.encode(), digest_size=8).hexdigest()}{_END}")
