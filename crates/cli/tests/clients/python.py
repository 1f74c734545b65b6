"""Each PostgreSQL client of Python does the same work with nothing but a URL, through the router.

Usage: python.py CLIENT postgresql://TOKEN:SECRET@HOST:PORT SOURCE CERTIFICATE

Every client creates a branch by connecting, changes it, rolls back, and finds what it wrote on a second connection.
"""

import asyncio
import concurrent.futures
import contextlib
import io
import ssl
import sys
import threading
from urllib.parse import urlsplit

client, base, source, certificate = sys.argv[1:]
branch = f"py-{client}"
create, again = f"{base}/{source}@{branch}", f"{base}/{branch}"
parts = urlsplit(base)
INSERT = "insert into t values (-1, 'by %s')" % client
COUNT = "select count(*) from t"
SUM = "select sum(x) from t where x > 0"


def check(what, found, expected):
    assert found == expected, f"{client}: {what}: {found!r} instead of {expected!r}"


@contextlib.contextmanager
def refused(kind, sqlstate):
    """What is done fails, and how."""
    try:
        yield
    except kind as error:
        check("SQLSTATE", error.sqlstate, sqlstate)
    else:
        raise AssertionError(f"{client}: not refused with {sqlstate}")


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
    from psycopg import errors
    from psycopg_pool import ConnectionPool

    dbapi(lambda url, _: psycopg.connect(url, sslmode="disable"))
    secure = f"{again}?sslmode=verify-full&channel_binding=require&sslrootcert={certificate}"
    with psycopg.connect(secure, autocommit=True) as connection:
        check("TLS", connection.pgconn.ssl_in_use, True)
        with refused(errors.UniqueViolation, "23505"):
            connection.execute("insert into t values (%s, %s)", (-1, "again"))
        threading.Timer(0.3, connection.cancel_safe).start()
        with refused(errors.QueryCanceled, "57014"):
            connection.execute("select pg_sleep(50)")
        with connection.cursor().copy("copy t from stdin") as rows:
            for row in [(-2, "two"), (-3, None)]:
                rows.write_row(row)
        with connection.cursor().copy("copy t to stdout") as rows:
            check("COPY", sum(1 for _ in rows.rows()), 103)
        with connection.pipeline():
            cursors = [connection.execute("select %s::int", (i,)) for i in range(20)]
            check("pipeline", [cursor.fetchone()[0] for cursor in cursors], list(range(20)))
        # More often than it takes to have a statement prepared at the server.
        for i in range(1, 20):
            check("a row", connection.execute("select y from t where x = %s", (i,)).fetchone()[0], f"row {i}")
    with refused(psycopg.OperationalError, None):
        psycopg.connect(f"{again}?sslmode=verify-full&sslrootcert=system")

    with ConnectionPool(secure, min_size=4, max_size=4, check=ConnectionPool.check_connection) as pool:
        pool.wait(20)

        def count(_):
            with pool.connection(20) as connection:
                return connection.execute(COUNT).fetchone()[0]

        with concurrent.futures.ThreadPoolExecutor(16) as threads:
            check("rows in a pool", list(threads.map(count, range(32))), [103] * 32)
        # Sessions that end beneath the pool are replaced.
        with pool.connection(20) as connection:
            ended = connection.execute(
                "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity"
                " where usename = current_user and pid <> pg_backend_pid()"
            )
            assert ended.fetchone()[0] >= 3, "the others of the pool"
        check("rows after that", [count(i) for i in range(8)], [103] * 8)


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
        async with connection.transaction():
            await connection.executemany("insert into t values ($1, $2)", [(-2, "two"), (-3, None)])
        with refused(asyncpg.UniqueViolationError, "23505"):
            await connection.execute("insert into t values ($1, $2)", -1, "again")
        try:
            # It asks the server to cancel the statement, and the session goes on.
            await asyncio.wait_for(connection.execute("select pg_sleep(50)"), 0.3)
        except asyncio.TimeoutError:
            check("rows after that", await connection.fetchval(COUNT), 103)
        await connection.copy_records_to_table("t", records=[(-4, "four")])
        out = io.BytesIO()
        await connection.copy_from_query("select x from t where x < 0 order by x", output=out)
        check("COPY", out.getvalue(), b"-4\n-3\n-2\n-1\n")

        trusted = ssl.create_default_context(cafile=certificate)
        try:
            await asyncpg.connect(again, ssl=ssl.create_default_context())
        except ssl.SSLCertVerificationError:
            pass
        else:
            raise AssertionError("a certificate that nobody vouches for")
        async with asyncpg.create_pool(again, min_size=3, max_size=3, ssl=trusted) as pool:
            found = await asyncio.gather(*(pool.fetchval(COUNT) for _ in range(9)))
            check("rows in a pool", found, [104] * 9)
            # Sessions that end beneath the pool are replaced.
            await connection.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
                " where usename = current_user and pid <> pg_backend_pid()"
            )
            await asyncio.sleep(0.3)
            check("rows after that", [await pool.fetchval(COUNT) for _ in range(6)], [104] * 6)
        await connection.close()

    asyncio.run(work())


def pg8000():
    import pg8000.dbapi

    context = ssl.create_default_context(cafile=certificate)

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
    with contextlib.closing(connect(None, branch)) as connection:
        cursor = connection.cursor()
        cursor.execute("insert into t values (%s, %s)", (-2, "two"))
        try:
            cursor.execute("insert into t values (%s, %s)", (-2, "again"))
        except pg8000.dbapi.DatabaseError as error:
            check("SQLSTATE", error.args[0]["C"], "23505")
        connection.rollback()
        cursor.execute("copy t from stdin", stream=io.BytesIO(b"-3\tthree\n"))
        connection.commit()
        out = io.BytesIO()
        cursor.execute("copy (select * from t where x < -1) to stdout", stream=out)
        check("COPY", out.getvalue(), b"-3\tthree\n")


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


def django():
    import django as package
    from django.conf import settings

    options = {"sslmode": "verify-full", "sslrootcert": certificate, "options": "-c duramen.policy=ddl"}
    place = {"HOST": parts.hostname, "PORT": parts.port, "USER": parts.username, "PASSWORD": parts.password}
    default = {"ENGINE": "django.db.backends.postgresql", "NAME": f"{source}@{branch}", "OPTIONS": options, **place}
    settings.configure(DATABASES={"default": default}, INSTALLED_APPS=["django.contrib.contenttypes"])
    package.setup()
    from django.contrib.contenttypes.models import ContentType
    from django.core.management import call_command
    from django.db import IntegrityError, connection, models, transaction

    class Row(models.Model):
        x = models.IntegerField(primary_key=True)
        y = models.TextField(null=True)

        class Meta:
            app_label, db_table, managed = "contenttypes", "t", False

    check("the source's data", Row.objects.filter(x__gt=0).aggregate(sum=models.Sum("x"))["sum"], 5050)
    call_command("migrate", verbosity=0)
    call_command("migrate", verbosity=0, check_unapplied=True)
    ContentType.objects.create(app_label="shop", model="item")
    with contextlib.suppress(ZeroDivisionError), transaction.atomic():
        Row.objects.create(x=-1)
        _ = 1 / 0
    check("rows", Row.objects.count(), 100)
    try:
        Row.objects.create(x=1)
    except IntegrityError as error:
        check("SQLSTATE", error.__cause__.sqlstate, "23505")
    connection.close()
    check("rows by another connection", len(list(Row.objects.iterator(chunk_size=7))), 100)


globals()[client]()
print(f"{client}: ok")
