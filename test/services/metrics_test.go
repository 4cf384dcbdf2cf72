//go:build unix

package services_test

import (
	"bufio"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// exportsAsDocumented compares the service's own /metrics with docs/services.md: it has
// no metric that the page does not say is its, and each that it is to have from the start.
func (s *service) exportsAsDocumented(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile("../../docs/services.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([^|]+) \\| ([^|]*) \\|").FindAllStringSubmatch(string(page), -1)
	its, verb := map[string]bool{}, s.args[1]
	exported := s.exported(t)
	for _, row := range rows {
		name, of, label := row[1], row[2], strings.TrimSpace(row[3])
		if of != "all" && !strings.Contains(of, verb) {
			continue
		}
		its[name] = true
		if (label == "" || label == "pool") && !exported[name] { // the others count what may not have happened
			t.Errorf("%s does not export %s", s.name, name)
		}
	}
	if len(its) == 0 {
		t.Errorf("docs/services.md has no metric of %s", verb)
	}
	for name := range exported {
		if !its[name] {
			t.Errorf("%s exports %s, and docs/services.md does not say so", s.name, name)
		}
	}
}

// exported lists the service's own metrics, without Go's and the process's.
func (s *service) exported(t *testing.T) map[string]bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	names := map[string]bool{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 4 && fields[0] == "#" && fields[1] == "TYPE" && regexp.MustCompile(`^(dlockctl|lock|rail)_`).MatchString(fields[2]) {
			names[fields[2]] = true
		}
	}
	if err := lines.Err(); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("the metrics of %s: %s, %v", s.name, response.Status, err)
	}
	return names
}
