package duramen.clients;

import static duramen.clients.Main.check;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.DriverManager;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;

/** A pool of connections. */
final class Hikari {
    private static final int SIZE = 4;
    /** Ends all sessions of the pool but the one that says it. */
    private static final String END = "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity"
            + " where application_name = 'pool' and pid <> pg_backend_pid()";

    private Hikari() {}

    static void works(Main.Place place) throws Exception {
        DriverManager.getConnection(place.create("")).close();
        var config = new HikariConfig();
        config.setJdbcUrl(place.secure() + "&ApplicationName=pool");
        config.setMaximumPoolSize(SIZE);
        config.setConnectionTimeout(20_000);
        config.setAutoCommit(false);
        var workers = Executors.newFixedThreadPool(16);
        try (var pool = new HikariDataSource(config)) {
            var together = new CyclicBarrier(SIZE);
            var tasks = IntStream.range(0, 16).mapToObj(i -> workers.submit(() -> {
                try (var connection = pool.getConnection();
                        var insert = connection.prepareStatement("insert into t values (?, 'by hikari')")) {
                    // As many at once as the pool has; the others wait for them.
                    together.await(20, TimeUnit.SECONDS);
                    insert.setInt(1, -i - 1);
                    insert.executeUpdate();
                    connection.commit();
                }
                return null;
            })).toList();
            for (Future<?> task : tasks) {
                task.get(60, TimeUnit.SECONDS);
            }
            check("connections", pool.getHikariPoolMXBean().getTotalConnections(), SIZE);
            check("rows of all", rows(pool), 16L);
            try (var connection = pool.getConnection(); var insert = connection.createStatement()) {
                insert.execute("insert into t values (-100, 'by hikari')");
            }
            check("what was not committed is rolled back", rows(pool), 16L);
            try (var connection = pool.getConnection()) {
                check("sessions that ended", Pgjdbc.number(connection, END), SIZE - 1L);
                connection.commit();
            }
            // It finds out that a connection is dead before it hands it out, if it was idle for half a second.
            TimeUnit.MILLISECONDS.sleep(600);
            for (int i = 0; i < 2 * SIZE; i++) {
                check("rows after that", rows(pool), 16L);
            }
        } finally {
            workers.shutdownNow();
        }
    }

    private static long rows(HikariDataSource pool) throws Exception {
        try (var connection = pool.getConnection()) {
            return Pgjdbc.number(connection, "select count(*) from t where y = 'by hikari'");
        }
    }
}
