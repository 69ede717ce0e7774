"""Everything that Sourcewise raises on purpose.

    SourcewiseError
    ├── StudyError            a declaration that contradicts itself
    │   └── ExpressionError   a text that is not an expression, with the place marked
    ├── DataError             rows or statistics that cannot be used as they are
    │   └── ConnectorError    a table that cannot be reached, or is no longer the one it was
    ├── EstimationError       a call of the estimator that cannot be answered
    ├── AllocationError       money that cannot be divided as asked
    └── SimulationError       a world or a run that cannot be simulated

A message names the rule, the value that broke it and the way out. What a *fit* finds (no convergence, a
target that is not identified) is no error: it is a field of the result, with advice.
"""


class SourcewiseError(Exception):
    """Root of every error that Sourcewise raises on purpose."""


class StudyError(SourcewiseError):
    """A study, source, moment or parameter that contradicts itself."""


class ExpressionError(StudyError):
    """A text that cannot be read as an expression; the message shows where."""


class DataError(SourcewiseError):
    """Rows or statistics that cannot be used as they are."""


class ConnectorError(DataError):
    """A table that cannot be reached or described, or is no longer the one it was."""


class EstimationError(SourcewiseError):
    """A call of the estimator that cannot be answered."""


class AllocationError(SourcewiseError):
    """Money that cannot be divided as asked, such as minimum shares that exceed the budget."""


class SimulationError(SourcewiseError):
    """A world, a run or its saved part that cannot be simulated as asked."""
