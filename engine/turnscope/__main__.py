"""`turnscope [PATH]`: open the app on a session file or a folder; `--forget` deletes what was remembered.

`turnscope export PATH --as FORM` writes a session in another form; `turnscope compare PATH --policies a,b` puts policies
side by side; `turnscope check PATH... --max-fill 90` fails where sessions break a budget; `turnscope advise PATH --policy X`
searches parameters of a policy; `turnscope calculate` says what policies do to a conversation that is only planned;
`turnscope trace PATH FILE` writes a session, or its replay, as OpenTelemetry's spans; `turnscope share PATH FILE` writes a
report without what is private.

Starts Streamlit as a child process; the engine itself imports none of it.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from turnscope.errors import TurnscopeError, UnknownEntry
from turnscope.library import advising, calculating, checking, opening, trial_log
from turnscope.library.comparing import COMPARED_POLICIES, compare
from turnscope.library.store import Store
from turnscope.settings import OPEN_VARIABLE, find_data_folder, find_database
from turnscope.views import comparison, exporting, parameters

HERE = Path(__file__).resolve().parent
ALLOCATOR = {"MALLOC_ARENA_MAX": "2"}  # of glibc: else what each thread has freed stays with it, some 70 MB after many replays
PATIENCE = 5.0  # seconds that the app has to end by itself
APP = HERE / "_app" if (HERE / "_app").is_dir() else HERE.parents[1]  # in a wheel, else in a clone of the repository


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Gives the exit code: 0 = well, 1 = nothing could be forgotten, 2 = the path does not exist."""
    given = list(sys.argv[1:] if argv is None else argv)
    for name, command in COMMANDS.items():
        if given[:1] == [name] and not (len(given) == 1 and Path(name).exists()):
            return command(given[1:])
    parser = argparse.ArgumentParser(prog="turnscope", description="A debugger for LLM context windows.")
    parser.add_argument("path", nargs="?", type=Path, help="a session file, or a folder with session files; default: a sample")
    parser.add_argument("--port", type=int, default=8501, help="port on 127.0.0.1 (default: %(default)s)")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser window")
    parser.add_argument("--forget", action="store_true", help="delete what Turnscope remembered of opened sessions, and exit")
    asked = parser.parse_args(given)
    if asked.forget:
        return _forget(Store(find_database()))
    environment = ALLOCATOR | os.environ
    if asked.path is not None:
        if not asked.path.exists():
            print(f"turnscope: {asked.path} does not exist", file=sys.stderr)
            return 2
        environment[OPEN_VARIABLE] = str(asked.path.resolve())
    starts = [sys.executable, "-m", "streamlit", "run", str(APP / "app.py"), "--server.port", str(asked.port)]
    starts += ["--server.headless", "true"] if asked.no_browser else []
    return _served(starts, environment)


def _served(command: Sequence[str], environment: dict[str, str]) -> int:
    """Run the app until it ends, or this process is told to end: the app never outlives it. Gives the app's exit code."""

    def told(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    ends = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # the second: its window closed
    before = {number: signal.signal(number, told) for number in ends}
    app = None
    try:
        app = subprocess.Popen(command, env=environment, cwd=APP)
        return app.wait()
    except KeyboardInterrupt:  # the app had it, too
        return 0
    finally:
        for number in ends:
            signal.signal(number, signal.SIG_IGN)  # asked twice: it is ending
        if app is not None and app.poll() is None:
            app.terminate()
            with suppress(subprocess.TimeoutExpired):
                app.wait(PATIENCE)
            app.kill()
            app.wait()
        for number, handler in before.items():
            signal.signal(number, handler)


def _forget(store: Store) -> int:
    """Delete what is remembered, and say how much room that gave back."""
    try:
        size = store.delete()
    except TurnscopeError as error:
        print(f"turnscope: {error.what}. {error.hint}", file=sys.stderr)
        return 1
    print(f"Forgot what was remembered in {store.path} ({size / 1e6:,.1f} MB). Chats and session files were not touched.")
    return 0


def _export(argv: Sequence[str]) -> int:
    """Write a session, or one branch of it, in another form; to the standard output unless a file is named."""
    forms = exporting.list_formats()
    parser = argparse.ArgumentParser(prog="turnscope export", description="Write a session in another form.")
    parser.add_argument("path", type=Path, help="a session file, folder, archive or database")
    parser.add_argument("--as", dest="form", choices=[*forms], default="json", help="default: %(default)s")
    parser.add_argument("--conversation", default="", help="which one of several, by its id; default: the main one")
    parser.add_argument("--branch", default="", help="which branch, by the id of its leaf; default: the main path")
    parser.add_argument("--output", type=Path, help="where to write it; default: the standard output")
    asked = parser.parse_args(argv)
    try:
        thread = opening.thread(asked.path, asked.conversation)
        if asked.branch and asked.branch not in thread.leaves:
            raise UnknownEntry(f"there is no branch {asked.branch!r}", hint=f"There are: {', '.join(thread.leaves)}")
        data = forms[asked.form].encode(thread.get_path(asked.branch))
        asked.output.write_bytes(data) if asked.output else sys.stdout.buffer.write(data)
    except (OSError, TurnscopeError) as error:
        print(f"turnscope: {error}. {getattr(error, 'hint', '')}".rstrip(), file=sys.stderr)
        return 1
    return 0


def _compare(argv: Sequence[str]) -> int:
    """Put policies side by side on a session: a table to a person, CSV to a pipe, or JSON with what each request had."""
    parser = argparse.ArgumentParser(prog="turnscope compare", description="Put policies side by side on a session.")
    parser.add_argument("path", type=Path, help="a session file, folder, archive or database")
    parser.add_argument(
        "--policies", default=",".join(COMPARED_POLICIES), help="names, with commas between them; default: %(default)s"
    )
    parser.add_argument("--conversation", default="", help="which one of several, by its id; default: the main one")
    parser.add_argument("--model", default="", help="as if another model had been asked; default: those of the record")
    parser.add_argument("--window", type=int, default=0, help="tokens of its window; default: the model's own")
    parser.add_argument("--limit", type=int, default=0, help="tokens that a prompt may have; default: as each policy says")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="JSON, with what each request had and every lost reference")
    forms.add_argument("--csv", action="store_true", help="CSV, which is also what a pipe or a file gets; default: a table")
    asked = parser.parse_args(argv)
    try:
        names = [name.strip() for name in asked.policies.split(",") if name.strip()]
        how = {"model": asked.model, "window": asked.window, "limit": asked.limit}
        made = compare(opening.load(asked.path, asked.conversation), names, **how)
    except (OSError, TurnscopeError) as error:
        print(f"turnscope: {error}. {getattr(error, 'hint', '')}".rstrip(), file=sys.stderr)
        return 1
    table = sys.stdout.isatty() and not (asked.json or asked.csv)
    sys.stdout.write(f"{made!r}\n" if table else comparison.rows_to_json(made.rows) if asked.json else made.to_csv())
    return 0


