//go:build linux

package daemon

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/internal/api"
)

// benchSession is a session of a server that is called over HTTP.
func benchSession(b *testing.B) (c *client.Client, url, id string) {
	b.Helper()
	d := benchServer(b, map[string]string{"api_key": benchKey})
	s := httptest.NewServer(d.handler)
	b.Cleanup(s.Close)
	c, err := client.New(client.Options{URL: s.URL, APIKey: benchKey})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	x, err := c.Sessions().Create(b.Context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: "host", LifetimeSec: 3600,
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Sessions().Delete(context.Background(), x.ID) })
	return c, s.URL, x.ID
}

const benchKey = "the-key-of-the-benchmark"

// BenchmarkContext executes print(1) in a living Python context, in one request over HTTP, and reports the median.
func BenchmarkContext(b *testing.B) {
	_, url, id := benchSession(b)
	url += api.Prefix + "/sessions/" + id + "/contexts/python/execute?wait=60s"
	print1 := func() time.Duration {
		begin := time.Now()
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(`{"code":"print(1)","language":"python"}`))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("X-API-Key", benchKey)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if took := time.Since(begin); err == nil && strings.Contains(string(body), `"stdout":"1\n"`) {
			return took
		}
		b.Fatalf("%s, %v", body, err)
		return 0
	}
	print1()
	var times []time.Duration
	for b.Loop() {
		times = append(times, print1())
	}
	median(b, times, "ms/print")
}

// BenchmarkWake wakes a hibernated session by reading a file over HTTP: with few files, which are copied, and with 10 MB in 500 files, which
// are unpacked. It reports the medians.
func BenchmarkWake(b *testing.B) {
	for name, script := range map[string]string{
		"few":  "echo text >f1",
		"many": "for i in $(seq 500); do head -c 21000 /dev/urandom >f$i; done",
	} {
		b.Run(name, func(b *testing.B) {
			c, _, id := benchSession(b)
			run, _, err := belljar.Finish(b.Context(), c.Runs(), belljar.RunRequest{RunSpec: belljar.RunSpec{
				SpecVersion: belljar.SpecVersion, SessionID: id, Command: []string{"sh", "-c", script},
			}}, time.Minute)
			if err != nil || run.Phase != belljar.PhaseCompleted {
				b.Fatalf("%+v, %v", run, err)
			}
			var times []time.Duration
			for b.Loop() {
				b.StopTimer()
				if _, err := c.Sessions().Hibernate(b.Context(), id, belljar.HibernateSpec{}); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				begin := time.Now()
				if _, err := c.Files().Stat(b.Context(), id, "f1"); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(begin))
			}
			median(b, times, "ms/wake")
		})
	}
}
