package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const sample = `{"host": {"machine": "2 × A & B"}, "timings": [
	{"name": "belljar, in process", "p50_ms": 5, "ratio": 1},
	{"name": "belljar run, whole process", "p50_ms": 30, "ratio": 6},
	{"name": "docker run", "p50_ms": 212.346, "ratio": 42.469}]}`

// TestRun records two benchmarks, and draws the second together with the first.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	report, table, picture := filepath.Join(dir, "r.json"), filepath.Join(dir, "b.csv"), filepath.Join(dir, "b.svg")
	day := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, text := range []string{sample, strings.Replace(sample, "42.469", "84.0", 1)} {
		if err := os.WriteFile(report, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run([]string{"aaaa", "bbbb"}[i], day.AddDate(0, 0, i), []string{report, table, picture}); err != nil {
			t.Fatal(err)
		}
	}
	const want = `commit,date,machine,measure,p50_ms,ratio
aaaa,2026-01-02,2 × A & B,"belljar, in process",5.00,1.00
aaaa,2026-01-02,2 × A & B,"belljar run, whole process",30.00,6.00
aaaa,2026-01-02,2 × A & B,docker run,212.35,42.47
bbbb,2026-01-03,2 × A & B,"belljar, in process",5.00,1.00
bbbb,2026-01-03,2 × A & B,"belljar run, whole process",30.00,6.00
bbbb,2026-01-03,2 × A & B,docker run,212.35,84.00
`
	if got, err := os.ReadFile(table); err != nil || string(got) != want {
		t.Errorf("%v, on record is\n%s\nwant\n%s", err, got, want)
	}
	svg, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"84×", "commit bbbb", "2026-01-03", "A &amp; B"} {
		if !bytes.Contains(svg, []byte(part)) {
			t.Errorf("the picture lacks %q", part)
		}
	}
	if n := bytes.Count(svg, []byte("<circle")); n != 3 {
		t.Errorf("the picture has %d dots of the first benchmark, want 3", n)
	}
	if own, bar := bytes.Count(svg, []byte(`class="own"`)), bytes.Count(svg, []byte(`class="bar"`)); own != 2 || bar != 1 {
		t.Errorf("%d bars are Belljar's and %d those of others, want 2 and 1", own, bar)
	}
	wellFormed(t, svg)
}

func wellFormed(t *testing.T, text []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestNothingMeasured(t *testing.T) {
	dir := t.TempDir()
	report := filepath.Join(dir, "r.json")
	if err := os.WriteFile(report, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run("aaaa", time.Now(), []string{report, filepath.Join(dir, "b.csv"), filepath.Join(dir, "b.svg")}); err == nil {
		t.Error("a report without a measurement is put on record")
	}
}

// TestReadRefuses checks that a file of another kind stays unchanged.
func TestReadRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.csv")
	for _, text := range []string{"a,b\n", "", strings.Join(columns(), ",") + "\nc,d,m,x,fast,2\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if rows, err := read(path); err == nil {
			t.Errorf("%q is read as %v", text, rows)
		}
	}
}

func TestPlace(t *testing.T) {
	if place(0.001) != left || place(1e9) != width-right {
		t.Error("a ratio beyond the axis leaves the picture")
	}
	if a, b, c := place(1), place(10), place(100); b-a < c-b-0.01 || b-a > c-b+0.01 {
		t.Errorf("ten times is %g and %g wide", b-a, c-b)
	}
}
