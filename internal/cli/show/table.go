package show

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/belljar/belljar/internal/notice"
)

// Table prints rows under a header, in columns.
func Table(w io.Writer, header string, rows [][]string) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(strings.Fields(header), "\t"))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			if cells[i] = notice.OneLine(cell); cells[i] == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// List prints a list: as one JSON array, or as a table with a row for each item.
func List[T any](w io.Writer, json bool, list []T, header string, row func(T) []string) error {
	if json {
		return JSON(w, append([]T{}, list...))
	}
	rows := [][]string{}
	for _, item := range list {
		rows = append(rows, row(item))
	}
	return Table(w, header, rows)
}

// Pairs prints names and values, one pair on each line.
func Pairs(w io.Writer, pairs [][2]string) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, p := range pairs {
		if p[1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", p[0], notice.OneLine(p[1]))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Lines prints one item on each line.
func Lines(w io.Writer, all []string) error {
	for _, line := range all {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// Plural formats a count of things.
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// RoughDuration formats a duration for people, in its largest unit.
func RoughDuration(d time.Duration) string {
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

// Bytes formats a size for people.
func Bytes(n int64) string {
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
