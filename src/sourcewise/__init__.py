"""Sourcewise decides which data source to query next, so that an estimate becomes as precise as the budget allows."""

from sourcewise._version import __version__
from sourcewise.allocation.allocate import Allocation, allocate, variance
from sourcewise.connectors.base import Connector, Delivery
from sourcewise.connectors.connect import connect
from sourcewise.errors import (
    AllocationError,
    ConnectorError,
    DataError,
    EstimationError,
    ExpressionError,
    SourcewiseError,
    StudyError,
)
from sourcewise.fit import fit
from sourcewise.orders import Order, next_order
from sourcewise.policies import ETC, ETG, Fixed, Schedule
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
    "Connector",
    "ConnectorError",
    "DataError",
    "Delivery",
    "Estimate",
    "EstimationError",
    "ExpressionError",
    "Fit",
    "Fixed",
    "Moment",
    "Order",
    "OveridTest",
    "Parameter",
    "Rows",
    "Schedule",
    "Source",
    "SourcewiseError",
    "Statistics",
    "Study",
    "StudyError",
    "__version__",
    "allocate",
    "connect",
    "fit",
    "next_order",
    "summarize",
    "variance",
]
