"""`python -m tests.goldens [DIR] [-v]`: cases and passes per ported system. Exit code 1 where a ported system fails."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from tests.goldens import DEFAULT, outcomes


def main() -> int:
    folders = [Path(arg) for arg in sys.argv[1:] if not arg.startswith("-")] or [DEFAULT]
    if not folders[0].is_dir():
        print(f"{folders[0]} is not a folder of golden cases")
        return 2
    cases, passed, departs, failed = Counter[str](), Counter[str](), Counter[str](), 0
    for outcome in outcomes(folders[0]):
        cases[outcome.system] += 1
        passed[outcome.system] += not outcome.wrong
        departs[outcome.system] += bool(outcome.wrong and outcome.departs)
        if outcome.wrong and not outcome.departs:
            failed += 1
            wrong = outcome.wrong if "-v" in sys.argv else outcome.wrong[:400]
            print(f"FAIL {outcome.system} {outcome.kind} {outcome.case}: {wrong}")
    print(f"{'system':20} {'cases':>6} {'passed':>7} {'by choice':>10}")
    for system in cases:
        print(f"{system:20} {cases[system]:6} {passed[system]:7} {departs[system]:10}")
    print(f"{sum(passed.values())} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
