"""The store for programs on asyncio: what waits, waits on a thread, and never on the loop.

    async with aio.open("data") as store:
        main = await store.branch()
        await main.kv.put("greeting", "hello")

Each call does its work as a whole on one of ``threads`` threads (16 by default). A call that is cancelled does half of
nothing: if it was waiting for a thread, nothing happens; if it has begun, it is done to its end, and only its result is lost. What
has no method here is done by ``run``, which gives the handle of ``duramen_native`` to a function.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial, wraps
from itertools import islice
from os import PathLike
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from . import _native

__all__ = ["Branch", "Opening", "Snapshot", "Space", "Store", "Watch", "open"]

P = ParamSpec("P")
N = TypeVar("N")
R = TypeVar("R")

THREADS_DEFAULT = 16
# Watches that wait hold a thread each, beside those that work; more than these take turns.
WATCH_THREADS_MAX = 64
# A watch looks this often whether it has ended, in seconds.
LOOK_S = 0.1
# Pairs of a scan that are fetched at a time.
ROWS = 256
# How often a transaction is run, at most, and the longest pause between two of its runs, in seconds.
ATTEMPTS_MAX = 100
PAUSE_MAX_S = 0.01


class _Threads:
    """Where work is done."""

    def __init__(self, threads: int) -> None:
        self._work = ThreadPoolExecutor(threads, "duramen-work")
        self._watch = ThreadPoolExecutor(WATCH_THREADS_MAX, "duramen-watch")
        self.is_closed = False

    def start(self, work: Callable[[], R], *, is_watch: bool = False) -> "Future[R]":
        if self.is_closed:
            raise _native.InvalidRequest("the store was closed; open it again")
        return (self._watch if is_watch else self._work).submit(work)

    async def run(self, work: Callable[[], R]) -> R:
        return await asyncio.wrap_future(self.start(work))

    async def end(self) -> None:
        """Waits for all that has begun."""
        self.is_closed = True
        for pool in (self._work, self._watch):
            await asyncio.to_thread(pool.shutdown)


class _Handle(Generic[N]):
    """A handle of the native module, and where its work is done."""

    def __init__(self, threads: _Threads, native: N) -> None:
        self._threads = threads
        self._native = native

    async def run(self, work: Callable[[N], R]) -> R:
        """Does work with the handle of ``duramen_native``, as a whole, on a thread."""
        return await self._threads.run(partial(work, self._native))


def _call(
    method: Callable[Concatenate[N, P], R],
) -> Callable[Concatenate[_Handle[N], P], Coroutine[Any, Any, R]]:
    """A method of the native module, as one that is awaited."""

    @wraps(method)
    async def call(self: _Handle[N], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._threads.run(partial(method, self._native, *args, **kwargs))

    return call


class Kv(_Handle[_native.Kv]):
    """Key-value pairs."""

    put = _call(_native.Kv.put)
    put_many = _call(_native.Kv.put_many)
    ttl = _call(_native.Kv.ttl)
    expire = _call(_native.Kv.expire)
    persist = _call(_native.Kv.persist)
    get = _call(_native.Kv.get)
    get_many = _call(_native.Kv.get_many)
    contains = _call(_native.Kv.__contains__)
    add = _call(_native.Kv.add)
    delete = _call(_native.Kv.delete)
    delete_range = _call(_native.Kv.delete_range)
    count = _call(_native.Kv.count)
    find = _call(_native.Kv.find)

    async def scan(
        self,
        *,
        start: str | bytes | int | None = None,
        end: str | bytes | int | None = None,
        prefix: str | bytes | int | None = None,
        reverse: bool = False,
    ) -> AsyncIterator[tuple[str | bytes, Any]]:
        """The pairs of a range, as of the moment of the first."""
        scan = partial(self._native.scan, start=start, end=end, prefix=prefix, reverse=reverse)
        rows = await self._threads.run(scan)
        while page := await self._threads.run(lambda: list(islice(rows, ROWS))):
            for row in page:
                yield row


class Blobs(_Handle[_native.Blobs]):
    """The blobs of a space."""

    put = _call(_native.Blobs.put)
    get = _call(_native.Blobs.get)
    info = _call(_native.Blobs.info)
    delete = _call(_native.Blobs.delete)
    list = _call(_native.Blobs.list)


class Cells(_Handle[_native.Cells]):
    """State cells."""

    init = _call(_native.Cells.init)
    set = _call(_native.Cells.set)
    cas = _call(_native.Cells.cas)
    read = _call(_native.Cells.read)
    delete = _call(_native.Cells.delete)


class Events(_Handle[_native.Events]):
    """An event log."""

    append = _call(_native.Events.append)
    range = _call(_native.Events.range)
    verify = _call(_native.Events.verify)
    first = _call(_native.Events.first)
    trim = _call(_native.Events.trim)
    since = _call(_native.Events.since)
    count = _call(_native.Events.__len__)


class Documents(_Handle[_native.Documents]):
    """JSON documents."""

    set = _call(_native.Documents.set)
    get = _call(_native.Documents.get)
    contains = _call(_native.Documents.__contains__)
    delete = _call(_native.Documents.delete)
    merge_patch = _call(_native.Documents.merge_patch)
    keys = _call(_native.Documents.keys)
    find = _call(_native.Documents.find)
    explain = _call(_native.Documents.explain)


class Indexes(_Handle[_native.Indexes]):
    """Indexes on documents and pairs."""

    create = _call(_native.Indexes.create)
    drop = _call(_native.Indexes.drop)
    list = _call(_native.Indexes.list)


class Conflicts(_Handle[_native.Conflicts]):
    """Conflicts that merges kept, in all spaces."""

    list = _call(_native.Conflicts.list)
    count = _call(_native.Conflicts.count)
    get = _call(_native.Conflicts.get)
    resolve = _call(_native.Conflicts.resolve)
    resolve_all = _call(_native.Conflicts.resolve_all)


class Collection(_Handle[_native.Collection]):
    """A collection of vectors."""

    upsert = _call(_native.Collection.upsert)
    upsert_many = _call(_native.Collection.upsert_many)
    get = _call(_native.Collection.get)
    delete = _call(_native.Collection.delete)
    search = _call(_native.Collection.search)
    count = _call(_native.Collection.__len__)


class Vectors(_Handle[_native.Vectors]):
    """Collections of vectors."""

    create = _call(_native.Vectors.create)
    list = _call(_native.Vectors.list)

    def __getitem__(self, name: str) -> Collection:
        return Collection(self._threads, self._native[name])


_Data = TypeVar("_Data", _native.Branch, _native.Snapshot, _native.Space)


class _Scope(_Handle[_Data]):
    """Where data is."""

    @property
    def kv(self) -> Kv:
        return Kv(self._threads, self._native.kv)

    @property
    def blobs(self) -> Blobs:
        return Blobs(self._threads, self._native.blobs)

    @property
    def state(self) -> Cells:
        return Cells(self._threads, self._native.state)

    @property
    def events(self) -> Events:
        return Events(self._threads, self._native.events)

    @property
    def json(self) -> Documents:
        return Documents(self._threads, self._native.json)

    @property
    def vectors(self) -> Vectors:
        return Vectors(self._threads, self._native.vectors)

    @property
    def indexes(self) -> Indexes:
        return Indexes(self._threads, self._native.indexes)


class Space(_Scope[_native.Space]):
    """A part of a branch or snapshot with its own keys."""


class Snapshot(_Scope[_native.Snapshot]):
    """A branch as it was at one moment."""

    @property
    def version(self) -> int:
        return self._native.version

    @property
    def conflicts(self) -> Conflicts:
        return Conflicts(self._threads, self._native.conflicts)

    def space(self, name: str) -> Space:
        return Space(self._threads, self._native.space(name))


class Watch(AsyncIterator[tuple[int, list[Any]]]):
    """What changes in a branch: ``async for version, changes in watch``.

    Nothing is queued for it, so whoever is slow misses no change of a key, and sees several of one key as one. A cancelled
    wait loses nothing. When the store is closed, it raises ``InvalidRequest``.
    """

    def __init__(self, threads: _Threads, native: _native.Watch) -> None:
        self._threads = threads
        self._native = native
        self._looking: asyncio.Future[tuple[int, list[Any]] | None] | None = None

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> tuple[int, list[Any]]:
        while True:
            if self._looking is None:
                look = partial(self._native.next, LOOK_S)
                self._looking = asyncio.wrap_future(self._threads.start(look, is_watch=True))
            # What a cancelled wait was about to return is there for the next.
            await asyncio.wait([self._looking])
            looked, self._looking = self._looking, None
            found = looked.result()
            if found is not None:
                return found


def _transact(work: Callable[[_native.Transaction], R], branch: _native.Branch) -> R:
    for attempt in range(ATTEMPTS_MAX):
        if attempt > 1:
            time.sleep(random.uniform(0, PAUSE_MAX_S))
        tx = branch.transaction()
        try:
            result = work(tx)
        except BaseException:
            tx.rollback()
            raise
        try:
            tx.commit()
            return result
        except _native.Conflict:
            pass
    raise _native.Conflict(f"the transaction lost against other commits {ATTEMPTS_MAX} times; retry later")


class Branch(_Scope[_native.Branch]):
    """A handle on a branch."""

    @property
    def name(self) -> str:
        return self._native.name

    @property
    def conflicts(self) -> Conflicts:
        return Conflicts(self._threads, self._native.conflicts)

    def space(self, name: str) -> Space:
        return Space(self._threads, self._native.space(name))

    def with_durability(self, level: Any) -> "Branch":
        """The same branch, whose commits are acknowledged at ``memory``, ``buffered`` or ``strict``."""
        return Branch(self._threads, self._native.with_durability(level))

    async def fork(self, name: str) -> "Branch":
        return Branch(self._threads, await self.run(lambda branch: branch.fork(name)))

    async def snapshot(self) -> Snapshot:
        return Snapshot(self._threads, await self.run(_native.Branch.snapshot))

    async def at(self, state: Any) -> Snapshot:
        return Snapshot(self._threads, await self.run(lambda branch: branch.at(state)))

    async def transact(self, work: Callable[[_native.Transaction], R]) -> R:
        """Runs ``work`` in a transaction and commits it, as a whole, on a thread; again if another commit was first.

        ``work`` gets a ``duramen_native.Transaction`` and does not await. What it raises is raised, and nothing is written.
        """
        return await self.run(partial(_transact, work))

    async def watch(
        self,
        *,
        kind: Any = None,
        space: str | None = None,
        prefix: str | None = None,
        since: Any = None,
    ) -> Watch:
        """What changes from now on, or from a state on that is retained."""
        watch = await self.run(
            lambda branch: branch.watch(kind=kind, space=space, prefix=prefix, since=since)
        )
        return Watch(self._threads, watch)

    revert_to = _call(_native.Branch.revert_to)
    key_history = _call(_native.Branch.key_history)
    bulk_load = _call(_native.Branch.bulk_load)


class Store(_Handle[_native.Store]):
    """A store that is open: see ``open``."""

    async def branch(self, name: str = "main") -> Branch:
        return Branch(self._threads, await self.run(lambda store: store.branch(name)))

    async def fork(
        self, source: str, name: str, *, at: Any = None, ttl: float | None = None
    ) -> Branch:
        fork = await self.run(lambda store: store.fork(source, name, at=at, ttl=ttl))
        return Branch(self._threads, fork)

    branches = _call(_native.Store.branches)
    delete_branch = _call(_native.Store.delete_branch)
    merge = _call(_native.Store.merge)
    diff = _call(_native.Store.diff)
    tag = _call(_native.Store.tag)
    sync = _call(_native.Store.sync)

    async def close(self) -> None:
        """Waits for what has begun, and closes the store. What begins after that raises ``InvalidRequest``.

        The folder is free for another process when the handles on branches are gone as well.
        """
        await self._threads.end()
        await asyncio.to_thread(self._native.close)


class Opening:
    """A store that is being opened: ``await`` it, or use ``async with``, which closes it at the end."""

    def __init__(self, opening: Callable[[], Coroutine[Any, Any, Store]]) -> None:
        self._opening = opening
        self._store: Store | None = None

    def __await__(self) -> Generator[Any, None, Store]:
        return self._opening().__await__()

    async def __aenter__(self) -> Store:
        self._store = await self._opening()
        return self._store

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._store is not None:
            # Also when the task is being cancelled.
            await asyncio.shield(self._store.close())


def open(
    path: str | PathLike[str] | None = None,
    *,
    threads: int = THREADS_DEFAULT,
    durability: Any = "buffered",
    read_only: bool = False,
    memory_bytes: int | None = None,
    wait: float = 0.0,
) -> Opening:
    """Opens the store in a folder, and makes one if there is none; without a folder, one in memory."""

    async def opening() -> Store:
        native = await asyncio.to_thread(
            _native.Store,
            path,
            durability=durability,
            read_only=read_only,
            memory_bytes=memory_bytes,
            wait=wait,
        )
        return Store(_Threads(threads), native)

    return Opening(opening)
