package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/belljar/belljar/internal/notice"
)

// table prints rows under a header, in columns.
func (c *console) table(header string, rows [][]string) error {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(strings.Fields(header), "\t"))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			if cells[i] = notice.OneLine(cell); cells[i] == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(c.stdout, b.String())
	return err
}

// facts prints names and values, one pair a line.
func (c *console) facts(pairs [][2]string) error {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, p := range pairs {
		if p[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", p[0], notice.OneLine(p[1]))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(c.stdout, b.String())
	return err
}

// aside prints a note for people: where stdout is a pipe nobody reads it.
func (c *console) aside(format string, args ...any) {
	if isTerminal(c.stdout) {
		c.Note(format, args...)
	}
}

// plural is a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// rough is a time span as people say it, in its largest unit.
func rough(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// bytesOf is a size as people say it.
func bytesOf(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, units := float64(n), []string{"KiB", "MiB", "GiB", "TiB"}
	for _, unit := range units {
		v /= 1024
		if v < 1024 || unit == "TiB" {
			return fmt.Sprintf("%.1f %s", v, unit)
		}
	}
	return ""
}
