package duramen.clients;

import static duramen.clients.Main.check;

import java.sql.DriverManager;
import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.FlywayException;

/** Flyway changes the schema of a branch; another branch of the source has none of that. */
final class Migrations {
    private Migrations() {}

    static void work(Main.Place place) throws Exception {
        var ddl = "&options=-c%20duramen.policy=ddl";
        var url = place.create(ddl);
        var flyway = flyway(url, "classpath:migrations");
        check("before", flyway.info().pending().length, 2);
        check("migrations", flyway.migrate().migrationsExecuted, 2);
        flyway.validate();
        check("again", flyway.migrate().migrationsExecuted, 0);
        check("the version", flyway.info().current().getVersion().getVersion(), "2");

        // Over TLS, one that fails in the middle.
        var broken = flyway(place.secure(), "classpath:migrations", "classpath:broken");
        try {
            broken.migrate();
            throw new AssertionError("it divides by zero");
        } catch (FlywayException error) {
            check("why", error.getMessage().contains("22012"), true);
        }
        try (var connection = DriverManager.getConnection(place.secure())) {
            check("orders", Pgjdbc.number(connection, "select count(*) from orders"), 10L);
            var half = "select count(*) from pg_class where relname = 'half'";
            check("what failed left nothing", Pgjdbc.number(connection, half), 0L);
        }
        var other = new Main.Place(place.base(), place.source(), place.branch() + "-2", place.certificate());
        check("another branch", flyway(other.create(ddl), "classpath:migrations").info().pending().length, 2);
    }

    private static Flyway flyway(String url, String... locations) {
        return Flyway.configure().dataSource(url, null, null).locations(locations).baselineOnMigrate(true)
                .baselineVersion("0").load();
    }
}
