//go:build linux

package wsclient

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
)

// BenchmarkRoundTrip measures the round trip of a line from a WebSocket to a program and back. The way from the
// program's write to the client's frame is half of it.
func BenchmarkRoundTrip(b *testing.B) {
	s := newServer(b)
	run := s.start(`while read x; do echo "$x"; done`, interactive, func(r *belljar.RunSpec) { r.StdinBytesPerSec = 1 << 24 })
	conn, _, err := websocket.Dial(b.Context(), s.stream(run.ID), &websocket.DialOptions{HTTPHeader: http.Header{"X-Api-Key": {"secret"}}})
	if err != nil {
		b.Fatal(err)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 20)
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		if err := conn.Write(b.Context(), websocket.MessageText, []byte(`{"type":"stdin","encoding":"utf8","data":"x\n"}`)); err != nil {
			b.Fatal(err)
		}
		for {
			_, raw, err := conn.Read(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if strings.HasPrefix(string(raw), `{"type":"stdout"`) {
				break
			}
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkOutput measures one program's output all the way to a client.
func BenchmarkOutput(b *testing.B) {
	s := newServer(b)
	const size = 64 << 20
	b.SetBytes(size)
	for b.Loop() {
		run := s.start(`yes 'the quick brown fox jumps over the lazy dog 0123456789' | head -c 67108864`,
			func(r *belljar.RunSpec) { r.Resources.LogBytes = size })
		conn, _, err := websocket.Dial(b.Context(), s.stream(run.ID), &websocket.DialOptions{HTTPHeader: http.Header{"X-Api-Key": {"secret"}}})
		if err != nil {
			b.Fatal(err)
		}
		conn.SetReadLimit(1 << 20)
		got := 0
		for {
			_, raw, err := conn.Read(b.Context())
			if err != nil {
				break
			}
			got += len(raw)
		}
		conn.CloseNow()
		if got < size {
			b.Fatalf("%d bytes of messages", got)
		}
	}
}
