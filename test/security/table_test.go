//go:build linux

package security

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write the results into the table of docs/security.md")

// verdict is the result of an attack.
type verdict string

const (
	held     verdict = "held"
	refused  verdict = "refused" // the attacked limit cannot be enforced there, and a server does not start; or the image is refused
	needless verdict = "n/a"
	breached verdict = "BREACHED"
)

// board collects verdicts: script, lane.
type board struct {
	mu    sync.Mutex
	cells map[string]map[string]verdict
}

func newBoard() *board { return &board{cells: map[string]map[string]verdict{}} }

func (b *board) put(script, lane string, v verdict) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cells[script] == nil {
		b.cells[script] = map[string]verdict{}
	}
	b.cells[script][lane] = v
}

const (
	tableFile  = "../../docs/security.md"
	tableBegin = "<!-- begin results: go test ./test/security -update -->\n"
	tableEnd   = "<!-- end results -->\n"
)

// write writes the results of this run into the document. It needs those of every lane.
func (b *board) write(t *testing.T, scripts []script) {
	t.Helper()
	for _, s := range scripts {
		for _, lane := range laneNames() {
			if b.cells[s.name][lane] == "" {
				t.Fatalf("no table without lane %s: %s has no result there", lane, s.name)
			}
		}
	}
	before, _, after := document(t)
	if err := os.WriteFile(tableFile, []byte(before+tableBegin+b.text(scripts)+tableEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (b *board) text(scripts []script) string {
	var text strings.Builder
	names := laneNames()
	fmt.Fprintf(&text, "| attack | %s |\n|---|%s\n", strings.Join(names, " | "), strings.Repeat("---|", len(names)))
	reasons := map[string][]string{}
	for _, s := range scripts {
		fmt.Fprintf(&text, "| `%s` |", s.name)
		for _, lane := range names {
			fmt.Fprintf(&text, " %s |", b.cells[s.name][lane])
		}
		text.WriteByte('\n')
		for _, e := range s.except {
			line := strings.Join(e.facts, ", ") + ": " + e.reason
			reasons[line] = append(reasons[line], "`"+s.name+"`")
		}
	}
	for i, line := range slices.Sorted(maps.Keys(reasons)) {
		if i == 0 {
			text.WriteString("\nNot applicable:\n\n")
		}
		fmt.Fprintf(&text, "- %s on %s.\n", strings.Join(reasons[line], ", "), line)
	}
	return text.String()
}

// document returns docs/security.md in parts: the text before the table, the table, and the text after it.
func document(t *testing.T) (before, table, after string) {
	t.Helper()
	raw, err := os.ReadFile(tableFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n"))), tableBegin)
	table, after, end := strings.Cut(rest, tableEnd)
	if !ok || !end {
		t.Fatalf("%s has no place for the table", tableFile)
	}
	return before, table, after
}

// compare checks the results of this run against the committed table: a cell that differs is wrong. A host that cannot enforce a
// limit may refuse an attack that another host holds.
func (b *board) compare(t *testing.T, scripts []script) {
	t.Helper()
	_, _, committed := readTable(t)
	for _, s := range scripts {
		for lane, got := range b.cells[s.name] {
			want := committed.cells[s.name][lane]
			byHost := len(s.limits) > 0 && (got == refused || want == refused)
			if got != want && got != breached && !byHost {
				t.Errorf("%s on %s: %q here, %q in the table: go test ./test/security -update", s.name, lane, got, want)
			}
		}
	}
}

// readTable reads the committed table: its lanes, its attacks, and its results.
func readTable(t *testing.T) (columns, rows []string, committed *board) {
	t.Helper()
	_, table, _ := document(t)
	committed = newBoard()
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		switch {
		case !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|--"):
		case columns == nil:
			columns = cells[1:]
		case len(cells) != len(columns)+1:
			t.Errorf("row %q has %d cells", line, len(cells))
		default:
			name := strings.Trim(cells[0], "`")
			rows = append(rows, name)
			for i, c := range cells[1:] {
				committed.put(name, columns[i], verdict(c))
			}
		}
	}
	return columns, rows, committed
}

// TestTable checks the committed table against the existing scripts and lanes, without running any.
func TestTable(t *testing.T) {
	scripts := readScripts(t)
	_, table, _ := document(t)
	columns, rows, committed := readTable(t)
	if want := laneNames(); !slices.Equal(columns, want) {
		t.Fatalf("the table has the lanes %q, the tests %q: go test ./test/security -update", columns, want)
	}
	var names []string
	for _, s := range scripts {
		names = append(names, s.name)
	}
	if !slices.Equal(rows, names) {
		t.Fatalf("the table has the attacks\n%q\nthe tests\n%q: go test ./test/security -update", rows, names)
	}
	if text := committed.text(scripts); text != table {
		t.Errorf("the table reads\n%s\nand should\n%s", table, text)
	}
	for _, s := range scripts {
		for _, l := range lanes() {
			got := committed.cells[s.name][l.name]
			allowed := []verdict{held}
			switch {
			case s.needless(l) != "":
				allowed = []verdict{needless}
			case len(s.limits) > 0 || s.image != "":
				allowed = append(allowed, refused)
			}
			if !slices.Contains(allowed, got) {
				t.Errorf("%s on %s is %q in the table, may be %q", s.name, l.name, got, allowed)
			}
		}
	}
}
