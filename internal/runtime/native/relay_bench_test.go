//go:build linux

package native_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
)

// BenchmarkRelay alternates connections over the relay with connections to a program in the same sandbox: one byte each way, and a
// stream to the program. It also measures queries for a name. The host serves all of them itself.
func BenchmarkRelay(b *testing.B) {
	box, err := open(b, b.TempDir()).Create(b.Context(), spec())
	if err != nil {
		b.Fatal(err)
	}
	c := agent.New(box.Dial)
	program, err := os.ReadFile(os.Getenv(netPath))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := c.WriteFile(b.Context(), wire.FileRequest{Path: "net", Mode: 0o755, UID: 1000, GID: 1000}, bytes.NewReader(program)); err != nil {
		b.Fatal(err)
	}
	r, err := c.Relay(b.Context(), []uint16{80, 443})
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		for {
			a, err := r.Next()
			if err != nil {
				return
			}
			if a.Open == nil {
				_ = r.Answer(wire.Answer{ID: a.ID, OK: true})
				continue
			}
			go func() {
				conn, err := c.Accept(context.Background(), a.ID)
				if err != nil {
					return
				}
				defer conn.Close()
				if a.Open.Port == 80 {
					_, _ = io.Copy(conn, conn)
					return
				}
				buf := make([]byte, 256<<10)
				for err == nil {
					_, err = conn.Write(buf)
				}
			}()
		}
	}()
	defer r.Close()
	for _, kind := range []string{"echo 127.0.0.1:3000", "source 127.0.0.1:3001"} {
		p, err := c.Exec(b.Context(), command(append([]string{"/workspace/net"}, strings.Fields(kind)...)...))
		if err != nil {
			b.Fatal(err)
		}
		defer p.Close()
		ready := make(chan struct{})
		go p.Output(context.Background(), func(_ int64, _ wire.Stream, text []byte) error {
			close(ready)
			return nil
		})
		<-ready
	}
	figures := map[string][]float64{}
	measure := func(metric string, field int, args ...string) {
		p, err := c.Exec(b.Context(), command(append([]string{"/workspace/net"}, args...)...))
		if err != nil {
			b.Fatal(err)
		}
		defer p.Close()
		var out strings.Builder
		if _, err := p.Output(b.Context(), func(_ int64, _ wire.Stream, text []byte) error { out.Write(text); return nil }); err != nil {
			b.Fatal(err)
		}
		n, err := strconv.ParseFloat(strings.Fields(out.String() + " x x x x x")[field], 64)
		if err != nil {
			b.Fatalf("%q: %s", args, out.String())
		}
		figures[metric] = append(figures[metric], n)
	}
	for b.Loop() {
		measure("us/connect-direct", 1, "connects", "127.0.0.1:3000", "300")
		measure("us/connect-relay", 1, "connects", "bench.example:80", "300")
		measure("MB/s-direct", 0, "sink", "127.0.0.1:3001", "400000000")
		measure("MB/s-relay", 0, "sink", "bench.example:443", "400000000")
		measure("us/query", 1, "queries", "bench.example", "300")
	}
	for metric, list := range figures {
		b.ReportMetric(median(list), metric)
	}
}

// BenchmarkRelayUnused alternates a sandbox whose network is never used with one whose agent has no relay: until the first command has
// run.
func BenchmarkRelayUnused(b *testing.B) {
	r := open(b, b.TempDir())
	var took [2][]float64
	for b.Loop() {
		for i := range took {
			r.Unrelayed(i == 1)
			begin := time.Now()
			box, err := r.Create(b.Context(), spec())
			if err != nil {
				b.Fatal(err)
			}
			p, err := agent.New(box.Dial).Exec(b.Context(), command("/bin/true"))
			if err == nil {
				_, err = p.Output(b.Context(), func(int64, wire.Stream, []byte) error { return nil })
			}
			if err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(begin).Seconds()*1000)
			p.Close()
			if err := box.Destroy(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	for i, name := range []string{"start", "start-without-relay"} {
		b.ReportMetric(median(took[i]), "ms/"+name)
		b.ReportMetric(slices.Min(took[i]), "ms/best-"+name)
	}
}

func command(argv ...string) wire.Exec {
	return wire.Exec{ID: belljar.NewID(), Argv: argv, Env: []string{}, UID: 1000, GID: 1000, KillAll: true, TimeoutMS: time.Minute.Milliseconds()}
}
