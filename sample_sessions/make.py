"""Writes the sample sessions: `python sample_sessions/make.py [folder]`.

The same bytes every time: seeded, no clock, no network. Needs `toktok` alone. What the samples tell is in README.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from making import analyst_story, coffee_story, redis_acts, trip_story  # noqa: E402  (the folder has to be on the path first)


def main(folder: Path) -> None:
    """Write every sample below `folder`."""
    for tell in (redis_acts.tell, trip_story.tell, analyst_story.tell, coffee_story.tell):
        for name, text in tell().items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
            sys.stdout.write(f"{path.stat().st_size:>9,}  {name}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
