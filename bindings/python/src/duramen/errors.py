"""What can go wrong, in the caller's terms."""

from __future__ import annotations

from typing import Optional

__all__ = [
    "Conflict",
    "DuramenError",
    "Later",
    "NotAllowed",
    "NotAuthenticated",
    "NotFound",
    "Refused",
    "StatementFailed",
    "Unreachable",
]


class DuramenError(Exception):
    """Anything that this package raises."""


class Unreachable(DuramenError):
    """The daemon was not reached, or the connection broke: whether the request was done is not known."""


class Refused(DuramenError):
    """The daemon refused, and nothing was done.

    ``code`` is a stable word for programs, ``detail`` says what happened and what to do next.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        sqlstate: Optional[str] = None,
        retry_after: Optional[float] = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.sqlstate = sqlstate
        self.retry_after = retry_after


class NotAuthenticated(Refused):
    """No token that is alive was shown."""


class NotAllowed(Refused):
    """The token may not do this."""


class NotFound(Refused):
    """There is none of that name for this token."""


class Conflict(Refused):
    """It clashes with what is there."""


class Later(Refused):
    """Not now: try again after ``retry_after`` seconds, or make room."""


class StatementFailed(Refused):
    """The database refused the statement; ``sqlstate`` says why."""


def refused(
    status: int, code: str, detail: str, sqlstate: Optional[str], retry_after: Optional[float]
) -> Refused:
    """The error for a refusal."""
    kinds = {
        401: NotAuthenticated,
        403: NotAllowed,
        404: NotFound,
        409: Conflict,
        422: StatementFailed,
        429: Later,
        503: Later,
    }
    return kinds.get(status, Refused)(status, code, detail, sqlstate, retry_after)
