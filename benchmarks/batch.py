"""12,000 problems of 11 moments and 9 parameters at once: CPU time of one Gauss–Newton iteration, and of whole fits.

The study is the paper's on infant health; a table drawn at random stands in for its covariates.
"""

from __future__ import annotations

import time

import numpy as np

import sourcewise as sw
from model import Array, Result
from sourcewise.estimation.blocks import Blocks, Stacking
from sourcewise.estimation.gmm import Settings, WeightedMoments, estimate
from sourcewise.estimation.weights import efficient_weight
from sourcewise.moments.compiled import CompiledStudy, compile_study
from sourcewise.moments.separable import GramEvidence
from sourcewise.numerics.least_squares import minimize
from sourcewise.statistics.features import Features

PROBLEMS, ROWS, ITERATIONS = 12_000, 500, 5
MOMENTS = [
    "w1*(y - a1*w1 - b*x) - a2*d",
    "x*(y - a1*w1 - b*x) - a2*t2",
    "w2*(y - a2*w2 - b*x) - a1*d",
    "x*(y - a2*w2 - b*x) - a1*t1",
    "w1*w2 - d",
    "x*w1 - t1",
    "x*w2 - t2",
    "w1**2 - s1",
    "w2**2 - s2",
    "(y - a1*w1 - b*x)**2 - a2**2*s2 - s_y",
    "(y - a2*w2 - b*x)**2 - a1**2*s1 - s_y",
]
SOURCES = {"first": "w1 x y", "second": "w2 x y", "both": "w1 w2 x y"}


def study() -> sw.Study:
    sources = {name: sw.Source(observes, cost=1.0) for name, observes in SOURCES.items()}
    return sw.Study(moments=MOMENTS, target="b", sources=sources)


def draw(random: np.random.Generator) -> dict[str, Array]:
    """A weight (standardised), whether the mother smoked, treatment, outcome."""
    w1 = random.standard_normal(ROWS)
    w2 = np.where(random.random(ROWS) < 0.4 - 0.1 * np.tanh(w1), 1.0, 0.0)
    x = np.where(random.random(ROWS) < 0.19 + 0.05 * np.tanh(w1) - 0.05 * w2, 1.0, 0.0)
    return {"w1": w1, "w2": w2, "x": x, "y": x + w1 + 0.1 * w2 + random.standard_normal(ROWS)}


def evidence(compiled: CompiledStudy) -> dict[str, GramEvidence]:
    random = np.random.default_rng(0)
    found = {}
    for name, source in compiled.sources.items():
        features, size = Features(source, dict.fromkeys(source.atoms, 0.0)), len(source.terms)
        gram = np.empty((PROBLEMS, size, size))
        for k in range(PROBLEMS):
            data = draw(random)
            terms = features(np.stack([data[variable] for variable in source.variables]))
            gram[k] = terms @ terms.T
        centre = np.zeros((len(source.atoms), 1))
        found[name] = GramEvidence(source, np.full(PROBLEMS, float(ROWS)), gram, centre)
    return found


def iteration_seconds(compiled: CompiledStudy, blocks: Blocks) -> float:
    """CPU seconds of one evaluation and one step for all problems: a search of n more iterations takes n more."""
    random = np.random.default_rng(1)
    start = 1.0 + 0.3 * random.standard_normal((len(compiled.parameters), PROBLEMS))
    problem = WeightedMoments(blocks, efficient_weight(blocks, start))
    # noise 0: no problem is done before the iterations are, so that every one of them is of full size
    nothing, low, high = np.zeros(PROBLEMS), compiled.lower, compiled.upper
    times = []
    for iterations in (1, 1 + ITERATIONS) * 3:
        began = time.process_time()
        minimize(problem, start, lower=low, upper=high, noise=nothing, max_iterations=iterations)
        times.append(time.process_time() - began)
    return (min(times[1::2]) - min(times[::2])) / ITERATIONS


def run() -> list[Result]:
    model = study()
    compiled = compile_study(model)
    assert (compiled.count, len(compiled.parameters)) == (11, 9)
    parts = evidence(compiled)
    rows = []
    stackings: tuple[Stacking, ...] = ("pooled", "stacked")
    for stacking in stackings:
        blocks = Blocks(parts, stacking, "robust", False, len(model.moments))
        seconds = iteration_seconds(compiled, blocks)
        rows.append((f"{PROBLEMS:,} problems, {stacking}: an iteration", f"{1e3 * seconds:.0f} ms", "≤ 60 ms"))
        began = time.process_time()
        found = estimate(model, compiled, blocks, Settings(), np.full((9, PROBLEMS), np.nan))
        total = time.process_time() - began
        told = f"{found.iterations.mean():.1f} iterations, {found.converged.mean():.2%} converged"
        rows.append(("… whole two-step estimates", f"{total:.1f} s ({told})", ""))
    return rows
