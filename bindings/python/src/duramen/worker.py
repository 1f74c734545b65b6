"""A worker for tasks of durable functions, with one task at a time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence

from . import _tasks
from ._place import Seconds
from ._tasks import LOG, NotWanted, Task, TaskFunction

if TYPE_CHECKING:
    import psycopg

__all__ = ["run_worker"]


def run_worker(
    url: str,
    tasks: Sequence[TaskFunction[Task, Any]],
    *,
    lease: Seconds = 60.0,
    stop: Optional[threading.Event] = None,
) -> None:
    """Does the tasks of these functions in the database of that URL, until ``stop`` is set: forever without it.

    Each runs in the transaction that ends its task. If it raises, the transaction is rolled back and the task fails, which
    ``df.catch`` and ``df.retry`` see. If the process dies, another one has the task after ``lease`` seconds; while it lives,
    the lease is extended. When the task is not wanted any more, the statement that runs for it is cancelled. A connection
    that breaks is made again; one that cannot be made at first raises. Run as many processes as there shall be tasks at once.

    >>> run_worker("postgresql://app@host/shop", [write_invoice])    # doctest: +SKIP
    """
    _Worker(url, _tasks.by_name(tasks, lease), lease, stop or threading.Event()).run()


class _Worker:
    def __init__(
        self, url: str, functions: Dict[str, TaskFunction[Task, Any]], lease: Seconds, stop: threading.Event
    ) -> None:
        self._url = url
        self._functions = functions
        self._lease = lease
        self._stop = stop
        self._driver = _tasks.driver()

    def run(self) -> None:
        """Until it shall stop."""
        pause: Optional[Seconds] = None
        first, longest = _tasks.PAUSES_S
        while not self._stop.is_set():
            try:
                with self._connect() as connection:
                    pause = first
                    self._serve(connection)
            except self._driver.OperationalError as error:
                if pause is None:
                    raise
                LOG.warning("the connection broke, and is made again: %s", error)
                self._stop.wait(pause)
                pause = min(2 * pause, longest)

    def _connect(self) -> "psycopg.Connection[Any]":
        connection: "psycopg.Connection[Any]" = self._driver.connect(
            self._url, autocommit=True, connect_timeout=_tasks.CONNECT_S
        )
        return connection

    def _serve(self, connection: "psycopg.Connection[Any]") -> None:
        connection.execute("LISTEN df_task")
        claim = (list(self._functions), self._lease, _tasks.worker_name())
        while not self._stop.is_set():
            claimed = connection.execute(_tasks.CLAIM, claim).fetchone()
            if claimed is not None:
                token, name, given, instance, attempt = claimed
                self._do(Task(token, name, given, instance, attempt, connection))
                continue
            for _ in connection.notifies(timeout=_tasks.IDLE_S, stop_after=1):
                pass

    def _do(self, task: Task) -> None:
        done, lost = threading.Event(), threading.Event()
        beats = threading.Thread(target=self._keep, args=(task, done, lost), daemon=True)
        beats.start()
        error: Optional[BaseException] = None
        try:
            self._end(task)
        except BaseException as failed:
            error = failed
        finally:
            done.set()
            beats.join()
        if error is None:
            return
        if lost.is_set() or isinstance(error, NotWanted):
            LOG.info("the task %s of %s is not wanted any more", task.token, task.instance_id)
        elif task.connection.closed:
            # Whoever claims it when its lease is over does it again.
            raise self._driver.OperationalError(f"it was lost while the task {task.token} ran") from error
        elif isinstance(error, Exception):
            LOG.warning("the task %s of %s failed", task.token, task.instance_id, exc_info=error)
            self._say(task, _tasks.FAIL, _tasks.told(error), _tasks.sqlstate(error))
        else:
            # The process shall end: others have the task at once.
            self._say(task, _tasks.RELEASE)
            raise error

    def _end(self, task: Task) -> None:
        """What the function does and the end of its task are one transaction."""
        from psycopg.types.json import Jsonb

        with task.connection.transaction():
            result = self._functions[task.name](task)
            try:
                task.connection.execute(_tasks.COMPLETE, (task.token, Jsonb(result)))
            except self._driver.errors.ObjectNotInPrerequisiteState as error:
                raise NotWanted from error

    def _say(self, task: Task, sql: str, *more: Any) -> None:
        try:
            task.connection.execute(sql, (task.token, *more))
        except self._driver.errors.ObjectNotInPrerequisiteState:
            LOG.info("the task %s of %s is not wanted any more", task.token, task.instance_id)

    def _keep(self, task: Task, done: threading.Event, lost: threading.Event) -> None:
        """Extends the lease while the function runs, by connections beside the one that is busy with it."""
        while not done.wait(self._lease / 3):
            try:
                with self._connect() as beside:
                    row = beside.execute(_tasks.EXTEND, (task.token, self._lease)).fetchone()
                if row is not None and not row[0]:
                    lost.set()
                    task.connection.cancel_safe(timeout=_tasks.CANCEL_S)
                    return
            except self._driver.Error as error:
                LOG.warning("the lease of the task %s was not extended: %s", task.token, error)
