//go:build linux

package security

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const specification = "../../docs/specification.md"

// hosts are the columns of the limits that depend on the host, with the lanes for each.
var hosts = map[string][]string{
	"native with cgroups": {"native-root", "native-root-ready", "native-image"},
	"native without":      {"native-rootless", "native-rootless-without-subuids"},
	"gVisor with cgroups": {"gvisor-root"},
	"gVisor without":      {"gvisor-rootless"},
	"Docker":              {"docker"},
}

var quoted = regexp.MustCompile("`([^`]+)`")

// TestLimitsAreProved checks the tables of limits in the specification. Scripts or tests that exist must prove every row, and a
// limit must be refused in exactly those cells in which its scripts are.
func TestLimitsAreProved(t *testing.T) {
	scripts := map[string]script{}
	for _, s := range readScripts(t) {
		scripts[s.name] = s
	}
	_, _, results := readTable(t)
	columns, rows := limitTable(t, "limits by host")
	for _, row := range rows {
		proofs := proofsOf(t, scripts, row)
		for i, column := range columns[1:] {
			for _, lane := range hosts[column] {
				for _, name := range proofs {
					says, got := strings.HasPrefix(row[i+1], "refused"), results.cells[name][lane]
					if len(scripts[name].limits) > 0 && got != needless && says != (got == refused) {
						t.Errorf("%s, %s: the specification says %q, and %s on %s is %q", row[0], column, row[i+1], name, lane, got)
					}
				}
				if !slices.ContainsFunc(proofs, func(name string) bool { return results.cells[name][lane] != needless }) {
					t.Errorf("%s on %s: no script proves it", row[0], lane)
				}
			}
		}
	}
	for name := range hosts {
		if !slices.Contains(columns, name) {
			t.Errorf("the specification has no column %q", name)
		}
	}
	_, rows = limitTable(t, "limits")
	for _, row := range rows {
		proofsOf(t, scripts, row)
	}
}

// limitTable reads the table of the specification that is marked with name.
func limitTable(t *testing.T, name string) (columns []string, rows [][]string) {
	t.Helper()
	raw, err := os.ReadFile(specification)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "<!-- begin "+name+" -->\n")
	table, _, ok := strings.Cut(rest, "<!-- end "+name+" -->")
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if !ok || len(lines) < 3 {
		t.Fatalf("%s has no table of %s", specification, name)
	}
	for i, line := range lines {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		switch {
		case i == 0:
			columns = cells
		case len(cells) == len(columns):
			rows = append(rows, cells)
		case i > 1:
			t.Errorf("row %q has %d cells, want %d", line, len(cells), len(columns))
		}
	}
	return columns, rows
}

// proofsOf returns the scripts in the last cell of row. It fails for names that are neither a script nor a test.
func proofsOf(t *testing.T, scripts map[string]script, row []string) (names []string) {
	t.Helper()
	words := quoted.FindAllStringSubmatch(row[len(row)-1], -1)
	if len(words) == 0 {
		t.Errorf("%s: nothing proves it", row[0])
	}
	for _, word := range words {
		pkg, test, isTest := strings.Cut(word[1], ".")
		if _, ok := scripts[word[1]]; ok {
			names = append(names, word[1])
		} else if !isTest {
			t.Errorf("%s: there is no script %s", row[0], word[1])
		} else if err := exec.Command("grep", "-rq", "--include=*_test.go", "^func "+test+"(", "../../internal/"+pkg).Run(); err != nil {
			t.Errorf("%s: there is no test %s", row[0], word[1])
		}
	}
	return names
}
