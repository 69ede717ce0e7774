"""Worlds for small samples: all means and covariances that a causal graph implies, normal data and others.

The designs, their parameters and the sizes were fixed before the first run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

import sourcewise as sw
from replication.worlds import EFFECT, A, Array, B, Columns, D, World

Noise = Callable[[np.random.Generator, int, int], Array]
"""So many independent variables of mean 0 and variance 1, each (rows,)."""


def normal(random: np.random.Generator, count: int, rows: int) -> Array:
    return random.standard_normal((count, rows))


def skewed(random: np.random.Generator, count: int, rows: int) -> Array:
    """Exponential: skewness 2, kurtosis 9."""
    return random.standard_exponential((count, rows)) - 1.0


def heavy(random: np.random.Generator, count: int, rows: int) -> Array:
    """Jointly t with 5 degrees of freedom: kurtosis 9, and no eighth moment, so that a sample's fourth moments have no
    variance."""
    scale = np.sqrt(3.0 / random.chisquare(5.0, rows))
    return random.standard_normal((count, rows)) * scale


def moments(covariances: Mapping[tuple[str, str], str]) -> list[str]:
    """Means, and products of the pairs (in the order given) whose covariances are these expressions."""
    names = dict.fromkeys(name for pair in covariances for name in pair)
    means = [f"{name} - m_{name}" for name in names]
    return means + [f"{a}*{b} - ({text}) - m_{a}*m_{b}" for (a, b), text in covariances.items()]


def _instrument(noise: Noise) -> Callable[[np.random.Generator, int], Columns]:
    def people(random: np.random.Generator, rows: int) -> Columns:
        z, u, e_x, e_y = noise(random, 4, rows)
        x = z + math.sqrt(0.5) * (u + e_x)
        return {"z": z, "x": x, "y": x + math.sqrt(0.5) * (u + e_y)}

    return people


IV = World(
    "IV",
    sw.Study(
        moments(
            {
                ("z", "z"): "vz",
                ("z", "x"): "a*vz",
                ("z", "y"): "a*beta*vz",
                ("x", "x"): "a**2*vz + vx",
                ("y", "y"): "vy",
            }
        ),
        "beta",
        {"exposure": sw.Source("z x"), "outcome": sw.Source("z y")},
    ),
    {"beta": 1.0},
    _instrument(normal),
)

VAR_X = "(a1**2*v1 + a2**2*v2 + vx)"


def _two_instruments(random: np.random.Generator, rows: int) -> Columns:
    z1, z2, u, e_x, e_y = random.standard_normal((5, rows))
    z2 = 2.0 * z2
    x = z1 + z2 + math.sqrt(0.5) * (u + e_x)
    return {"z1": z1, "z2": z2, "x": x, "y": x + math.sqrt(0.5) * (u + e_y)}


TWO_IVS = World(
    "Two IVs",
    sw.Study(
        moments(
            {
                ("x", "x"): VAR_X,
                ("x", "y"): f"beta*{VAR_X} + c",
                ("y", "y"): f"beta**2*{VAR_X} + 2*beta*c + vy",
                ("z1", "z1"): "v1",
                ("z1", "x"): "a1*v1",
                ("z1", "y"): "beta*a1*v1",
                ("z2", "z2"): "v2",
                ("z2", "x"): "a2*v2",
                ("z2", "y"): "beta*a2*v2",
            }
        ),
        "beta",
        {"first": sw.Source("x y z1"), "second": sw.Source("x y z2")},
    ),
    {"beta": 1.0},
    _two_instruments,
)

MEDIATED_X = "(d**2*vw + vx)"


def _mediated(name: str, noise: Noise) -> World:
    def people(random: np.random.Generator, rows: int) -> Columns:
        w, e_x, e_m, e_y = noise(random, 4, rows)
        x = D * w + e_x
        m = EFFECT / A * x + e_m
        return {"w": w, "x": x, "m": m, "y": A * m + B * w + e_y}

    study = sw.Study(
        moments(
            {
                ("x", "x"): MEDIATED_X,
                ("x", "y"): f"a*t*{MEDIATED_X} + b*d*vw",
                ("y", "y"): f"a**2*(t**2*{MEDIATED_X} + vm) + b**2*vw + 2*a*b*t*d*vw + vy",
                ("w", "w"): "vw",
                ("w", "x"): "d*vw",
                ("w", "y"): "(a*t*d + b)*vw",
                ("m", "m"): f"t**2*{MEDIATED_X} + vm",
                ("m", "x"): f"t*{MEDIATED_X}",
                ("m", "y"): f"a*(t**2*{MEDIATED_X} + vm) + b*t*d*vw",
            }
        ),
        "a*t",
        {"confounder": sw.Source("x y w", cost=1.8), "mediator": sw.Source("x y m", cost=1.0)},
    )
    return World(name, study, {"a*t": EFFECT}, people)


MEDIATED = _mediated("Confounder-mediator", normal)
MEDIATED_SKEWED = _mediated("Confounder-mediator, skewed", skewed)

LOADINGS = (1.0, 0.55, 0.73, 1.0, 1.11, 0.93, 1.0, 1.18, 1.08)
FACTORS = ((0.81, 0.41, 0.26), (0.41, 0.98, 0.17), (0.26, 0.17, 0.38))
ERRORS = (0.55, 1.13, 0.84, 0.37, 0.45, 0.36, 0.80, 0.49, 0.57)
"""Of the size that Holzinger and Swineford's data have, rounded."""


def _abilities(name: str, noise: Noise) -> World:
    tests = [f"x{k}" for k in range(1, 10)]
    root = np.linalg.cholesky(np.array(FACTORS))

    def people(random: np.random.Generator, rows: int) -> Columns:
        drawn = noise(random, 12, rows)
        factors, errors = root @ drawn[:3], np.sqrt(ERRORS)[:, None] * drawn[3:]
        values = np.array(LOADINGS)[:, None] * factors[np.repeat(range(3), 3)] + errors
        return dict(zip(tests, values, strict=True))

    study = sw.Study(
        moments({(tests[j], tests[k]): _ability(j, k) for j in range(9) for k in range(j, 9)}),
        "l_x2",
        {"tests": sw.Source(tests)},
        {f"l_{test}": sw.Parameter(start=1.0) for k, test in enumerate(tests) if k % 3},
    )
    return World(name, study, {"l_x2": LOADINGS[1]}, people)


def _ability(j: int, k: int) -> str:
    loadings: Sequence[str] = [f"l_x{i + 1}" for i in (j, k) if i % 3]
    text = "*".join([*loadings, f"p_{j // 3 + 1}{k // 3 + 1}"])
    return text + (f" + e_x{j + 1}" if j == k else "")


ABILITIES = _abilities("Three factors", normal)
ABILITIES_HEAVY = _abilities("Three factors, heavy tails", heavy)

SMALL_WORLDS = (IV, TWO_IVS, MEDIATED, MEDIATED_SKEWED, ABILITIES, ABILITIES_HEAVY)
