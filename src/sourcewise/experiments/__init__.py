"""The five experiments of the paper, as data, and what they are to show."""

from sourcewise.experiments.base import Experiment, Findings
from sourcewise.experiments.reproduce import carry_out, write_findings
from sourcewise.experiments.studies import EXPERIMENTS

__all__ = ["EXPERIMENTS", "Experiment", "Findings", "carry_out", "write_findings"]
