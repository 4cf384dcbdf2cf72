package dlockctl;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.MigrationInfo;
import org.flywaydb.core.api.configuration.FluentConfiguration;
import org.flywaydb.core.api.output.InfoOutput;
import org.flywaydb.core.api.output.ValidateOutput;
import org.flywaydb.core.api.output.ValidateResult;
import org.flywaydb.database.postgresql.PostgreSQLConfigurationExtension;

/**
 * A plain Flyway for the tests. It reads requests from standard input, one a line, and answers each with stable lines
 * and a last line ".".
 *
 * <p>A request is JDBC URL, user, password, locations, whether the lock is transactional, and commands, separated by
 * tabs: migrate, info, validate, repair, baseline:VERSION, history, checksums. The first command that fails ends its
 * request with a line "error|…".
 */
public final class Peer {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private final String[] request;

    private Peer(String line) {
        request = line.split("\t");
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            new Peer(line).answer();
            OUT.println(".");
        }
    }

    private void answer() {
        try {
            for (int i = 5; i < request.length; i++) {
                execute(request[i]);
            }
        } catch (Exception e) {
            OUT.println("error|" + String.valueOf(e.getMessage()).replaceAll("\\s+", " "));
        }
    }

    private void execute(String command) throws Exception {
        String[] parts = command.split(":", 2);
        switch (parts[0]) {
            case "migrate" -> OUT.println("migrated|" + flyway("1").migrate().migrationsExecuted);
            case "info" -> info();
            case "validate" -> validate();
            case "repair" -> flyway("1").repair();
            case "baseline" -> flyway(parts[1]).baseline();
            case "history" -> history();
            case "checksums" -> checksums();
            default -> throw new IllegalArgumentException("unknown command " + command);
        }
    }

    private Flyway flyway(String baselineVersion) {
        FluentConfiguration configuration = Flyway.configure()
            .dataSource(request[0], request[1], request[2])
            .initSql("SET ROLE dlock_owner")
            .locations(request[3].split(","))
            .baselineVersion(baselineVersion);
        configuration.getConfigurationExtension(PostgreSQLConfigurationExtension.class)
            .setTransactionalLock(Boolean.parseBoolean(request[4]));
        return configuration.load();
    }

    private void info() {
        for (InfoOutput i : flyway("1").info().getInfoResult().migrations) {
            OUT.println(String.join("|", "info", i.category, text(i.version), i.description, i.type, i.state));
        }
    }

    private void validate() {
        ValidateResult result = flyway("1").validateWithResult();
        OUT.println("valid|" + result.validationSuccessful);
        for (ValidateOutput v : result.invalidMigrations) {
            OUT.println("invalid|" + text(v.version) + "|" + v.description + "|" + v.errorDetails.errorCode);
        }
    }

    private void checksums() {
        for (MigrationInfo i : flyway("1").info().all()) {
            OUT.println("checksum|" + i.getScript() + "|" + i.getChecksum());
        }
    }

    private void history() throws Exception {
        try (Connection connection = DriverManager.getConnection(request[0], request[1], request[2]);
            ResultSet rows = connection.createStatement().executeQuery(
                "SELECT * FROM flyway_schema_history ORDER BY installed_rank")) {
            while (rows.next()) {
                OUT.println(String.join("|", "history", rows.getString("installed_rank"), dash(rows.getString("version")),
                    rows.getString("description"), rows.getString("type"), rows.getString("script"),
                    dash(rows.getString("checksum")), rows.getString("installed_by"),
                    Boolean.toString(rows.getBoolean("success"))));
            }
        }
    }

    private static String text(String value) {
        return value == null ? "" : value;
    }

    private static String dash(String value) {
        return value == null ? "-" : value;
    }
}
