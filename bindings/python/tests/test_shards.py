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
