"""Everything that Sourcewise raises on purpose.

    SourcewiseError
    ├── StudyError            a declaration that contradicts itself
    │   ├── ExpressionError   a text that is not an expression, with the place marked
    │   └── StudyFileError    a study file that cannot be read, with its line
    ├── DataError             rows or statistics that cannot be used as they are
    │   └── ConnectorError    a table that cannot be reached, or is no longer the one it was
    ├── EstimationError       a call of the estimator that cannot be answered
    ├── AllocationError       money that cannot be divided as asked
    ├── SimulationError       a world or a run that cannot be simulated
    ├── StorageError          a store that cannot be opened, read or written
    ├── CampaignError         a request that a campaign cannot follow
    │   └── ConflictError     a key that was used for something else
    └── ReportError           a figure or a page that cannot be made from what was given

A message names the rule, the value that broke it and the way out. What a *fit* finds (no convergence, a
target that is not identified) is no error: it is a field of the result, with advice.
"""

from __future__ import annotations

import re
from collections import abc
from contextlib import contextmanager

_SECRETS = (
    re.compile(r"""(?<=:/)(/?[^\s:/@'"]*):[^'"\n]*@"""),  # postgresql://ann:secret@…
    re.compile(r"""\b([\w.+-]+):[^\s:/@'"]+@"""),  # the same without its beginning
    re.compile(
        r"""((?:pass(?:word|wd|phrase)?|pwd|token|secret|credential|signature|(?:access|api|account)[_-]?key)=)"""
        r"""[^\s&;,'"]+""",
        re.IGNORECASE,
    ),
)


def without_secrets(text: str) -> str:
    """A text in which no address shows its password or token. It may hide more than that, never less."""
    for pattern, shown in zip(_SECRETS, (r"\1:…@", r"\1:…@", r"\1…"), strict=True):
        text = pattern.sub(shown, text)
    return text


def safe_cause(error: BaseException) -> BaseException | None:
    """What an error may be raised from: nothing where the other one shows a secret, as a traceback shows both."""
    said = str(error)
    return error if without_secrets(said) == said else None


class SourcewiseError(Exception):
    """Root of every error that Sourcewise raises on purpose. No message shows a password, whoever wrote it."""

    place: tuple[str | int, ...] = ()
    """Where in a declaration the mistake stands: keys and positions, from the outside in."""

    def __init__(self, message: object = "") -> None:
        super().__init__(without_secrets(str(message)))


@contextmanager
def at(*place: str | int) -> abc.Iterator[None]:
    """Errors of what is done inside carry this place, in front of the one that they carry already."""
    try:
        yield
    except SourcewiseError as error:
        error.place = (*place, *error.place)
        raise


class StudyError(SourcewiseError):
    """A study, source, moment or parameter that contradicts itself."""


class ExpressionError(StudyError):
    """A text that cannot be read as an expression; the message shows where."""


class StudyFileError(StudyError):
    """A study file that cannot be read; the message names the file and the line."""

    line: int | None = None


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


class StorageError(SourcewiseError):
    """A store of campaigns that cannot be opened, read or written; nothing that was acknowledged is lost."""


class CampaignError(SourcewiseError):
    """A request that a campaign cannot follow in the state it is in."""


class ConflictError(CampaignError):
    """A key that was used before, for something else: the new content was not counted."""


class ReportError(SourcewiseError):
    """A figure or a page that cannot be made from what was given."""
