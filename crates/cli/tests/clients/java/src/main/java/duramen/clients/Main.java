package duramen.clients;

import java.net.URI;
import java.sql.SQLException;
import java.util.Objects;

/**
 * The PostgreSQL clients of Java do real work with nothing but a URL, through the router.
 *
 * <p>Usage: Main CLIENT postgresql://TOKEN:SECRET@HOST:PORT SOURCE CERTIFICATE
 */
final class Main {
    private Main() {}

    public static void main(String[] arguments) throws Exception {
        var client = arguments[0];
        var place = new Place(URI.create(arguments[1]), arguments[2], "java-" + client, arguments[3]);
        switch (client) {
            case "pgjdbc" -> Pgjdbc.works(place);
            case "hikari" -> Hikari.works(place);
            case "flyway" -> Migrations.work(place);
            default -> throw new IllegalArgumentException(client);
        }
        System.out.println(client + ": ok");
    }

    /** Where a client works: a branch of its own, which it creates by connecting. */
    record Place(URI base, String source, String branch, String certificate) {
        /** The URL that creates the branch; more says what it is like. */
        String create(String more) {
            return url(source + "@" + branch, "sslmode=disable" + more);
        }

        /** The URL that enters it over TLS, with a certificate and a name that are held to be right. */
        String secure() {
            return url(branch, "sslmode=verify-full&channelBinding=require&sslrootcert=" + certificate);
        }

        /** The same with those certificates that Java trusts. */
        String elsewhere() {
            return url(branch, "sslmode=verify-full&sslfactory=org.postgresql.ssl.DefaultJavaSSLFactory");
        }

        private String url(String database, String more) {
            var holder = base.getUserInfo().split(":", 2);
            return "jdbc:postgresql://%s:%d/%s?user=%s&password=%s&%s"
                    .formatted(base.getHost(), base.getPort(), database, holder[0], holder[1], more);
        }
    }

    static void check(String what, Object found, Object expected) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError(what + ": " + found + " instead of " + expected);
        }
    }

    /** What fails. */
    interface Work {
        void run() throws Exception;
    }

    /** The SQLSTATE with which something fails. */
    static String state(Work work) throws Exception {
        try {
            work.run();
        } catch (SQLException error) {
            return error.getSQLState();
        }
        return "no error";
    }
}