def _trace(argv: Sequence[str]) -> int:
    """Write a session's requests, as recorded or replayed, as spans; without content unless it is asked for."""
    from turnscope.telemetry import export, replays  # OpenTelemetry's SDK: only who asks for it waits for it

    parser = argparse.ArgumentParser(prog="turnscope trace", description="Write requests and decisions as OTLP JSON lines.")
    parser.add_argument("path", type=Path, help="a session file, folder, archive or database")
    parser.add_argument("output", type=Path, help="the file to write")
    parser.add_argument("--policy", default=opening.AS_RECORDED, help="what it is replayed under; default: %(default)s")
    parser.add_argument("--conversation", default="", help="which one of several, by its id; default: the main one")
    parser.add_argument("--content", action="store_true", help="prompts and answers as well: the whole prompt in each span")
    asked = parser.parse_args(argv)
    try:
        trace = opening.replay(opening.load(asked.path, asked.conversation), asked.policy)
        count = export.write_spans(asked.output, replays.iter_spans(trace, content=asked.content))
    except (OSError, TurnscopeError) as error:
        print(f"turnscope: {error}. {getattr(error, 'hint', '')}".rstrip(), file=sys.stderr)
        return 1
    print(f"{count:,} spans of {len(trace.plans):,} requests are in {asked.output}")
    return 0


def _share(argv: Sequence[str]) -> int:
    """Write a report of a session to hand on, without what the level leaves out; nothing where that cannot be had."""
    from turnscope.share import redact, report  # its detectors take a while to load

    parser = argparse.ArgumentParser(prog="turnscope share", description="Write one HTML file of a session, to hand on.")
    parser.add_argument("path", type=Path, help="a session file, folder, archive or database")
    parser.add_argument("output", type=Path, help="the file to write; one that ends in .md gets the summary alone")
    parser.add_argument("--level", choices=[*redact.LEVELS], default="no content", help="what it tells; default: %(default)s")
    parser.add_argument("--conversation", default="", help="which one of several, by its id; default: the main one")
    asked = parser.parse_args(argv)
    try:
        made = report.build_report(opening.load(asked.path, asked.conversation), asked.level)
        asked.output.write_text(made.markdown if asked.output.suffix == ".md" else made.html, encoding="utf-8")
    except (OSError, TurnscopeError) as error:
        print(f"turnscope: {error}. {getattr(error, 'hint', '')}".rstrip(), file=sys.stderr)
        return 1
    taken = ", ".join(f"{count} × {kind}" for kind, count in made.removed)
    print(f"{asked.output}: {redact.LEVELS[asked.level]}{f' Taken out: {taken}.' if taken else ''}")
    return 0


