"""Policies: what is known and what is left → how many rows to ask of each source next.

A policy holds no state. Which round it is in follows from the money spent, so a campaign can stop and resume
anywhere, deliveries may be short or late, and a simulation runs one policy over thousands of replications: rows and
targets are (S, B), money is (B,).

All of the paper's adaptive policies are one: explore equally up to a first mark, then after each mark estimate the
best mix κ̂ and aim the next round so that the mix of all rows lands as near to it as it can. ETC has two marks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sourcewise.allocation.market import market_of
from sourcewise.allocation.projection import nearest_by_budget, nearest_by_rows
from sourcewise.allocation.rounding import whole_rows
from sourcewise.errors import AllocationError
from sourcewise.numerics.linalg import Array
from sourcewise.spec.study import Study

Mix = Literal["equal", "collect-all"] | Mapping[str, float]
Aim = Literal["nearest", "variance"]
Per = Literal["budget", "rows"]

RIDGE = 0.01
"""λ_W of every fit but the last: with few rows an estimated variance is not to be inverted as it is."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Rounds of s = C·T^(η − 1) of a horizon of T rows: the paper's condition for zero regret as T grows."""

    factor: float
    exponent: float

    def __post_init__(self) -> None:
        if not 0 < _number("a schedule's factor", self.factor) < math.inf:
            raise AllocationError(f"a schedule's factor must be a finite number above 0, not {self.factor!r}")
        if not 0 < _number("a schedule's exponent", self.exponent) < 1:
            raise AllocationError(f"a schedule's exponent must lie between 0 and 1, not {self.exponent!r}")

    def batch(self, horizon: float) -> float:
        return float(min(1.0, self.factor * horizon ** (self.exponent - 1.0)))


@dataclass(frozen=True, slots=True)
class Position:
    """Where B campaigns stand: rows had (S, B), money spent and in all (B,), prices and capacities (S,)."""

    rows: Array
    spent: Array
    budget: Array
    costs: Array
    capacity: Array

    @property
    def left(self) -> Array:
        return np.maximum(self.budget - self.spent, 0.0)

    @property
    def cheapest(self) -> Array:
        """Price of the cheapest row that can still be had (B,); infinite when there is none."""
        return np.asarray(np.where(self.room >= 1.0, self.costs[:, None], np.inf).min(axis=0))

    @property
    def room(self) -> Array:
        """Rows that each source still has (S, B)."""
        return np.asarray(np.maximum(self.capacity[:, None] - self.rows, 0.0))


@dataclass(frozen=True, slots=True)
class Round:
    """Of the next round: money (B,), number of rows (B,) if the policy counts them (else NaN), whether it explores."""

    money: Array
    rows: Array
    explores: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Fixed:
    """Keep one ratio of rows: "equal", "collect-all" (only sources with every variable), or shares by source."""

    mix: Mix = "equal"

    def __post_init__(self) -> None:
        if isinstance(self.mix, str):
            if self.mix not in ("equal", "collect-all"):
                raise AllocationError(f'a fixed mix is "equal", "collect-all" or shares by source, not {self.mix!r}')
            return
        if not isinstance(self.mix, Mapping):
            raise AllocationError(f'a fixed mix is "equal", "collect-all" or shares by source, not {self.mix!r}')
        values = [_number(f"the share of {name!r}", value) for name, value in self.mix.items()]
        if not values or not all(math.isfinite(v) and v >= 0 for v in values) or sum(values) <= 0:
            raise AllocationError(f"the shares of a fixed mix must be 0 or more, and not all 0, not {dict(self.mix)!r}")

    def kappa(self, study: Study) -> Array:
        """Shares of rows (S,), in the order of the study's sources."""
        if self.mix == "equal":
            shares = np.ones(len(study.sources))
        elif self.mix == "collect-all":
            every = set(study.variables)
            shares = np.array([float(every <= set(source.observes)) for source in study.sources.values()])
            if not shares.any():
                raise AllocationError("no source observes every variable, so there is nothing to collect all from")
        else:
            assert not isinstance(self.mix, str)
            shares = market_of(study, None, {}, {}, {}).by_source(self.mix, "a fixed mix")
        return np.asarray(shares / shares.sum())

    def next_round(self, position: Position) -> Round:
        """All the money that is left, at once."""
        nothing = np.full_like(position.left, np.nan)
        return Round(position.left, nothing, np.zeros(len(nothing), dtype=bool))


