"""Each PostgreSQL client of Python does the same work with nothing but a URL, through the router.

Usage: python.py CLIENT postgresql://TOKEN:SECRET@HOST:PORT SOURCE

Every client creates a branch by connecting, changes it, rolls back, and finds what it wrote on a second connection.
"""

import asyncio
import sys
from urllib.parse import urlsplit

client, base, source = sys.argv[1:]
branch = f"py-{client}"
create, again = f"{base}/{source}@{branch}", f"{base}/{branch}"
parts = urlsplit(base)
INSERT = "insert into t values (-1, 'by %s')" % client
COUNT = "select count(*) from t"
SUM = "select sum(x) from t where x > 0"


def check(what, found, expected):
    assert found == expected, f"{client}: {what}: {found!r} instead of {expected!r}"


def dbapi(connect):
    """A client of the Python database API."""
    first = connect(create, f"{source}@{branch}")
    cursor = first.cursor()
    cursor.execute(SUM)
    check("the source's data", int(cursor.fetchone()[0]), 5050)
    cursor.execute(INSERT)
    first.rollback()
    cursor.execute(INSERT)
    first.commit()
    second = connect(again, branch)
    cursor = second.cursor()
    cursor.execute(COUNT)
    check("rows", cursor.fetchone()[0], 101)
    second.close()
    first.close()


def psycopg():
    import psycopg

    dbapi(lambda url, _: psycopg.connect(url))
    with psycopg.connect(again) as connection:
        with connection.cursor().copy("copy t to stdout") as rows:
            check("COPY", sum(1 for _ in rows.rows()), 101)
        with connection.pipeline():
            cursors = [connection.execute("select %s::int", (i,)) for i in range(20)]
            check("pipeline", [cursor.fetchone()[0] for cursor in cursors], list(range(20)))


def psycopg_async():
    import psycopg

    async def work():
        async with await psycopg.AsyncConnection.connect(create) as connection:
            await connection.execute(INSERT)
        async with await psycopg.AsyncConnection.connect(again) as connection:
            check("rows", (await (await connection.execute(COUNT)).fetchone())[0], 101)

    asyncio.run(work())


def asyncpg():
    import asyncpg

    async def work():
        connection = await asyncpg.connect(create)
        check("the source's data", await connection.fetchval(SUM), 5050)
        await connection.execute(INSERT)
        async with asyncpg.create_pool(again, min_size=3, max_size=3) as pool:
            found = await asyncio.gather(*(pool.fetchval(COUNT) for _ in range(9)))
            check("rows in a pool", found, [101] * 9)
        await connection.close()

    asyncio.run(work())


def pg8000():
    import ssl

    import pg8000.dbapi

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def connect(_, database):
        return pg8000.dbapi.connect(
            user=parts.username,
            password=parts.password,
            host=parts.hostname,
            port=parts.port,
            database=database,
            ssl_context=context,
        )

    dbapi(connect)


def sqlalchemy():
    import sqlalchemy
    from sqlalchemy.pool import QueuePool

    url = create.replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(url, poolclass=QueuePool, pool_size=3, pool_reset_on_return="rollback")
    table = sqlalchemy.Table("t", sqlalchemy.MetaData(), autoload_with=engine)
    check("the schema", [column.name for column in table.columns], ["x", "y"])
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"x": -1, "y": "one"}, {"x": -2, "y": "two"}])
    with engine.connect() as connection:
        check("rows", connection.execute(sqlalchemy.text(COUNT)).scalar(), 102)
    engine.dispose()


globals()[client.replace("-", "_")]()
print(f"{client}: ok")
