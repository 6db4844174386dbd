// Command record adds a report of belljar bench to the recorded benchmarks, and draws all of them:
//
//	record -commit 0123456789ab report.json docs/benchmarks.csv docs/benchmarks.svg
//
// The drawing shows only ratios. Milliseconds differ from machine to machine and from day to day; they are recorded so that a
// ratio can be judged.
package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"
)

func main() {
	commit := flag.String("commit", "", "the commit that was measured")
	flag.Parse()
	if err := run(*commit, time.Now(), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(commit string, now time.Time, args []string) error {
	if commit == "" || len(args) != 3 {
		return errors.New("usage: record -commit COMMIT REPORT CSV SVG")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	if len(r.Timings) == 0 {
		return fmt.Errorf("%s has no timings", args[0])
	}
	rows, err := read(args[1])
	if err != nil {
		return err
	}
	rows = append(rows, r.rows(commit, now)...)
	if err := write(args[1], rows); err != nil {
		return err
	}
	return os.WriteFile(args[2], draw(rows), 0o644)
}

// report is the part of a belljar bench report that is recorded.
type report struct {
	Host    map[string]string `json:"host"`
	Timings []struct {
		Name  string  `json:"name"`
		P50   float64 `json:"p50_ms"`
		Ratio float64 `json:"ratio"`
	} `json:"timings"`
}

// row is one measure of one benchmark, and one line of the file.
type row struct {
	commit, date, machine, measure string
	p50, ratio                     float64 // milliseconds, and the ratio to a Belljar run
}

func (r report) rows(commit string, now time.Time) (rows []row) {
	for _, t := range r.Timings {
		rows = append(rows, row{commit, now.UTC().Format(time.DateOnly), r.Host["machine"], t.Name, t.P50, t.Ratio})
	}
	return rows
}

func columns() []string { return []string{"commit", "date", "machine", "measure", "p50_ms", "ratio"} }

// read returns the recorded rows: none if there is no file yet.
func read(path string) (rows []row, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 || !slices.Equal(lines[0], columns()) {
		return nil, fmt.Errorf("%s does not begin with the columns %v", path, columns())
	}
	for _, line := range lines[1:] {
		r := row{commit: line[0], date: line[1], machine: line[2], measure: line[3]}
		var p50, ratio error
		r.p50, p50 = strconv.ParseFloat(line[4], 64)
		r.ratio, ratio = strconv.ParseFloat(line[5], 64)
		if err := errors.Join(p50, ratio); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func write(path string, rows []row) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	w.Write(columns())
	for _, r := range rows {
		w.Write([]string{r.commit, r.date, r.machine, r.measure, fmt.Sprintf("%.2f", r.p50), fmt.Sprintf("%.2f", r.ratio)})
	}
	w.Flush() // it keeps the first error of a Write, for Error
	return errors.Join(w.Error(), f.Close())
}
