//go:build linux

package mcp

import (
	"testing"
	"time"

	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/test/npm"
	"github.com/belljar/belljar/test/served"
)

func TestMain(m *testing.M) { npm.Main(m, "@modelcontextprotocol/sdk") }

// Stdio works without a server.
func TestStdio(t *testing.T) {
	p := npm.Ready(t)
	p.Check(t, nil, "stdio", p.Belljar)
}

// settings make sessions end with their server, so that it stops immediately, and disable the pool.
var settings = []string{"end_sessions=true", "pool_size=0"}

// With a server the sandboxes are the server's, and none is left there.
func TestStdioWithServer(t *testing.T) {
	p := npm.Ready(t)
	s := served.Start(t, p.Belljar, settings...)
	p.Check(t, []string{"BELLJAR_API_KEY=" + s.Key}, "stdio", p.Belljar, "--server", s.URL)
	gone(t, s)
}

func TestHTTP(t *testing.T) {
	p := npm.Ready(t)
	s := served.Start(t, p.Belljar, settings...)
	p.Check(t, nil, "http", s.URL+"/mcp", s.Key)
}

// gone waits until a server has no sessions and no sandboxes left.
func gone(t *testing.T, s *served.Server) {
	t.Helper()
	c, err := client.New(client.Options{URL: s.URL, APIKey: s.Key})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for end := time.Now().Add(npm.Patience); ; time.Sleep(20 * time.Millisecond) { // polls the condition
		me, err := c.Node().Me(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if me.Used.Sessions == 0 && me.Used.ConcurrentRuns == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the server has left: %+v", me.Used)
		}
	}
}