def _check(argv: Sequence[str]) -> int:
    """Hold sessions to a budget. Gives 0 = all keep to it, 1 = one does not, 2 = one cannot be read, or no such policy."""
    parser = argparse.ArgumentParser(prog="turnscope check", description="Hold sessions to a context budget.")
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE", help="session files, or folders of them")
    parser.add_argument("--policy", default=opening.AS_RECORDED, help="what they are replayed under; default: %(default)s")
    parser.add_argument("--max-fill", type=float, help="percent of its window that a request may fill")
    parser.add_argument(
        "--max-usd", type=float, help="USD that a session may cost: as billed, else with its prompt cache simulated"
    )
    parser.add_argument("--no-reject", action="store_true", help="no request may be rejected, refused, or too long")
    parser.add_argument("--junit", type=Path, help="write the outcome as JUnit XML, too")
    asked = parser.parse_args(argv)
    try:
        limits = checking.Limits(asked.max_fill, asked.max_usd, asked.no_reject)
        made = [checking.check(path, limits, asked.policy, id) for path in asked.paths for id in checking.list_entries(path)]
        if asked.junit:
            asked.junit.write_text(checking.to_junit(made, asked.policy), encoding="utf-8")
    except (OSError, TurnscopeError) as error:
        print(f"turnscope: {error}. {getattr(error, 'hint', '')}".rstrip(), file=sys.stderr)
        return 2
    for each in made:
        told = (f"\n    {what}" for what in (each.error, *each.violations) if what)
        print(f"{'ok' if each.ok else 'FAILED'} {each.path}{f': {each.summary}' if each.summary else ''}{''.join(told)}")
    if limits == checking.Limits():
        print("No limit was given, so only whether they can be read was checked: see turnscope check --help", file=sys.stderr)
    return 2 if any(each.error for each in made) else int(not all(each.ok for each in made))


def _advise(argv: Sequence[str]) -> int:
    """Search a policy's parameters. Gives 0 = advised, 1 = too few sessions, 2 = no such file or policy, 130 = stopped."""
    parser = argparse.ArgumentParser(prog="turnscope advise", description="Search a policy's parameters over sessions.")
    parser.add_argument("path", type=Path, help="a session file, or a folder of them")
    parser.add_argument("--policy", required=True, help="whose parameters are searched: a built-in policy, or one of yours")
    parser.add_argument("--trials", type=int, default=advising.TRIALS, help="settings to try; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same advice; default: %(default)s")
    parser.add_argument(
        "--turn", action="append", default=[], metavar="KEY", help="a parameter to turn, such as 1.keep; repeatable"
    )
    parser.add_argument("--save", metavar="NAME", help="keep the advised policy among yours")
    parser.add_argument("--json", action="store_true", help="JSON instead of sentences")
    asked = parser.parse_args(argv)
    own = find_data_folder() / "policies"
    try:
        policy = opening.load_policy(asked.policy, own if (own / f"{asked.policy}.toml").is_file() else None)
        made = advising.advise(
            asked.path,
            policy,
            trials=asked.trials,
            seed=asked.seed,
            turn=asked.turn,
            folder=trial_log.find_advice_folder(),
            tell=_tried,
        )
        if asked.save and made.chosen is not None:
            parameters.save_policy(asked.save, made.to_toml(made.chosen), own)
    except KeyboardInterrupt:
        print("\nturnscope: stopped. The same command goes on from there.", file=sys.stderr)
        return 130
    except (OSError, TurnscopeError) as error:
        print(f"turnscope: {error}. {getattr(error, 'hint', '')}".rstrip(), file=sys.stderr)
        return 2
    sys.stdout.write(made.to_json() if asked.json else made.to_text())
    return int(made.chosen is None)


def _tried(done: int, of: int) -> None:
    """How far a search is, where somebody watches."""
    if sys.stderr.isatty():
        print(f"\r{done:,} of {of:,} settings tried", end="\n" if done == of else "", file=sys.stderr, flush=True)


def _calculate(argv: Sequence[str]) -> int:
    """What policies do to a conversation that is only planned: CSV, or JSON with the fill of each turn."""
    parser = argparse.ArgumentParser(
        prog="turnscope calculate", description="What policies do to a conversation that is only planned. Sizes in tokens."
    )
    for name, default, told in calculating.FIELDS:
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"{told}; default: %(default)s")
    parser.add_argument(
        "--policies", default=",".join(calculating.CALCULATED_POLICIES), help="names, with commas; default: %(default)s"
    )
    parser.add_argument("--json", action="store_true", help="JSON instead of CSV")
    asked = parser.parse_args(argv)
    try:
        shape = calculating.Shape(**{name: getattr(asked, name) for name, _, _ in calculating.FIELDS})
        made = calculating.calculate(shape, asked.policies.split(","))
    except TurnscopeError as error:
        print(f"turnscope: {error}. {getattr(error, 'hint', '')}".rstrip(), file=sys.stderr)
        return 2
    sys.stdout.write(made.to_json() if asked.json else made.to_csv())
    return 0


COMMANDS = {
    "export": _export,
    "compare": _compare,
    "check": _check,
    "advise": _advise,
    "calculate": _calculate,
    "trace": _trace,
    "share": _share,
}

if __name__ == "__main__":
    sys.exit(main())
