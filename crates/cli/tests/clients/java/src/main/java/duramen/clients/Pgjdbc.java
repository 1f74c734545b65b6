package duramen.clients;

import static duramen.clients.Main.check;
import static duramen.clients.Main.state;

import java.io.StringReader;
import java.io.StringWriter;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.Timer;
import java.util.TimerTask;
import org.postgresql.PGConnection;

/** The driver alone. */
final class Pgjdbc {
    private Pgjdbc() {}

    static void works(Main.Place place) throws Exception {
        try (var plain = DriverManager.getConnection(place.create(""))) {
            check("the source's data", number(plain, "select sum(x) from t where x <= 100"), 5050L);
            transactions(plain);
            try (var secure = DriverManager.getConnection(place.secure())) {
                check("what was committed", number(secure, "select count(*) from t where x < 0"), 1L);
                statements(secure);
                cancel(secure);
                copy(secure);
                notifications(secure, plain);
            }
        }
        var refused = state(() -> DriverManager.getConnection(place.elsewhere()).close());
        check("a certificate that nobody vouches for", refused, "08006");
    }

    private static void transactions(Connection connection) throws Exception {
        connection.setAutoCommit(false);
        try (var insert = connection.prepareStatement("insert into t values (?, ?)")) {
            insert.setInt(1, -1);
            insert.setString(2, "by pgjdbc");
            insert.executeUpdate();
            connection.rollback();
            insert.executeUpdate();
            var before = connection.setSavepoint();
            check("twice", state(insert::executeUpdate), "23505");
            check("in a failed transaction", state(() -> number(connection, "select 1")), "25P02");
            connection.rollback(before);
            connection.commit();
        }
        connection.setAutoCommit(true);
    }

    /** More often than it takes for the driver to prepare a statement at the server, and rows by parts. */
    private static void statements(Connection connection) throws SQLException {
        try (var select = connection.prepareStatement("select y from t where x = ?")) {
            for (int i = 1; i <= 20; i++) {
                select.setInt(1, i);
                try (var rows = select.executeQuery()) {
                    rows.next();
                    check("a row", rows.getString(1), "row " + i);
                }
            }
        }
        connection.setAutoCommit(false);
        try (var select = connection.createStatement()) {
            select.setFetchSize(7);
            var count = 0;
            try (var rows = select.executeQuery("select * from t")) {
                while (rows.next()) {
                    count++;
                }
            }
            check("rows by a cursor", count, 101);
        }
        connection.commit();
        connection.setAutoCommit(true);
        try (var keys = connection.getMetaData().getPrimaryKeys(null, "public", "t")) {
            keys.next();
            check("the primary key", keys.getString("COLUMN_NAME"), "x");
        }
    }

    private static void cancel(Connection connection) throws Exception {
        var timer = new Timer(true);
        var began = System.nanoTime();
        try (var sleep = connection.createStatement()) {
            timer.schedule(new TimerTask() {
                @Override
                public void run() {
                    try {
                        sleep.cancel();
                    } catch (SQLException error) {
                        throw new AssertionError(error);
                    }
                }
            }, 300);
            check("cancelled", state(() -> sleep.execute("select pg_sleep(50)")), "57014");
        }
        timer.cancel();
        try (var sleep = connection.createStatement()) {
            sleep.setQueryTimeout(1);
            check("too slow", state(() -> sleep.execute("select pg_sleep(50)")), "57014");
        }
        check("at once", System.nanoTime() - began < 15_000_000_000L, true);
        check("and it goes on", number(connection, "select 1"), 1L);
    }

    private static void copy(Connection connection) throws Exception {
        var copies = connection.unwrap(PGConnection.class).getCopyAPI();
        var written = copies.copyIn("copy t from stdin", new StringReader("-2\ttwo\n-3\t\\N\n"));
        check("rows copied in", written, 2L);
        var out = new StringWriter();
        copies.copyOut("copy (select * from t where x < 0 order by x desc) to stdout", out);
        check("rows copied out", out.toString(), "-1\tby pgjdbc\n-2\ttwo\n-3\t\\N\n");
    }

    private static void notifications(Connection listener, Connection other) throws SQLException {
        try (var listen = listener.createStatement(); var say = other.createStatement()) {
            listen.execute("listen news");
            say.execute("notify news, 'it works'");
        }
        var news = listener.unwrap(PGConnection.class).getNotifications(10_000);
        check("notifications", news.length, 1);
        check("a notification", news[0].getParameter(), "it works");
    }

    static long number(Connection connection, String sql) throws SQLException {
        try (var statement = connection.createStatement(); var rows = statement.executeQuery(sql)) {
            rows.next();
            return rows.getLong(1);
        }
    }
}
