"""What processes of Turnscope's own do without, and what another program keeps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SKIP = "from turnscope.skipped_imports import skip_pandas; skip_pandas(); skip_pandas()\n"
OPEN = """
from pathlib import Path
from turnscope.storage.database import open_database
with open_database(Path('some.db')) as db:
    db['made'].insert({'name': 'kittiwake'})
    assert {row['name'] for row in db['made'].rows} == {'kittiwake'}
"""


def run(code: str, folder: Path) -> list[str]:
    """What a Python of its own prints."""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


def test_a_process_of_its_own_stores_without_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    code = "import sys\nprint('pandas' in sys.modules)\nimport pandas\nprint(pandas.__name__)"
    assert run(SKIP + OPEN + code, tmp_path) == ["False", "pandas"]
    assert run(f"{SKIP}import pandas\n{OPEN}from sqlite_utils import db\nprint(db.pd.__name__)", tmp_path) == ["pandas"]


def test_in_another_program_sqlite_utils_stores_timestamps_of_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    store = "import pandas\nwith open_database(Path('b.db')) as db: db['times'].insert({'at': pandas.Timestamp(2026, 1, 1)})"
    run(f"import turnscope\n{OPEN}{store}", tmp_path)
