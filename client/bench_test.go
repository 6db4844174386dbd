//go:build linux

package client_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
)

// BenchmarkLocal starts the belljar of BELLJAR_BENCH, executes a program and ends it.
func BenchmarkLocal(b *testing.B) {
	program := os.Getenv("BELLJAR_BENCH")
	if program == "" {
		b.Skip("BELLJAR_BENCH names the belljar to measure")
	}
	for b.Loop() {
		c, err := client.Local(b.Context(), client.LocalOptions{Program: program})
		if err != nil {
			b.Fatal(err)
		}
		run, err := c.Runs().Start(b.Context(), shell("true"))
		if err == nil {
			_, _, err = belljar.Collect(b.Context(), c.Runs(), run.ID)
		}
		b.StopTimer()
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkGet gets a run with the client, and with net/http alone for comparison.
func BenchmarkGet(b *testing.B) {
	w, err := serve(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer w.close()
	c, err := client.New(client.Options{URL: w.url, APIKey: "alice"})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	run, err := c.Runs().Start(context.Background(), shell("true"))
	if err == nil {
		run, _, err = belljar.Collect(context.Background(), c.Runs(), run.ID)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Run("client", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.Runs().Get(b.Context(), run.ID); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("raw", func(b *testing.B) {
		for b.Loop() {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, w.url+"/api/v1/sandbox/runs/"+run.ID, nil)
			if err != nil {
				b.Fatal(err)
			}
			req.Header.Set("X-API-KEY", "alice")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				b.Fatal(err)
			}
			var got belljar.Run
			err = json.NewDecoder(resp.Body).Decode(&got)
			resp.Body.Close()
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	http.DefaultClient.CloseIdleConnections()
}
