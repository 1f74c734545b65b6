"""Tasks of durable functions: what the worker that waits and the one for asyncio share."""

from __future__ import annotations

import logging
import os
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, Optional, Sequence, TypeVar, Union, overload

from .errors import DuramenError

if TYPE_CHECKING:
    import psycopg

__all__ = ["AsyncTask", "Task", "TaskFunction", "task"]

LOG = logging.getLogger("duramen")
#: Leases of workers that died end without a notification, so tasks are asked for at least this often.
IDLE_S = 2.0
#: How long a connection may take to be made; after one that broke there is a pause, which doubles up to the second figure.
CONNECT_S = 10
PAUSES_S = (0.1, 5.0)
#: How long the server may take to hear that a statement is not wanted any more.
CANCEL_S = 5.0

CLAIM = "SELECT token, name, input, instance_id, attempt FROM df.claim_tasks(%s, %s, 1, %s)"
EXTEND = "SELECT df.extend_task(%s, %s)"
COMPLETE = "SELECT df.complete_task(%s, %s)"
FAIL = "SELECT df.fail_task(%s, %s, %s)"
RELEASE = "SELECT df.release_task(%s)"

Given = TypeVar("Given")
Returned = TypeVar("Returned")


@dataclass(frozen=True)
class _Claimed:
    """A task that this worker has for a while."""

    #: The same for no other attempt: a key for effects elsewhere.
    token: str
    name: str
    input: Any
    #: Which instance of a durable function waits for it.
    instance_id: str
    #: 1 for the first.
    attempt: int


@dataclass(frozen=True)
class Task(_Claimed):
    """A task, for a function that waits. What it does by ``connection`` commits together with the end of the task, once."""

    connection: "psycopg.Connection[Any]" = field(repr=False)


@dataclass(frozen=True)
class AsyncTask(_Claimed):
    """A task, for a coroutine. What it does by ``connection`` commits together with the end of the task, once."""

    connection: "psycopg.AsyncConnection[Any]" = field(repr=False)


@dataclass(frozen=True)
class TaskFunction(Generic[Given, Returned]):
    """A function that does tasks. It may be called as it was before it was decorated."""

    name: str
    function: Callable[[Given], Returned]

    def __call__(self, task: Given) -> Returned:
        return self.function(task)


@overload
def task(name: Callable[[Given], Returned]) -> TaskFunction[Given, Returned]: ...


@overload
def task(name: str) -> Callable[[Callable[[Given], Returned]], TaskFunction[Given, Returned]]: ...


def task(
    name: Union[str, Callable[[Given], Returned]],
) -> Union[TaskFunction[Given, Returned], Callable[[Callable[[Given], Returned]], TaskFunction[Given, Returned]]]:
    """Says that a function does the tasks of a name, its own unless another one is given.

    It is given a :class:`Task`, or an :class:`AsyncTask` if it is a coroutine, and what it returns becomes JSON.

    >>> @task("invoice")
    ... def write_invoice(task: Task):
    ...     task.connection.execute("INSERT INTO invoices (order_id) VALUES (%s)", (task.input["order"],))
    ...     return {"written": True}
    >>> write_invoice.name
    'invoice'
    """
    if isinstance(name, str):
        return lambda function: TaskFunction(name, function)
    return TaskFunction(name.__name__, name)


class NotWanted(Exception):
    """The task was cancelled, or somebody else has it: what was done for it is rolled back."""


def by_name(
    tasks: Sequence[TaskFunction[Given, Returned]], lease: float
) -> Dict[str, TaskFunction[Given, Returned]]:
    """The functions, each name once."""
    found = {each.name: each for each in tasks}
    if not found or len(found) < len(tasks):
        raise DuramenError("a worker needs functions decorated with @duramen.task, and one for each name")
    if not 1 <= lease <= 86400:
        raise DuramenError("a lease is from a second to a day")
    return found


def worker_name() -> str:
    """How this process is named among those that have tasks."""
    return f"{socket.gethostname()}:{os.getpid()}"


def driver() -> Any:
    """psycopg, which only workers need."""
    try:
        import psycopg
    except ImportError:
        raise DuramenError("workers need psycopg 3: pip install 'duramen[tasks]'") from None
    return psycopg


def sqlstate(error: BaseException) -> Optional[str]:
    """With which SQLSTATE a function failed, if the database said one."""
    state = getattr(error, "sqlstate", None)
    return state if isinstance(state, str) else None


def told(error: BaseException) -> str:
    """How a function failed, for whoever looks at the instance."""
    return f"{type(error).__name__}: {error}"
