"""Sourcewise decides which data source to query next, so that an estimate becomes as precise as the budget allows."""

from sourcewise._version import __version__
from sourcewise.allocation.allocate import Allocation, allocate, variance
from sourcewise.campaign.campaign import Campaign
from sourcewise.campaign.transfer import campaigns, export_campaign, import_campaign
from sourcewise.connectors.base import Connector, Delivery
from sourcewise.connectors.connect import connect
from sourcewise.driver.run import run
from sourcewise.errors import (
    AllocationError,
    CampaignError,
    ConflictError,
    ConnectorError,
    DataError,
    EstimationError,
    ExpressionError,
    ReportError,
    SimulationError,
    SourcewiseError,
    StorageError,
    StudyError,
    StudyFileError,
)
from sourcewise.fit import fit
from sourcewise.identification.identify import Identification, identify
from sourcewise.orders import next_order
from sourcewise.planning.plan import Plan, plan
from sourcewise.policies import ETC, ETG, Fixed, Schedule
from sourcewise.records import Batch, Order
from sourcewise.replay import Replay, replay
from sourcewise.results import Estimate, Fit, OveridTest
from sourcewise.robust import ConfidenceSet
from sourcewise.simulation.play import Strategy
from sourcewise.simulation.results import Simulation
from sourcewise.simulation.runner import SimulationInterrupted, simulate
from sourcewise.simulation.worlds import FunctionWorld, LinearWorld, LotteryWorld, TableWorld
from sourcewise.spec.study import Moment, Parameter, Source, Study
from sourcewise.statistics.gram import Statistics
from sourcewise.statistics.rows import Rows
from sourcewise.statistics.summarize import summarize
from sourcewise.studyfile.file import StudyFile

__all__ = [
    "ETC",
    "ETG",
    "Allocation",
    "AllocationError",
    "Batch",
    "Campaign",
    "CampaignError",
    "ConfidenceSet",
    "ConflictError",
    "Connector",
    "ConnectorError",
    "DataError",
    "Delivery",
    "Estimate",
    "EstimationError",
    "ExpressionError",
    "Fit",
    "Fixed",
    "FunctionWorld",
    "Identification",
    "LinearWorld",
    "LotteryWorld",
    "Moment",
    "Order",
    "OveridTest",
    "Parameter",
    "Plan",
    "Replay",
    "ReportError",
    "Rows",
    "Schedule",
    "Simulation",
    "SimulationError",
    "SimulationInterrupted",
    "Source",
    "SourcewiseError",
    "Statistics",
    "StorageError",
    "Strategy",
    "Study",
    "StudyError",
    "StudyFile",
    "StudyFileError",
    "TableWorld",
    "__version__",
    "allocate",
    "campaigns",
    "connect",
    "export_campaign",
    "fit",
    "identify",
    "import_campaign",
    "next_order",
    "plan",
    "replay",
    "run",
    "simulate",
    "summarize",
    "variance",
]
