"""What settings of a policy came to, session by session, kept as lines of a file, so that a stopped search goes on there."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import msgspec

from turnscope.library import session_summary
from turnscope.planning.policy import Policy
from turnscope.settings import find_data_folder
from turnscope.views.advice import Figures

VERSION = 1  # count up when a setting comes to something else on the same session
_END = ".jsonl"


class TrialResult(msgspec.Struct):
    """What a setting came to on a session. `error`: why it is none."""

    setting: str
    session: str
    figures: Figures = Figures()
    unpriced: int = 0
    error: str = ""


@dataclass(slots=True)
class TrialLog:
    """What settings of one policy came to, in memory and, where there is a `file`, as a line each. A line that was not written
    to its end is passed over."""

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
        """Remember one. Whatever was cut off before it gets a line of its own."""
        self.known[line.setting, line.session] = line
        if self.file:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("ab+") as out:
                torn = out.tell() > 0 and out.seek(-1, 2) >= 0 and out.read(1) != b"\n"
                out.write(b"\n" * torn + msgspec.json.encode(line) + b"\n")


def find_advice_folder() -> Path:
    """Where commands and pages keep what was tried."""
    return find_data_folder() / "advice"


def open_log(folder: Path, policy: Policy) -> TrialLog:
    """What is remembered below a folder of a policy, as this version of Turnscope and its prices see it."""
    told = f"{VERSION}\n{session_summary.get_version()}\n{policy.to_toml()}"
    return TrialLog(folder / f"{policy.name}-{blake2b(told.encode(), digest_size=8).hexdigest()}{_END}")
