"""Charts of simulations, campaigns and plans, from plain columns to PNG, SVG, PDF or HTML, without a network.

Nothing here imports Altair before a chart is drawn.
"""

from sourcewise.plots.campaigns import estimates_by_round, mix_over_time, width_by_money
from sourcewise.plots.graphs import causal_graph
from sourcewise.plots.mixes import mix_spread
from sourcewise.plots.plans import policy_outcomes, source_worth, stderr_by_budget
from sourcewise.plots.policies import coverage, regret_curves, tails
from sourcewise.plots.save import save, to_svg
from sourcewise.plots.simplex import variance_line, variance_ternary
from sourcewise.plots.ternary import simplex_grid

__all__ = [
    "causal_graph",
    "coverage",
    "estimates_by_round",
    "mix_over_time",
    "mix_spread",
    "policy_outcomes",
    "regret_curves",
    "save",
    "simplex_grid",
    "source_worth",
    "stderr_by_budget",
    "tails",
    "to_svg",
    "variance_line",
    "variance_ternary",
    "width_by_money",
]
