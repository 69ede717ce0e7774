"""Everything that Sourcewise raises on purpose.

    SourcewiseError
    ├── StudyError            a declaration that contradicts itself
    │   └── ExpressionError   a text that is not an expression, with the place marked
    ├── ReportError           a figure or a page that cannot be made from what was given
    ├── DataError             rows or statistics that cannot be used as they are
    ├── EstimationError       a call of the estimator that cannot be answered
    ├── AllocationError       money that cannot be divided as asked
    ├── SimulationError       a world or a run that cannot be simulated
    ├── StorageError          a store that cannot be opened, read or written
    └── CampaignError         a request that a campaign cannot follow
        └── ConflictError     a key that was used for something else

A message names the rule, the value that broke it and the way out. What a *fit* finds (no convergence, a
target that is not identified) is no error: it is a field of the result, with advice.
"""


class SourcewiseError(Exception):
    """Root of every error that Sourcewise raises on purpose."""


class StudyError(SourcewiseError):
    """A study, source, moment or parameter that contradicts itself."""


class ExpressionError(StudyError):
    """A text that cannot be read as an expression; the message shows where."""


class ReportError(SourcewiseError):
    """A figure or a page that cannot be made from what was given."""


class DataError(SourcewiseError):
    """Rows or statistics that cannot be used as they are."""


class EstimationError(SourcewiseError):
    """A call of the estimator that cannot be answered."""


class AllocationError(SourcewiseError):
    """Money that cannot be divided as asked, such as minimum shares that exceed the budget."""


class SimulationError(SourcewiseError):
    """A world, a run or its saved part that cannot be simulated as asked."""


class StorageError(SourcewiseError):
    """A store of campaigns that cannot be opened, read or written; nothing that was acknowledged is lost."""


class CampaignError(SourcewiseError):
    """A request that a campaign cannot follow in the state it is in."""


class ConflictError(CampaignError):
    """A key that was used before, for something else: the new content was not counted."""
