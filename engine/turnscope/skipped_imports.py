"""What the processes of Turnscope do not import: the program, the app, and their workers. Another program is left alone."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType


class _PandasSkip:
    """A finder of modules that keeps pandas from sqlite_utils while that is imported, and from nothing else."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:  # noqa: ARG002
        if name == "pandas" and (importing := sys.modules.get("sqlite_utils.db")) and not hasattr(importing, "Database"):
            raise ModuleNotFoundError("sqlite_utils is imported without pandas", name=name)


def skip_pandas() -> None:
    """Have sqlite_utils imported without pandas, in this process.

    sqlite_utils imports pandas where that is installed, so that it can store its timestamps, and Streamlit brings pandas along.
    Turnscope stores none, and the import takes 70 MB and a quarter of a second.
    """
    if not any(isinstance(finder, _PandasSkip) for finder in sys.meta_path):
        sys.meta_path.insert(0, _PandasSkip())
