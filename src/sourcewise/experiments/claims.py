"""What the paper says of its figures, and what we say beyond it, each judged by the numbers of a simulation.

A claim that noise could explain either way is neither confirmed nor refuted.
"""

from __future__ import annotations

from collections.abc import Iterable

from sourcewise.experiments.base import BY_VARIANCE, PLAIN, STACKED, Findings
from sourcewise.reporting import Verdict
from sourcewise.results import normal_quantile
from sourcewise.simulation.results import ORACLE, Simulation
from sourcewise.simulation.summary import Cell

NEAR = 5.0
"""Per cent of regret: "near zero" is less."""

COVERED = (0.94, 0.96)

PUBLISHED = "published oracle"


def iv(found: Findings) -> list[Verdict]:
    return [*_vanishing(found), *_early(found, ("etc_0.1", "etc_0.2"), ("etg_0.1", "etg_0.2")), *_ours(found)]


def two_ivs(found: Findings) -> list[Verdict]:
    falling = [name for name in found.experiment.adaptive() if name != "etc_0.4"]
    stuck = found.main.cell("etc_0.4", found.largest)
    constant = Verdict(
        "ETC(0.4) keeps a constant regret: after exploring, the corner is out of reach",
        _beyond(stuck.regret_low, stuck.regret_high, NEAR),
        f"{_regret(stuck)} at {found.largest:g}; the variance formula says 17.6 % for a mix of (0.2, 0.8)",
    )
    early = _early(found, ("etc_0.1", "etc_0.2", "etc_0.4"), ("etg_0.1", "etg_0.2"))
    return [*_vanishing(found, falling), *early, constant, *_ours(found)]


def confounder_mediator(found: Findings) -> list[Verdict]:
    fixed = _constant(found, "fixed_equal", 20.0, "about 20 %", "21.8 %")
    return [*_vanishing(found), fixed, _same(found, "etg_fs", "etg_fb"), *_ours(found)]


def ihdp(found: Findings) -> list[Verdict]:
    fixed = _constant(found, "collect_all", 50.0, "about 50 % or more", "73 % (54 % above the published oracle)")
    return [
        *_vanishing(found),
        *_early(found, ("etc_0.2", "etc_0.4"), ("etg_fb", "etg_fs")),
        fixed,
        _same(found, "etg_fs", "etg_fb"),
        *_ours(found),
        *_corrected_ratio(found),
    ]


def draft_lottery(found: Findings) -> list[Verdict]:
    fixed = _constant(found, "fixed_equal", 25.0, "about 25 % or more", "48 %")
    return [*_vanishing(found), fixed, *_ours(found)]


def _vanishing(found: Findings, names: Iterable[str] | None = None) -> list[Verdict]:
    """The regret at the largest budget is near zero, for each adaptive policy."""
    verdicts = []
    for name in names or found.experiment.adaptive():
        first, last = (found.main.cell(name, budget) for budget in (found.smallest, found.largest))
        evidence = f"{_regret(first)} at {found.smallest:g}, {_regret(last)} at {found.largest:g}"
        if PUBLISHED in found.main.outcomes:
            ratio, error = found.main.compare(name, PUBLISHED, found.largest)
            evidence += f"; against the published oracle {100 * ratio:.1f} % (standard error {100 * error:.1f})"
        claim = f"The regret of {name} falls to zero as the budget grows"
        verdicts.append(Verdict(claim, _near(last.regret_low, last.regret_high), evidence))
    return verdicts


