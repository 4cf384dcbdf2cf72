package flyway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/flyway"
)

// sum is the checksum of a text as the history prints it.
func sum(t *testing.T, text string) string {
	t.Helper()
	n, err := flyway.Checksum([]byte(text))
	if err != nil {
		t.Fatalf("checksum: %v", err)
	}
	return fmt.Sprint(n)
}

// The vectors were checked against Flyway's own ChecksumCalculator.
//
// Clauses: K-9.1
// Mutation: split lines at NEL or VT too, trim blanks, or keep the byte order mark.
func TestChecksumVectors(t *testing.T) {
	t.Parallel()
	const table = "CREATE TABLE t (id bigint PRIMARY KEY);"
	for _, v := range []struct {
		name, text string
		want       int32
	}{
		{"empty", "", 0},
		{"line ends only", "\n\r\n\r", 0},
		{"byte order mark only", "\xEF\xBB\xBF", 0},
		{"no final newline", "SELECT 1;", 78787420},
		{"LF", "SELECT 1;\n", 78787420},
		{"CRLF", "SELECT 1;\r\n", 78787420},
		{"byte order mark and CRLF", "\xEF\xBB\xBFSELECT 1;\r\n", 78787420},
		{"two lines", table + "\nINSERT INTO t VALUES (1);\n", -1388462498},
		{"two lines CRLF with a blank one", table + "\r\n\r\nINSERT INTO t VALUES (1);", -1388462498},
		{"two lines CR", table + "\rINSERT INTO t VALUES (1);\r", -1388462498},
		{"trailing blank", "SELECT 1; \n", -1951047511},
		{"leading tab", "\tSELECT 1;\n", -47946674},
		{"dash, euro and accent", "COMMENT ON TABLE t IS 'Zahlung \u2013 \u20ac \u00e9';\n", -1535159185},
		{"beyond the basic plane", "SELECT '\U0001F512';\n", -253371508},
		{"byte order mark on line 2", "\n\xEF\xBB\xBFSELECT 1;\n", -1606921097},
		{"two byte order marks", "\xEF\xBB\xBF\xEF\xBB\xBFSELECT 1;\n", -1606921097},
		{"not line ends", "SELECT 1;\u0085SELECT 2;\u2028SELECT 3;\x0bSELECT 4;\x0c\n", 1202879166},
		{"sequence", "CREATE SEQUENCE fencing_token_seq AS bigint START WITH 1 NO CYCLE;\n", 1670243154},
		{"function", "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$\nBEGIN\n  RETURN 1;\nEND;\n$$;\n", 354042693},
		{"NUL", "SELECT 1;\x00\n", -1327808415},
		{"long line", "-- " + strings.Repeat("x", 10000) + "\nSELECT 1;\n", 795387197},
		{"CRLF across a buffer", strings.Repeat("x", 4095) + "\r\nSELECT 1;\n", 1323709478},
		{"CRC check value", "123456789\n", -873187034},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			got, err := flyway.Checksum([]byte(v.text))
			if err != nil || got != v.want {
				t.Errorf("checksum = %d, %v; want %d", got, err, v.want)
			}
		})
	}
	if got, err := flyway.Checksum([]byte("SELECT \xff;\n")); err == nil {
		t.Errorf("checksum of malformed UTF-8 = %d, want an error", got)
	}
}
