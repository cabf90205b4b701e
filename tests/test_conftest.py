"""Which tests a command runs, and with how many workers."""

from __future__ import annotations

from types import SimpleNamespace

import conftest
import pytest

Source = pytest.Config.ArgsSource


def settle_options(
    monkeypatch: pytest.MonkeyPatch, *, ci: bool = False, worker: bool = False, **more: object
) -> SimpleNamespace:
    """The options of a run, after `pytest_cmdline_main` looked at them."""
    monkeypatch.setattr(conftest, "CI", ci)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    if worker:
        monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    option = SimpleNamespace(markexpr="", thorough=False, numprocesses=None, dist="no", usepdb=False, capture="fd")
    config = SimpleNamespace(option=option, args=["tests"], args_source=Source.TESTPATHS)
    vars(option).update({name: value for name, value in more.items() if name in vars(option)})
    vars(config).update({name: value for name, value in more.items() if name in vars(config)})
    conftest.pytest_cmdline_main(config)  # type: ignore[arg-type]
    return option


@pytest.mark.parametrize("worker", [False, True])
def test_a_run_without_arguments_leaves_the_browser_out(monkeypatch: pytest.MonkeyPatch, worker: bool) -> None:
    """A worker gets the command line, and nothing that the first process found out."""
    assert settle_options(monkeypatch, worker=worker).markexpr == "not browser"
    assert settle_options(monkeypatch, worker=worker, markexpr="browser").markexpr == "browser"
    assert settle_options(monkeypatch, worker=worker, args_source=Source.ARGS).markexpr == ""
    assert settle_options(monkeypatch, worker=worker, ci=True).markexpr == ""


def test_only_a_run_without_arguments_leaves_cases_of_the_longest_tests_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not settle_options(monkeypatch).thorough
    assert settle_options(monkeypatch, thorough=True).thorough
    assert settle_options(monkeypatch, args_source=Source.ARGS).thorough
    assert settle_options(monkeypatch, markexpr="browser").thorough
    assert not settle_options(monkeypatch, ci=True).thorough


def test_of_a_long_test_all_cases_are_left_out_or_all_but_each_so_manieth() -> None:
    def collect(name: str, cases: int, **every: int) -> list[SimpleNamespace]:
        mark = pytest.mark.thorough(**every).mark if name != "short" else None
        return [
            SimpleNamespace(path="test_one.py", name=f"{name}[{n}]", get_closest_marker=lambda _: mark) for n in range(cases)
        ]

    items = [*collect("short", 3), *collect("sliced", 5, every=2), *collect("long", 2)]
    left_out = conftest.list_left_out(items)  # type: ignore[arg-type]
    assert [item.name for item in left_out] == ["sliced[1]", "sliced[3]", "long[0]", "long[1]"]


def test_folders_run_with_workers_and_files_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    folder, file = str(conftest.ROOT / "tests"), __file__
    assert settle_options(monkeypatch, args=[folder]).numprocesses == 3
    assert settle_options(monkeypatch, args=[folder], worker=True).numprocesses is None, "a worker has none of its own"
    assert settle_options(monkeypatch, args=[folder], capture="no").numprocesses is None, "its output is to be seen"
    assert settle_options(monkeypatch, args=[file]).numprocesses is None
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert settle_options(monkeypatch, args=[folder]).numprocesses is None
