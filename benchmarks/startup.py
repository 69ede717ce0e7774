"""`import sourcewise` in a new process, beside `import numpy`; compiling a study."""

from __future__ import annotations

import os
import subprocess
import sys

from batch import study as eleven_moments
from model import Result, cpu_seconds
from model import study as six_moments
from sourcewise.moments.compiled import compile_source, compile_study

REPEATS = 5


def import_seconds(module: str) -> float:
    """CPU seconds of a process that imports this, bytecode cached."""
    code = f"import time; began = time.process_time(); import {module}; print(time.process_time() - began)"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code]
    runs = [subprocess.run(command, env=environment, check=True, capture_output=True) for _ in range(REPEATS)]
    return min(float(run.stdout) for run in runs)


def compile_anew() -> None:
    compile_source.cache_clear()
    compile_study.cache_clear()


def run() -> list[Result]:
    ours, numpy = import_seconds("sourcewise"), import_seconds("numpy")
    rows = [("import sourcewise / import numpy", f"{ours / numpy:.2f} ({ours:.2f} s / {numpy:.2f} s)", "< 0.5 s")]
    for name, study in {"linear IV, 6 moments": six_moments, "infant health, 11 moments": eleven_moments}.items():

        def once(study=study) -> None:  # type: ignore[no-untyped-def]
            compile_anew()
            compile_study(study())

        rows.append((f"parse and compile: {name}", f"{1e3 * cpu_seconds(once, REPEATS):.1f} ms", ""))
    return rows
