"""Sourcewise decides which data source to query next, so that an estimate becomes as precise as the budget allows."""

from sourcewise._version import __version__
from sourcewise.allocation.allocate import Allocation, allocate, variance
from sourcewise.errors import (
    AllocationError,
    DataError,
    EstimationError,
    ExpressionError,
    ReportError,
    SourcewiseError,
    StudyError,
)
from sourcewise.fit import fit
from sourcewise.orders import next_order
from sourcewise.policies import ETC, ETG, Fixed, Schedule
from sourcewise.records import Order
from sourcewise.results import Estimate, Fit, OveridTest
from sourcewise.robust import ConfidenceSet
from sourcewise.spec.study import Moment, Parameter, Source, Study
from sourcewise.statistics.gram import Statistics
from sourcewise.statistics.rows import Rows
from sourcewise.statistics.summarize import summarize

__all__ = [
    "ETC",
    "ETG",
    "Allocation",
    "AllocationError",
    "ConfidenceSet",
    "DataError",
    "Estimate",
    "EstimationError",
    "ExpressionError",
    "Fit",
    "Fixed",
    "Moment",
    "Order",
    "OveridTest",
    "Parameter",
    "ReportError",
    "Rows",
    "Schedule",
    "Source",
    "SourcewiseError",
    "Statistics",
    "Study",
    "StudyError",
    "__version__",
    "allocate",
    "fit",
    "next_order",
    "summarize",
    "variance",
]
