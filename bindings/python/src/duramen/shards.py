"""Durable functions over several databases: where an instance is, and where one is started."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Dict, List, Optional, Tuple

from . import _tasks
from .errors import Conflict, NotFound, Unreachable

__all__ = ["Missing", "Shard", "ShardInstance", "ShardPage", "Shards"]

#: The most instances that a page may have.
PAGE_MAX = 1000
#: So many shards are asked at once, at most.
AT_ONCE = 16
#: What a shard may take to answer, in milliseconds.
ANSWER_MS = 10_000

_PAGE = """
    SELECT f.instance_id, f.label, f.status, f.queue, f.role, f.created_at, f.output, f.next_cursor,
        df._cursor(f.created_at, f.instance_id)
    FROM df.find_instances(status => %(status)s, label => %(label)s, label_like => %(label_like)s, queue => %(queue)s,
        limit_count => least(%(limit)s::int,
            coalesce(nullif(current_setting('df.list_instances_max_limit', true), '')::int, %(limit)s::int)),
        after_cursor => %(after)s) f"""
_COUNT = """
    SELECT c.status, c.queue, c.role, c.count
    FROM df.count_instances(status => %(status)s, label => %(label)s, label_like => %(label_like)s, queue => %(queue)s) c"""
#: What counts of a place; role, password and the rest are those of whoever reads the list.
_WHERE = ("host", "hostaddr", "port", "dbname", "target_session_attrs")
#: From the weakest on.
_SSLMODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


@dataclass(frozen=True)
class Shard:
    """A database of a cluster."""

    number: int
    #: ``open`` for new instances, ``draining``, or ``removed``.
    state: str
    #: Leads there, with the role and the password that the list was read with.
    url: str = field(repr=False)


@dataclass(frozen=True)
class ShardInstance:
    """An instance, and where it is."""

    shard: int
    id: str
    label: Optional[str]
    status: str
    queue: Optional[str]
    role: Optional[str]
    #: When it was started, by its shard's clock.
    created_at: datetime
    #: Its result as JSON, or why it failed.
    output: Optional[str]


@dataclass(frozen=True)
class Missing:
    """A shard that gave nothing: what it has is not in the answer."""

    shard: int
    error: str


@dataclass(frozen=True)
class ShardPage:
    """Instances of all shards, the newest first; of one time, by id."""

    instances: List[ShardInstance]
    #: Where the next page begins; ``None``: there is none.
    next: Optional[str]
    missing: List[Missing]


class Shards:
    """The databases that run durable functions together with this one. The list is read each time, and from this database alone: name
    shard 0, and only its owner says where your password goes.

    >>> shards = Shards("postgresql://app@a/jobs")                          # doctest: +SKIP
    >>> with psycopg.connect(shards.pick().url) as connection:              # doctest: +SKIP
    ...     id, = connection.execute("SELECT df.start('SELECT 1')").fetchone()
    >>> shards.of(id).number                                                # doctest: +SKIP
    2
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._driver = _tasks.driver()

    def all(self) -> List[Shard]:
        """Those that are served. Outside of a cluster, none."""
        with self._connect() as connection:
            rows = connection.execute("SELECT shard, place, state, here FROM df.shards() WHERE state <> 'removed'").fetchall()
        return [self._shard(*row) for row in rows]

    def of(self, instance_id: str, *more: str) -> Shard:
        """That of an instance; of several, the one that has all of them: nothing is done over shards, and instances of different ones are
        refused with :class:`Conflict`. Outside of a cluster it is this database, as shard 0."""
        with self._connect() as connection:
            rows: List[Any] = []
            for each in (instance_id, *more):
                try:
                    row = connection.execute("SELECT shard, place, state, here FROM df.route(%s)", (each,)).fetchone()
                except (self._driver.errors.NoDataFound, self._driver.errors.InvalidParameterValue) as error:
                    raise NotFound(404, "unknown_instance", str(error)) from error
                if rows and row[0] != rows[0][0]:
                    said = f"instance {instance_id} is on shard {rows[0][0]}, and {each} on shard {row[0]}"
                    raise Conflict(409, "spans_shards", f"{said}: nothing is done over shards")
                rows.append(row)
        return self._shard(*rows[0])

    def list(
        self,
        *,
        status: Optional[str] = None,
        label: Optional[str] = None,
        label_like: Optional[str] = None,
        queue: Optional[str] = None,
        limit: int = 100,
        after: Optional[str] = None,
    ) -> ShardPage:
        """A page of the instances of all shards that fit, of at most ``limit`` (1000 at most): from the beginning, or behind the page whose
        ``next`` is ``after``. It has fewer where a shard's owner allows fewer. A shard that does not answer in time is missing."""
        limit = max(1, min(limit, PAGE_MAX))
        wanted = {"status": status, "label": label, "label_like": label_like, "queue": queue, "limit": limit, "after": after}
        answers, missing = self._ask_all(_PAGE, wanted)
        rows: List[Tuple[Any, str, ShardInstance]] = []
        known_to: Optional[Any] = None
        for shard, answer in answers:
            for row in answer:
                rows.append((_place(row), row[8], ShardInstance(shard, *row[:7])))
            # What comes behind the last row of a shard that has more is not known yet to be next.
            if answer and answer[-1][7] is not None:
                known_to = _place(answer[-1]) if known_to is None else min(known_to, _place(answer[-1]))
        rows.sort(key=lambda row: row[0])
        shown = [row for row in rows if known_to is None or row[0] <= known_to][:limit]
        more = len(shown) < len(rows) or known_to is not None
        return ShardPage([row[2] for row in shown], shown[-1][1] if more and shown else None, missing)

    def count(
        self,
        *,
        status: Optional[str] = None,
        label: Optional[str] = None,
        label_like: Optional[str] = None,
        queue: Optional[str] = None,
    ) -> Tuple[Dict[Tuple[str, Optional[str], str], int], List[Missing]]:
        """How many instances all shards have, by (status, queue, role), and the shards whose are not counted."""
        wanted = {"status": status, "label": label, "label_like": label_like, "queue": queue}
        answers, missing = self._ask_all(_COUNT, wanted)
        counts: Dict[Tuple[str, Optional[str], str], int] = {}
        for _, answer in answers:
            for kind, its_queue, role, count in answer:
                counts[(kind, its_queue, role)] = counts.get((kind, its_queue, role), 0) + count
        return counts, missing

    def _ask_all(self, sql: str, wanted: Dict[str, Any]) -> Tuple[List[Tuple[int, List[Any]]], List[Missing]]:
        shards = self.all()
        alone = not shards
        if alone:
            shards = [Shard(0, "open", self._url)]

        def one(shard: Shard) -> List[Any]:
            options = f"-c statement_timeout={ANSWER_MS}"
            with self._driver.connect(
                shard.url, autocommit=True, connect_timeout=_tasks.CONNECT_S, options=options, tcp_user_timeout=ANSWER_MS
            ) as connection:
                here = connection.execute("SELECT df.shard()").fetchone()
                if not alone and here[0] != shard.number:
                    raise ValueError(f"where shard {shard.number} should be is another database")
                return list(connection.execute(sql, wanted).fetchall())

        answers: List[Tuple[int, List[Any]]] = []
        missing: List[Missing] = []
        with ThreadPoolExecutor(min(AT_ONCE, len(shards))) as pool:
            for shard, asked in [(shard, pool.submit(one, shard)) for shard in shards]:
                try:
                    answers.append((shard.number, asked.result()))
                except (self._driver.Error, ValueError) as error:
                    missing.append(Missing(shard.number, str(error).strip()))
        if not answers:
            raise Unreachable(f"no shard answered: {missing[0].error}")
        return answers, missing

    def pick(self, key: Optional[str] = None) -> Shard:
        """One on which to start an instance: of those that are open, by chance; with an idempotency key, the key's own, always."""
        if key is None:
            open_ones = [shard for shard in self.all() if shard.state == "open"]
            if not open_ones:
                raise NotFound(404, "no_open_shard", "no shard takes new instances: SELECT * FROM df.shards() has the list")
            return random.choice(open_ones)
        with self._connect() as connection:
            sql = "SELECT s.shard, s.place, s.state, s.here FROM df.shards() s WHERE s.shard = df.home(%s)"
            row = connection.execute(sql, (key,)).fetchone()
        if row is None:
            raise NotFound(404, "no_cluster", "this database belongs to no cluster: `duramen fn cluster create URL URL ...` makes one")
        return self._shard(*row)

    def _connect(self) -> Any:
        return self._driver.connect(self._url, autocommit=True, connect_timeout=_tasks.CONNECT_S)

    def _shard(self, number: int, place: Optional[str], state: str, here: bool) -> Shard:
        if here or place is None:
            return Shard(number, state, self._url)
        conninfo = self._driver.conninfo
        there, known = conninfo.conninfo_to_dict(place), conninfo.conninfo_to_dict(self._url)
        # The list says where, and nothing else: who wrote it decides on no role, no password, no file, and no weaker encryption.
        own = {name: value for name, value in known.items() if name not in _WHERE}
        modes = [mode for mode in (there.get("sslmode"), known.get("sslmode", "prefer")) if mode in _SSLMODES]
        own["sslmode"] = max(modes, key=_SSLMODES.index)
        return Shard(number, state, conninfo.make_conninfo("", **{name: there[name] for name in _WHERE if name in there}, **own))


def _place(row: Any) -> Tuple[float, int, str]:
    """Where an instance stands in the order of all: exactly, which a float of seconds would not say."""
    created: datetime = row[5]
    return (-int(created.timestamp()), -created.microsecond, row[0])