def _early(found: Findings, poor: tuple[str, ...], good: tuple[str, ...]) -> list[Verdict]:
    """At the smallest budget some are near zero already, and others are not.

    Judged by the mean, as in the paper, and once more by the mean of the smallest 99 % of the errors: where the
    estimate has no moments, a few runs can make the mean say anything.
    """
    verdicts = []
    for names, rule, text in (
        (good, _near, "At the smallest budget the regret of {} is near zero already"),
        (poor, _far, "At the smallest budget the regret of {} is not near zero"),
    ):
        for name in names:
            cell, claim = found.main.cell(name, found.smallest), text.format(name)
            evidence = f"{_regret(cell)} at {found.smallest:g}"
            if name != good[0]:
                ratio, error = found.main.compare(name, good[0], found.smallest)
                evidence += f"; against {good[0]} {100 * ratio:+.1f} % (standard error {100 * error:.1f})"
            trimmed = f"{cell.trimmed_regret:.1f} % [{cell.trimmed_low:.1f}, {cell.trimmed_high:.1f}]"
            best = found.main.cell(ORACLE, found.smallest)
            tail = f"99th percentile of the scaled error {cell.p99:.4g}, the oracle's {best.p99:.4g}"
            verdicts += [
                Verdict(claim, rule(cell.regret_low, cell.regret_high), evidence),
                Verdict(
                    f"{claim}, without the largest 1 % of the errors",
                    rule(cell.trimmed_low, cell.trimmed_high),
                    f"{trimmed} at {found.smallest:g}; {tail}",
                ),
            ]
    return verdicts


def _constant(found: Findings, name: str, least: float, claim: str, theory: str) -> Verdict:
    cell = found.main.cell(name, found.largest)
    holds = _beyond(cell.regret_low, cell.regret_high, 0.75 * least)
    evidence = f"{_regret(cell)} at {found.largest:g}; the variance formula says {theory}"
    return Verdict(f"{name} keeps a regret of {claim}", holds, evidence)


def _same(found: Findings, one: str, other: str) -> Verdict:
    """No difference in any cell beyond noise, over all budgets together."""
    budgets = found.experiment.budgets
    differences = [(budget, *found.main.compare(one, other, budget)) for budget in budgets]
    budget, ratio, error = max(differences, key=lambda item: abs(item[1]) / item[2])
    limit = _joint(len(budgets))
    evidence = (
        f"mean squared error of {one} against {other}: largest difference for its noise {100 * ratio:+.1f} % "
        f"(standard error {100 * error:.1f}) at {budget:g}, {abs(ratio) / error:.1f} standard errors, "
        f"where {limit:.1f} are noise"
    )
    return Verdict(f"{one} and {other} do not differ", abs(ratio) <= limit * error, evidence)


def _ours(found: Findings) -> list[Verdict]:
    """Stacked estimates are never worse, and intervals hold what they promise."""
    pairs = [(name + STACKED, name) for name in (ORACLE, *found.experiment.policies)]
    aimed = [(f"{name}{STACKED}{BY_VARIANCE}", name + STACKED) for name in found.experiment.by_variance]
    verdicts = [
        _never_worse(found, pairs, "Stacked estimates with the exact allocation are never worse than the paper's"),
        _never_worse(found, aimed, "Aiming at the least variance is never worse than aiming at the nearest mix"),
        _covering(found.main, found.largest),
    ]
    return verdicts + ([] if found.weak is None else _weakly_covering(found.weak))


def _never_worse(found: Findings, pairs: list[tuple[str, str]], claim: str) -> Verdict:
    cells = [
        (one, budget, *found.main.compare(one, other, budget)) for one, other in pairs for budget in found.main.budgets
    ]
    moving = [cell for cell in cells if cell[3] > 0]
    if not moving:
        return Verdict(claim, True, "the same in every run")
    name, budget, ratio, error = max(moving, key=lambda cell: cell[2] / cell[3])
    lowest = min(moving, key=lambda cell: cell[2] / cell[3])
    limit = _joint(len(cells))
    evidence = (
        f"in {len(cells)} cells, worst for its noise: {name} at {budget:g}, {100 * ratio:+.1f} % "
        f"({ratio / error:+.1f} standard errors, where {limit:.1f} are noise); best: {lowest[0]} at {lowest[1]:g}, "
        f"{100 * lowest[2]:+.1f} % ({lowest[2] / lowest[3]:+.1f})"
    )
    return Verdict(claim, ratio <= limit * error, evidence)


