"""Deployers of Dask: the recipes of the docs, with an `sbatch` that runs jobs here, and the commands that pods would run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Self

import pytest
from conftest import ROOT
from turnscope.fleet.dataset import open_fleet

from tests.bench import bench_fleet
from tests.fleet.made import write_log

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(sys.platform != "linux", reason="starts jobs as a shell does")]

SBATCH = """#!/bin/bash
echo $$ >> "$JOBS"
cp "$1" "$JOBS.$$" # it goes when this has ended
setsid "$BASH" "$JOBS.$$" > /dev/null 2>&1 &
echo "Submitted batch job $!"
"""
SCANCEL = """#!/bin/bash
for job in "$@"; do kill -- "-$job"; done
"""


def read_recipe(title: str, logs: Path, out: Path) -> str:
    """The recipe below a title of the docs, with our folders."""
    page = (ROOT / "engine" / "turnscope" / "docs" / "fleet.md").read_text(encoding="utf-8")
    block = re.search(r"\n\n((?:    .*\n|\n)+)", page.partition(f"### {title}\n")[2])
    assert block
    recipe = textwrap.dedent(block[1])
    for theirs, ours in (('"turnscope", "fleet"', f'"{sys.executable}", "-m", "turnscope", "fleet"'), *FOLDERS[title]):
        assert theirs in recipe
        recipe = recipe.replace(theirs, ours.format(logs=logs, out=out))
    return recipe


FOLDERS = {
    "Slurm": (
        ("/data/logs", "{logs}"),
        ("/data/fleet", "{out}"),
        ("SLURMCluster(", f'SLURMCluster(python="{sys.executable}", interface="lo", '),
        ("scale(8)", "scale(2)"),
    ),
    "Kubernetes": (("s3://logs/agents", "{logs}"), ("s3://tables/fleet", "{out}")),
}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for n in range(6):
        write_log(tmp_path / "logs" / f"s{n}.jsonl", 3)
    return tmp_path / "logs"


def test_the_recipe_for_slurm_reads_with_jobs(logs: Path, tmp_path: Path, data_folder: Path) -> None:
    pytest.importorskip("dask_jobqueue")
    programs, jobs, out = tmp_path / "programs", tmp_path / "jobs", tmp_path / "out"
    programs.mkdir()
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    env = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "JOBS": str(jobs)}
    recipe = read_recipe("Slurm", logs, out)
    command = [sys.executable, "-c", recipe]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "6 of 6 sources read" in done.stdout
    assert len(jobs.read_text().splitlines()) == 2
    assert open_fleet(str(out)).count_rows("sessions") == 6


def test_the_recipe_for_kubernetes_starts_workers_that_read(
    logs: Path, tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = pytest.importorskip("dask_kubernetes.operator")
    out, port, processes = tmp_path / "out", bench_fleet.find_port(), list[subprocess.Popen[bytes]]()
    here = {"0.0.0.0": "127.0.0.1", "8788": ":0", "$(DASK_WORKER_NAME)": "worker-0"}

    class Here:
        """Starts what the pods of a cluster would run, with one worker."""

        scheduler_address = f"tcp://127.0.0.1:{port}"

        def __init__(self, *, custom_cluster_spec: dict[str, Any]) -> None:
            for role, more in (("scheduler", ("--port", str(port), "--no-dashboard")), ("worker", ())):
                (container,) = custom_cluster_spec["spec"][role]["spec"]["containers"]
                assert container["resources"]["limits"]["memory"] == "2Gi"
                command, *words = [here.get(word, word) for word in container["args"]]
                program = Path(sys.executable).with_name(command)  # as the image has it
                env = os.environ | {"DASK_SCHEDULER_ADDRESS": self.scheduler_address}
                processes.append(subprocess.Popen([program, *words, *more], env=env))
            bench_fleet.wait_for(lambda: bench_fleet.is_open(port), 60)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(operator, "KubeCluster", Here)
    try:
        exec(read_recipe("Kubernetes", logs, out), {})
        assert open_fleet(str(out)).count_rows("sessions") == 6
    finally:
        for process in processes[::-1]:
            process.terminate()
            process.wait(60)
