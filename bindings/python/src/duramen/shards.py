"""Durable functions over several databases: where an instance is, and where one is started."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, List, Optional

from . import _tasks
from .errors import NotFound

__all__ = ["Shard", "Shards"]


@dataclass(frozen=True)
class Shard:
    """A database of a cluster."""

    number: int
    #: ``open`` for new instances, ``draining``, or ``removed``.
    state: str
    #: Leads there, with the role and the password that the list was read with.
    url: str = field(repr=False)


class Shards:
    """The databases that run durable functions together with this one. The list is read each time: it is a small table.

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

    def of(self, instance_id: str) -> Shard:
        """That of an instance. Outside of a cluster it is this database, as shard 0."""
        with self._connect() as connection:
            try:
                row = connection.execute("SELECT shard, place, state, here FROM df.route(%s)", (instance_id,)).fetchone()
            except (self._driver.errors.NoDataFound, self._driver.errors.InvalidParameterValue) as error:
                raise NotFound(404, "unknown_instance", str(error)) from error
        return self._shard(*row)

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
        known = conninfo.conninfo_to_dict(self._url)
        # Whoever demands encryption for one demands it for all; the list says where, and nothing else.
        own = {name: known[name] for name in ("user", "password", "sslmode", "sslrootcert") if name in known}
        return Shard(number, state, conninfo.make_conninfo(place, **own))
