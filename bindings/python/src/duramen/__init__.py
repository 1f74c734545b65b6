"""Branches of PostgreSQL databases, for programs and tests.

>>> import duramen
>>> with duramen.branch("flights") as branch:            # doctest: +SKIP
...     branch.query("delete from flights")
...     connect(branch.url)
"""

from __future__ import annotations

from types import TracebackType
from typing import Optional, Type

from ._place import Result, Seconds
from ._tasks import AsyncTask, Task, TaskFunction, task
from .aio import AsyncBranch, AsyncClient
from .aio_worker import run_async_worker
from .client import Branch, Client
from .errors import (
    Conflict,
    DuramenError,
    Later,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    Refused,
    StatementFailed,
    Unreachable,
)
from .shards import Missing, Shard, ShardInstance, ShardPage, Shards
from .worker import run_worker

__all__ = [
    "AsyncBranch",
    "AsyncClient",
    "AsyncTask",
    "Branch",
    "Client",
    "Conflict",
    "DuramenError",
    "Later",
    "Missing",
    "NotAllowed",
    "NotAuthenticated",
    "NotFound",
    "Refused",
    "Result",
    "Shard",
    "ShardInstance",
    "ShardPage",
    "Shards",
    "StatementFailed",
    "Task",
    "TaskFunction",
    "Unreachable",
    "branch",
    "run_async_worker",
    "run_worker",
    "task",
]


class branch:  # noqa: N801: it is called as a function is
    """A branch for a while, by ``with`` or ``async with``: leased at the beginning and destroyed at the end.

    Which daemon, is said by the environment (see :class:`Client`).
    """

    def __init__(
        self,
        source: Optional[str] = None,
        *,
        name: Optional[str] = None,
        policy: Optional[str] = None,
        ttl: Seconds = 3600,
        wait: Optional[Seconds] = None,
    ) -> None:
        self._source, self._name, self._policy, self._ttl, self._wait = source, name, policy, ttl, wait
        self._waiting: Optional[Branch] = None
        self._async: Optional[AsyncBranch] = None

    def __enter__(self) -> Branch:
        client = Client()
        try:
            self._waiting = client.create(
                self._source, name=self._name, policy=self._policy, ttl=self._ttl, wait=self._wait
            )
        except BaseException:
            client.close()
            raise
        return self._waiting

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._waiting is not None:
            with self._waiting._client:
                self._waiting.__exit__(kind, error, trace)

    async def __aenter__(self) -> AsyncBranch:
        client = AsyncClient()
        try:
            self._async = await client.create(
                self._source, name=self._name, policy=self._policy, ttl=self._ttl, wait=self._wait
            )
        except BaseException:
            await client.close()
            raise
        return self._async

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._async is not None:
            async with self._async._client:
                await self._async.__aexit__(kind, error, trace)
