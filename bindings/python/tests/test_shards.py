"""Durable functions over two databases of one branch's server."""

from __future__ import annotations

import subprocess
from typing import Iterator, List

import duramen
import psycopg
import pytest
from conftest import Daemon
from psycopg.conninfo import make_conninfo


@pytest.fixture(scope="module")
def urls(daemon: Daemon) -> Iterator[List[str]]:
    with duramen.Client(home=str(daemon.home)) as client, client.create("app", policy="ddl") as branch:
        command = [daemon.program, "--home", str(daemon.home)]
        first = subprocess.run(
            [*command, "branch", "url", "--administrator", branch.name], capture_output=True, text=True, check=True
        ).stdout.strip()
        with psycopg.connect(first, autocommit=True) as connection:
            connection.execute("CREATE DATABASE second")
        both = [first, make_conninfo(first, dbname="second")]
        for url in both:
            subprocess.run([*command, "fn", "install", url], check=True, timeout=60, stdout=subprocess.DEVNULL)
            with psycopg.connect(url, autocommit=True) as connection:
                name = connection.execute("SELECT quote_ident(current_database())").fetchone()
                assert name is not None
                connection.execute(f"ALTER DATABASE {name[0]} SET df.enable_superuser_instances = on")
        assert duramen.Shards(first).all() == []
        subprocess.run([*command, "fn", "cluster", "create", *both], check=True, timeout=60, stdout=subprocess.DEVNULL)
        yield both


def start(shard: duramen.Shard) -> str:
    with psycopg.connect(shard.url, autocommit=True) as connection:
        row = connection.execute("SELECT df.start('SELECT 1')").fetchone()
        assert row is not None
        return str(row[0])


def test_an_instance_is_found_by_its_id_from_any_shard(urls: List[str]) -> None:
    for shard in duramen.Shards(urls[0]).all():
        instance = start(shard)
        for url in urls:
            found = duramen.Shards(url).of(instance)
            assert (found.number, found.state) == (shard.number, "open")
            with psycopg.connect(found.url) as connection:
                assert connection.execute("SELECT df.status(%s)", (instance,)).fetchone() == ("pending",)
    with pytest.raises(duramen.NotFound, match="not an instance id"):
        duramen.Shards(urls[0]).of("order 7")
    with pytest.raises(duramen.NotFound, match="is of shard 7"):
        duramen.Shards(urls[0]).of("0070000000000001")


def test_a_key_has_one_shard_and_others_are_spread(urls: List[str]) -> None:
    for number in range(20):
        key = f"order {number}"
        assert duramen.Shards(urls[0]).pick(key).number == duramen.Shards(urls[1]).pick(key).number
    assert {duramen.Shards(urls[1]).pick().number for _ in range(40)} == {0, 1}
    # No password is shown.
    assert "url" not in repr(duramen.Shards(urls[0]).pick())


def test_instances_of_all_shards_are_listed_in_one_order(urls: List[str]) -> None:
    shards = duramen.Shards(urls[0])
    both = shards.all()
    started = []
    for number in range(7):
        with psycopg.connect(both[number % 2].url, autocommit=True) as connection:
            row = connection.execute("SELECT df.start('SELECT 1', label => 'listed')").fetchone()
            assert row is not None
            started.append(str(row[0]))
    with pytest.raises(duramen.Conflict, match="nothing is done over shards"):
        shards.of(started[0], started[1])
    assert shards.of(started[1], started[3]).number == 1
    seen: List[str] = []
    page = shards.list(label="listed", limit=3)
    while True:
        assert page.missing == []
        seen += [instance.id for instance in page.instances]
        if page.next is None:
            break
        page = shards.list(label="listed", limit=3, after=page.next)
    assert seen == started[::-1]
    counts, missing = shards.count(label="listed")
    assert (sum(counts.values()), {key[0] for key in counts}, missing) == (7, {"pending"}, [])


def test_a_shard_that_does_not_answer_is_named(urls: List[str]) -> None:
    with psycopg.connect(urls[0], autocommit=True) as connection:
        row = connection.execute("SELECT place FROM df._shard WHERE shard = 1").fetchone()
        assert row is not None
        # Nobody listens there.
        connection.execute("UPDATE df._shard SET place = 'host=127.0.0.1 port=1 dbname=second' WHERE shard = 1")
        try:
            page = duramen.Shards(urls[0]).list()
        finally:
            connection.execute("UPDATE df._shard SET place = %s WHERE shard = 1", row)
    assert [missing.shard for missing in page.missing] == [1]
    assert page.instances and {instance.shard for instance in page.instances} == {0}


def test_of_a_place_nothing_counts_but_where_it_is() -> None:
    # SH-10.
    place = "host=b port=6001 dbname=jobs user=eve password=x sslmode=disable passfile=/x options='-c role=eve'"
    shards = duramen.Shards("postgresql://app:secret@a/shop?sslmode=verify-full")
    url = shards._shard(1, place, "open", False).url
    known = psycopg.conninfo.conninfo_to_dict(url)
    assert known == {"host": "b", "port": "6001", "dbname": "jobs", "user": "app", "password": "secret", "sslmode": "verify-full"}
    weak = duramen.Shards("postgresql://app@a/shop")._shard(1, "host=b dbname=jobs sslmode=disable", "open", False).url
    assert psycopg.conninfo.conninfo_to_dict(weak)["sslmode"] == "prefer"