@dataclass(frozen=True, slots=True)
class ETG:
    """Explore, then greedy. `batch`: the share of the horizon in each round, or the marks, ending at 1, or a Schedule.

    per="budget" (OMS-ETG-FB) makes rounds of equal money; per="rows" (OMS-ETG-FS) of equal numbers of rows, counted
    on the horizon budget / highest price, until the money is gone. With equal prices they are the same.
    aim="nearest" puts the mix as near to κ̂ as the round allows; "variance" takes the mix of smallest variance.
    first: the mix of rows while it explores, as for `Fixed`; "equal" leaves out sources that compute no moment.
    """

    batch: float | Sequence[float] | Schedule = 0.1
    per: Per = "budget"
    aim: Aim = "nearest"
    ridge: float = RIDGE
    first: Mix = "equal"

    def __post_init__(self) -> None:
        Fixed(self.first)  # refuses what is no mix
        if not isinstance(self.batch, Schedule):
            object.__setattr__(self, "batch", _batch(self.batch))
            _marks(self.batch)
        for option, allowed in (("per", get_args(Per)), ("aim", get_args(Aim))):
            value = getattr(self, option)
            if value not in allowed:
                raise AllocationError(f"{option} must be one of {', '.join(map(repr, allowed))}, not {value!r}")
        if not 0 <= _number("ridge", self.ridge) < math.inf:
            raise AllocationError(f"ridge must be a finite number, 0 or more, not {self.ridge!r}")

    def exploring(self, study: Study) -> Array:
        """Shares of rows (S,) while it explores."""
        if self.first != "equal":
            return Fixed(self.first).kappa(study)
        useful = np.array([float(bool(study.moments_of(name))) for name in study.sources])
        return np.asarray(useful / useful.sum())

    def marks(self, horizon: float) -> tuple[float, ...]:
        """Shares of the horizon, budget / highest price rows, at which rounds end."""
        return _marks(self.batch.batch(horizon) if isinstance(self.batch, Schedule) else self.batch)

    def next_round(self, position: Position) -> Round:
        """Up to the next mark that has not been reached."""
        if self.per == "rows":
            return self._by_rows(position)
        marks = self._marks_by_problem(position)
        due = marks * position.budget - position.spent
        # Money that buys no row makes no round: it is spent with the next one.
        enough = due >= position.cheapest * (1 - 1e-9)
        index = np.where(enough.any(axis=0), enough.argmax(axis=0), len(marks) - 1)
        money = np.clip(due[index, np.arange(due.shape[1])], 0.0, position.left)
        return Round(money, np.full_like(money, np.nan), (index == 0) | ~position.rows.any(axis=0))

    def _by_rows(self, position: Position) -> Round:
        horizon = np.floor(position.budget / position.costs.max())
        had = position.rows.sum(axis=0)
        ends = np.floor(self._marks_by_problem(position) * horizon + 1e-9)
        index = (had >= ends).sum(axis=0)
        last = ends[-1] - np.where(ends < ends[-1], ends, 0.0).max(axis=0)
        rows = np.where(index < len(ends), ends[np.minimum(index, len(ends) - 1), np.arange(len(had))] - had, last)
        return Round(position.left, np.maximum(rows, 1.0), (index == 0) | (had == 0))

    def _marks_by_problem(self, position: Position) -> Array:
        """Marks (J, B); where a schedule has fewer for one budget than for another, the last is repeated."""
        horizons, which = np.unique(position.budget / position.costs.max(), return_inverse=True)
        marks = [self.marks(float(horizon)) for horizon in horizons]
        most = max(map(len, marks))
        return np.array([(*row, *[1.0] * (most - len(row))) for row in marks])[which].T


def ETC(explore: float = 0.2, *, aim: Aim = "nearest", ridge: float = RIDGE, first: Mix = "equal") -> ETG:
    """Explore, then commit: spend the share `explore` in the mix `first`, estimate once, spend the rest."""
    if not 0 < _number("the share to explore with", explore) < 1:
        raise AllocationError(f"the share of the budget to explore with must lie between 0 and 1, not {explore!r}")
    return ETG((explore, 1.0), aim=aim, ridge=ridge, first=first)


Policy = Fixed | ETG


