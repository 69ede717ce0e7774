"""`make bench`: every benchmark in turn, as a table. Names choose some of them: `run.py refit batch`."""

from __future__ import annotations

import os
import sys
import warnings

# Read when the libraries are loaded, so before anything that imports NumPy. Children inherit it.
os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")

BENCHMARKS = ("startup", "cold_fit", "refit", "engines", "batch", "allocation", "campaign", "graphs", "experiments")


def main(chosen: list[str]) -> None:
    from importlib import import_module

    unknown = set(chosen) - set(BENCHMARKS)
    if unknown:
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    warnings.simplefilter("ignore")  # of the packages compared with
    print("| benchmark | measured | bar |\n|---|---|---|")
    for name in chosen or BENCHMARKS:
        for row in import_module(name).run():
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
