"""A worker for tasks of durable functions, for asyncio."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Awaitable, Dict, Optional, Sequence

from . import _tasks
from ._place import Seconds
from ._tasks import LOG, AsyncTask, NotWanted, TaskFunction

if TYPE_CHECKING:
    import psycopg

__all__ = ["run_async_worker"]


async def run_async_worker(
    url: str, tasks: Sequence[TaskFunction[AsyncTask, Awaitable[Any]]], *, lease: Seconds = 60.0
) -> None:
    """The same as :func:`duramen.run_worker` for coroutines, until it is cancelled, which gives back what it has.

    A coroutine whose task is not wanted any more is cancelled. Gather several for several tasks at once; each has a
    connection.

    >>> asyncio.run(run_async_worker("postgresql://app@host/shop", [write_invoice]))    # doctest: +SKIP
    """
    await _Worker(url, _tasks.by_name(tasks, lease), lease).run()


class _Worker:
    def __init__(
        self, url: str, functions: Dict[str, TaskFunction[AsyncTask, Awaitable[Any]]], lease: Seconds
    ) -> None:
        self._url = url
        self._functions = functions
        self._lease = lease
        self._driver = _tasks.driver()

    async def run(self) -> None:
        """Until it is cancelled."""
        pause: Optional[Seconds] = None
        first, longest = _tasks.PAUSES_S
        while True:
            try:
                async with await self._connect() as connection:
                    pause = first
                    await self._serve(connection)
            except self._driver.OperationalError as error:
                if pause is None:
                    raise
                LOG.warning("the connection broke, and is made again: %s", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)

    async def _connect(self) -> "psycopg.AsyncConnection[Any]":
        connection: "psycopg.AsyncConnection[Any]" = await self._driver.AsyncConnection.connect(
            self._url, autocommit=True, connect_timeout=_tasks.CONNECT_S
        )
        return connection

    async def _serve(self, connection: "psycopg.AsyncConnection[Any]") -> None:
        await connection.execute("LISTEN df_task")
        claim = (list(self._functions), self._lease, _tasks.worker_name())
        while True:
            claimed = await (await connection.execute(_tasks.CLAIM, claim)).fetchone()
            if claimed is not None:
                token, name, given, instance, attempt = claimed
                await self._do(AsyncTask(token, name, given, instance, attempt, connection))
                continue
            async for _ in connection.notifies(timeout=_tasks.IDLE_S, stop_after=1):
                pass

    async def _do(self, task: AsyncTask) -> None:
        work = asyncio.ensure_future(self._end(task))
        lost = asyncio.ensure_future(self._lost(task))
        try:
            await asyncio.wait({work, lost}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await _both(work, lost)
            if not task.connection.closed:
                # The worker shall end: others have the task at once.
                await self._say(task, _tasks.RELEASE)
            raise
        error = (await _both(work, lost))[0]
        if error is None:
            return
        if isinstance(error, (asyncio.CancelledError, NotWanted)):
            LOG.info("the task %s of %s is not wanted any more", task.token, task.instance_id)
        elif task.connection.closed:
            # Whoever claims it when its lease is over does it again.
            raise self._driver.OperationalError(f"it was lost while the task {task.token} ran") from error
        elif isinstance(error, Exception):
            LOG.warning("the task %s of %s failed", task.token, task.instance_id, exc_info=error)
            await self._say(task, _tasks.FAIL, _tasks.told(error), _tasks.sqlstate(error))
        else:
            raise error

    async def _end(self, task: AsyncTask) -> None:
        """What the function does and the end of its task are one transaction."""
        from psycopg.types.json import Jsonb

        async with task.connection.transaction():
            result = await self._functions[task.name](task)
            try:
                await task.connection.execute(_tasks.COMPLETE, (task.token, Jsonb(result)))
            except self._driver.errors.ObjectNotInPrerequisiteState as error:
                raise NotWanted from error

    async def _say(self, task: AsyncTask, sql: str, *more: Any) -> None:
        try:
            await task.connection.execute(sql, (task.token, *more))
        except self._driver.errors.ObjectNotInPrerequisiteState:
            LOG.info("the task %s of %s is not wanted any more", task.token, task.instance_id)

    async def _lost(self, task: AsyncTask) -> None:
        """Extends the lease while the function runs, by connections beside the one that is busy with it; returns when the task
        is not wanted any more."""
        while True:
            await asyncio.sleep(self._lease / 3)
            try:
                async with await self._connect() as beside:
                    row = await (await beside.execute(_tasks.EXTEND, (task.token, self._lease))).fetchone()
                if row is not None and not row[0]:
                    return
            except self._driver.Error as error:
                LOG.warning("the lease of the task %s was not extended: %s", task.token, error)


async def _both(work: "asyncio.Future[None]", lost: "asyncio.Future[None]") -> "list[Optional[BaseException]]":
    """Ends both, and tells how they ended."""
    for each in (work, lost):
        each.cancel()
    return list(await asyncio.gather(work, lost, return_exceptions=True))