def _number(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise AllocationError(f"{what} must be a number, not {value!r}")
    return float(value)


def _batch(batch: object) -> float | tuple[float, ...]:
    if isinstance(batch, Real):
        return _number("a batch", batch)
    if isinstance(batch, str) or not isinstance(batch, Iterable):
        raise AllocationError(f"a batch is a number, a list of marks or a Schedule, not {batch!r}")
    return tuple(_number("a mark", mark) for mark in batch)


def _marks(batch: float | Sequence[float]) -> tuple[float, ...]:
    if isinstance(batch, int | float):
        if not 0 < batch <= 1:
            raise AllocationError(f"a batch is a share of the budget, above 0 and at most 1, not {batch!r}")
        count = max(1, math.ceil(1.0 / batch - 1e-9))
        return (*(min(1.0, batch * (k + 1)) for k in range(count - 1)), 1.0)
    marks = tuple(float(mark) for mark in batch)
    rising = all(low < high for low, high in zip((0.0, *marks), marks, strict=False))
    if not marks or not rising or marks[-1] != 1.0:
        raise AllocationError(f"the marks of a policy must rise from above 0 to exactly 1, not {list(marks)!r}")
    return marks


def desired_rows(policy: Policy, position: Position, step: Round, kappa: Array) -> Array:
    """New rows (S, B), not yet whole, that bring the mix of all rows as near to `kappa` (S, B) as this round allows."""
    room = position.room
    by_money = nearest_by_budget(kappa, position.rows, position.costs, step.money, room)
    if not isinstance(policy, ETG) or policy.per == "budget":
        return by_money
    wanted = nearest_by_rows(kappa, position.rows, step.rows, room)
    affordable = position.costs @ wanted <= step.money * (1 + 1e-12)
    return np.where(affordable, wanted, by_money)


ANY = 1e-6
"""Rows of every source, so that none counts as not wanted."""


def whole_round(policy: Policy, position: Position, step: Round, wanted: Array) -> Array:
    """Whole rows (S, B): the round's number of rows where the policy counts rows, else as many as its money buys."""
    # What an early round leaves would come back as a round of its own, so it goes to any source; at the end it is left.
    early = step.money < position.left * (1 - 1e-9)
    by_money = whole_rows(wanted + ANY * early, position.costs, step.money, position.room).astype(np.float64)
    if not isinstance(policy, ETG) or policy.per == "budget":
        return by_money
    counted = whole_rows(wanted, np.ones_like(position.costs), step.rows, position.room).astype(np.float64)
    affordable = position.costs @ counted <= step.money * (1 + 1e-9)
    return np.where(affordable, counted, by_money)


POLICY_KEYS = {
    "fixed": ("mix",),
    "etc": ("explore", "aim", "ridge", "first"),
    "etg": ("batch", "per", "aim", "ridge", "first"),
}


def policy_to_plain(policy: Policy) -> dict[str, Any]:
    """A policy as plain values, as TOML and JSON hold them."""
    if isinstance(policy, Fixed):
        return {"kind": "fixed", "mix": _plain_mix(policy.mix)}
    batch: Any = policy.batch
    if isinstance(batch, Schedule):
        batch = {"factor": batch.factor, "exponent": batch.exponent}
    elif not isinstance(batch, float):
        batch = list(batch)
    plain = {"kind": "etg", "batch": batch, "per": policy.per, "aim": policy.aim, "ridge": policy.ridge}
    return plain if policy.first == "equal" else plain | {"first": _plain_mix(policy.first)}


def _plain_mix(mix: Mix) -> str | dict[str, float]:
    return mix if isinstance(mix, str) else dict(mix)


def policy_from_plain(plain: object) -> Policy:
    """What `policy_to_plain` made, or what a user wrote: kind "fixed", "etc" or "etg", and its options."""
    if not isinstance(plain, Mapping):
        raise AllocationError(f'a policy is a table with a kind, such as {{kind = "etg", batch = 0.1}}, not {plain!r}')
    options = dict(plain)
    kind = options.pop("kind", None)
    if kind not in POLICY_KEYS:
        raise AllocationError(f"a policy's kind is one of {', '.join(map(repr, POLICY_KEYS))}, not {kind!r}")
    for key in options:
        if key not in POLICY_KEYS[kind]:
            raise AllocationError(f"a policy of kind {kind!r} has no option {key!r}: {', '.join(POLICY_KEYS[kind])}")
    if isinstance(options.get("batch"), Mapping):
        if set(options["batch"]) != {"factor", "exponent"}:
            raise AllocationError(f"a schedule has a factor and an exponent, not {options['batch']!r}")
        options["batch"] = Schedule(**options["batch"])
    makers: dict[str, Callable[..., Policy]] = {"fixed": Fixed, "etc": ETC, "etg": ETG}
    return makers[kind](**options)
