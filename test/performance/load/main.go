//go:build linux

// Command load measures the promises of docs/specification.md that are about the server: it starts belljar serve on a
// folder of its own, loads it over loopback, and prints one table. What has a peer to be compared with is measured in
// the same run as the peer.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// promise is one measured line.
type promise struct {
	What   string `json:"what"`
	Budget string `json:"budget"`
	Is     string `json:"measured"`
}

// sheet collects what was measured.
type sheet struct {
	Promises []promise `json:"promises"`
}

func (s *sheet) put(what, budget, format string, args ...any) {
	s.Promises = append(s.Promises, promise{what, budget, fmt.Sprintf(format, args...)})
}

func main() {
	binary := flag.String("belljar", "bin/belljar", "the belljar to measure")
	seconds := flag.Int("seconds", 10, "how long throughput is measured")
	rows := flag.Int("rows", 100_000, "runs on record for the measurement of lists")
	readers := flag.Int("readers", 1000, "readers of one run")
	folder := flag.String("folder", "/var/tmp", "where the servers' data folders are made")
	asJSON := flag.Bool("json", false, "print one JSON object")
	flag.Parse()
	if err := measure(context.Background(), *binary, *folder, *seconds, *rows, *readers, *asJSON, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// measure makes every measurement on servers of its own.
func measure(ctx context.Context, binary, folder string, seconds, rows, readers int, asJSON bool, out io.Writer) (err error) {
	s := &sheet{}
	dir, err := os.MkdirTemp(folder, "belljar-load-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := start(binary, dir+"/a")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	s.put("from the start of the process to ready, on an empty folder", "300 ms", "%.0f ms", ms(server.ready))
	for _, part := range []func(context.Context, *daemon, *sheet) error{
		single,
		func(ctx context.Context, t *daemon, s *sheet) error {
			return crowd(ctx, t, s, time.Duration(seconds)*time.Second)
		},
		latency,
		stream,
		func(ctx context.Context, t *daemon, s *sheet) error { return gather(ctx, t, s, readers) },
	} {
		if err := part(ctx, server, s); err != nil {
			return err
		}
	}
	if err := threads(ctx, binary, dir+"/t", seconds, s); err != nil {
		return err
	}
	if err := history(ctx, binary, dir+"/b", rows, s); err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(out).Encode(s)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROMISE\tBUDGET\tMEASURED")
	for _, p := range s.Promises {
		fmt.Fprintf(w, "%s\t%s\t%s\n", p.What, p.Budget, p.Is)
	}
	return w.Flush()
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile is that of times, which it sorts.
func quantile(times []time.Duration, q float64) time.Duration {
	slices.Sort(times)
	return times[min(len(times)-1, int(q*float64(len(times))))]
}
