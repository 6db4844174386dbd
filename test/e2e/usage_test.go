//go:build linux

package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
)

// TestUsage watches a program that computes and holds memory, until it ends.
func TestUsage(t *testing.T) {
	s := serve(t, t.TempDir(), "--set", "end_sessions=true")
	c, err := client.New(client.Options{URL: s.URL, APIKey: s.Key})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	session, err := c.Sessions().Create(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.0", BaseImage: "host"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]belljar.RunSpec{"run": {BaseImage: "host"}, "session": {SessionID: session.ID}} {
		spec.SpecVersion, spec.Command, spec.TimeoutSec = "1.0", []string{"sh", "-c", "while :; do :; done"}, 300
		run, err := c.Runs().Start(ctx, belljar.RunRequest{RunSpec: spec})
		if err != nil {
			t.Fatal(err)
		}
		path, seen, canceled := api+"/runs/"+run.ID+"/usage", 0, false
		for sample, err := range c.Usage().Run(ctx, run.ID) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if sample.Scope != name || sample.At.IsZero() {
				t.Errorf("%s: %+v", name, sample)
			}
			if seen++; canceled || sample.CPUPercent == nil || *sample.CPUPercent == 0 {
				continue // the first sample, one before the program computes, or one while it ends
			}
			if *sample.CPUTimeMS <= 0 || *sample.MemoryBytes <= 0 || sample.MemoryLimitBytes == nil || *sample.MemoryLimitBytes != 512<<20 || sample.Sources["cpu"] == "" {
				t.Errorf("%s: %+v", name, sample)
			}
			status, one := s.ask(http.MethodGet, path, nil)
			if status != http.StatusOK || one["scope"] != name || one["cpu_time_ms"] == nil {
				t.Errorf("%s, one sample: %d %v", name, status, one)
			}
			if err := c.Runs().Cancel(ctx, run.ID); err != nil {
				t.Fatal(err)
			}
			canceled = true
		}
		if seen < 2 {
			t.Errorf("%s: %d samples", name, seen)
		}
		// A run that has ended has no samples.
		for sample, err := range c.Usage().Run(ctx, run.ID) {
			t.Errorf("%s has ended: %+v, %v", name, sample, err)
		}
		if status, answer := s.ask(http.MethodGet, path, nil); status != http.StatusConflict {
			t.Errorf("%s has ended: %d %v", name, status, answer)
		}
	}
	// A session is watched with a ticket, until it is closed. Watching does not keep it alive.
	path := api + "/sessions/" + session.ID + "/usage"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+s.ticket(path, path), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := c.Sessions().Delete(ctx, session.ID); err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.Header.Get("Content-Type") != "text/event-stream" || !strings.HasPrefix(string(body), "retry: 1000\n\nevent: usage\ndata: {\"at\":") || !strings.HasSuffix(string(body), "event: end\ndata: {}\n\n") {
		t.Errorf("%v: %s", err, body)
	}
	for _, id := range []string{"x", belljar.NewID()} {
		for _, of := range []string{"/runs/", "/sessions/"} {
			if status, answer := s.ask(http.MethodGet, api+of+id+"/usage", nil, "Accept: text/event-stream"); status != http.StatusNotFound {
				t.Errorf("%s%s: %d %v", of, id, status, answer)
			}
		}
	}
}
