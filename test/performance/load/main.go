//go:build linux

// Command load measures the promises of docs/specification.md that are about the server: it starts belljar serve on a
// folder of its own, loads it over loopback, and prints one table. It measures an operation
// and its peer in the same run.
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
	"strings"
	"text/tabwriter"
	"time"
)

// promise is one line of the table.
type promise struct {
	What   string `json:"what"`
	Budget string `json:"budget"`
	Is     string `json:"measured"`
}

// sheet collects the results.
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
	parts := flag.String("parts", "", "measure these only: runs, streams, sessions, snapshots, threads, networks, packages, lists, runtimes; all if empty")
	dockerImage := flag.String("docker-image", "", "an image of the engine at DOCKER_HOST, with /bin/true and busybox, to measure the docker runtime with")
	flag.Parse()
	if role := os.Getenv(relayRole); role != "" {
		fmt.Fprintln(os.Stderr, "relay:", beRelay(role))
		os.Exit(1)
	}
	if err := measure(context.Background(), *binary, *folder, *seconds, *rows, *readers, *parts, *dockerImage, *asJSON, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// measure makes every measurement, on separate servers.
func measure(ctx context.Context, binary, folder string, seconds, rows, readers int, parts, dockerImage string, asJSON bool, out io.Writer) (err error) {
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
	length := time.Duration(seconds) * time.Second
	wanted := func(name string) bool { return parts == "" || slices.Contains(strings.Split(parts, ","), name) }
	for _, part := range []struct {
		name string
		do   func() error
	}{
		{"runs", func() error { return single(ctx, server, s) }},
		{"runs", func() error { return crowd(ctx, server, s, length) }},
		{"streams", func() error { return latency(ctx, server, s) }},
		{"streams", func() error { return stream(ctx, server, s) }},
		{"streams", func() error { return gather(ctx, server, s, readers) }},
		{"sessions", func() error { return sessions(ctx, server, s, length) }},
		{"snapshots", func() error { return snapshots(ctx, server, s) }},
		{"threads", func() error { return threads(ctx, binary, dir+"/t", seconds, s) }},
		{"networks", func() error { return networks(ctx, binary, dir+"/n", s) }},
		{"runtimes", func() error { return runtimes(ctx, binary, dir, dockerImage, s) }},
		{"packages", func() error { return packages(ctx, binary, dir+"/p", s) }},
		{"lists", func() error { return history(ctx, binary, dir+"/b", rows, s) }},
	} {
		if !wanted(part.name) {
			continue
		}
		if err := part.do(); err != nil {
			return err
		}
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

// quantile returns the quantile of times, which it sorts.
func quantile(times []time.Duration, q float64) time.Duration {
	slices.Sort(times)
	return times[min(len(times)-1, int(q*float64(len(times))))]
}