def _covering(simulation: Simulation, budget: float) -> Verdict:
    cells = [cell for cell in simulation.cells if cell.budget == budget]
    low, high = (rule(cells, key=lambda cell: cell.coverage) for rule in (min, max))
    noise = (0.95 * 0.05 / simulation.runs) ** 0.5
    inside = all(COVERED[0] <= cell.coverage <= COVERED[1] for cell in cells)
    far = any(not COVERED[0] - 2 * noise <= cell.coverage <= COVERED[1] + 2 * noise for cell in cells)
    evidence = (
        f"from {100 * low.coverage:.1f} % ({low.policy}) to {100 * high.coverage:.1f} % ({high.policy}); "
        f"standard error {100 * noise:.1f}"
    )
    return Verdict(
        f"At {budget:g} all 95 % intervals cover in 94 to 96 %", True if inside else (False if far else None), evidence
    )


def _weakly_covering(simulation: Simulation) -> list[Verdict]:
    verdicts = []
    for cell in simulation.cells:
        noise = (0.95 * 0.05 / cell.runs) ** 0.5
        verdicts.append(
            Verdict(
                f"The interval for weak identification keeps its level ({cell.policy}, budget {cell.budget:g})",
                _decided(cell.weak_coverage - 0.94, noise),
                f"it covers in {100 * cell.weak_coverage:.1f} %, the usual one in {100 * cell.coverage:.1f} %; "
                f"standard error {100 * noise:.1f}",
            )
        )
    return verdicts


def _corrected_ratio(found: Findings) -> list[Verdict]:
    assert found.large is not None
    budget = found.large.budgets[0]
    ratio, error = found.large.compare(ORACLE, PUBLISHED, budget)
    here = found.large.cell(ORACLE, budget), found.large.cell(PUBLISHED, budget)
    names = (ORACLE, PUBLISHED, ORACLE + STACKED, ORACLE + STACKED + PLAIN)
    small = [found.main.cell(name, found.smallest) for name in names]
    tails = "; ".join(
        f"{c.policy}: mean {c.mse:.4g}, median {c.median:.3g}, 99th percentile {c.p99:.4g}" for c in small
    )
    gain, noise = found.main.compare(names[2], ORACLE, found.smallest)
    return [
        Verdict(
            f"The corrected ratio has a mean squared error at least 8 % lower than the published one at {budget:g}",
            _decided(-100 * ratio - 8.0, 100 * error),
            f"{100 * ratio:+.1f} % (standard error {100 * error:.1f}): {here[0].mse:.2f} against {here[1].mse:.2f}; "
            f"the variance formula says −11.0 %",
        ),
        Verdict(
            f"At {found.smallest:g}, where the true ratio leaves the third source few rows, the tails are heavy",
            small[0].mse > 3 * small[1].mse or small[0].p99 > 1.5 * small[1].p99,
            tails,
        ),
        Verdict(
            f"Stacked estimates with shrunk weights tame the tails at {found.smallest:g}",
            gain < -2 * noise and small[2].p99 < small[0].p99,
            f"mean {100 * gain:+.1f} % (standard error {100 * noise:.1f}); 99th percentile {small[2].p99:.4g} against "
            f"{small[0].p99:.4g}",
        ),
    ]


def _regret(cell: Cell) -> str:
    return f"{cell.regret:.1f} % [{cell.regret_low:.1f}, {cell.regret_high:.1f}]"


def _near(low: float, high: float) -> bool | None:
    """Whether a regret is near zero, from its 95 % interval."""
    return True if high < NEAR else (False if low > NEAR else None)


def _far(low: float, high: float) -> bool | None:
    return _beyond(low, high, NEAR)


def _beyond(low: float, high: float, limit: float) -> bool | None:
    return True if low > limit else (False if high < limit else None)


def _decided(excess: float, noise: float) -> bool | None:
    """Whether an excess is positive: within two standard errors of nothing it cannot be told."""
    return True if excess > 0 else (False if excess < -2 * noise else None)


def _joint(count: int) -> float:
    """Standard errors that the largest of `count` differences exceeds by chance in 1 % of cases."""
    return normal_quantile(1.0 - 0.02 / count)
