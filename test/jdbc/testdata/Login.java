import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;

/**
 * Logs in with each url of standard input, with the name and the password that services have. Writes a line for each: the database, the
 * account and TLS's cipher, or "refused" and the messages of the error and its causes.
 */
public class Login {
  public static void main(String[] args) throws Exception {
    BufferedReader urls = new BufferedReader(new InputStreamReader(System.in));
    for (String url; (url = urls.readLine()) != null; ) {
      System.out.println(login(url));
    }
  }

  static String login(String url) {
    try (Connection connection = DriverManager.getConnection(url, System.getenv("MYSQL_USERNAME"), System.getenv("MYSQL_PASSWORD"))) {
      return ask(connection, "SELECT CONCAT(DATABASE(), ' ', CURRENT_USER())", 1) + " " + ask(connection, "SHOW STATUS LIKE 'Ssl_cipher'", 2);
    } catch (SQLException refused) {
      StringBuilder messages = new StringBuilder("refused");
      for (Throwable cause = refused; cause != null; cause = cause.getCause()) {
        messages.append(": ").append(String.valueOf(cause.getMessage()).replaceAll("\\s+", " "));
      }
      return messages.toString();
    }
  }

  static String ask(Connection connection, String query, int column) throws SQLException {
    try (ResultSet rows = connection.createStatement().executeQuery(query)) {
      rows.next();
      return rows.getString(column);
    }
  }
}
