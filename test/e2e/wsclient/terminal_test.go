//go:build linux

package wsclient

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/rest"
	"github.com/belljar/belljar/internal/api/terminal"
	"github.com/belljar/belljar/internal/blob/spool"
	logs "github.com/belljar/belljar/internal/logbook/memory"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service"
	store "github.com/belljar/belljar/internal/store/memory"
)

// terminals starts the terminal door over the real service, with a session.
func terminals(t testing.TB) (url, session string) {
	t.Helper()
	rt := fake.New(fake.Options{Dir: t.TempDir()})
	s, err := service.New(service.Options{
		Runtimes: []runtime.Runtime{rt}, Store: store.New(), Logs: logs.New(), Blobs: &spool.Store{Dir: t.TempDir()},
		Limits: ample(), Require: []string{},
	})
	if err != nil {
		t.Fatal(err)
	}
	door, err := terminal.New(terminal.Options{
		Engine: s, Auth: key("secret"), Secret: bytes.Repeat([]byte("k"), 32), OriginAllowed: func(*http.Request) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := rest.New(rest.Options{Engine: s, Auth: key("secret"), Terminal: door.New})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	door.Register(mux)
	list.Register(mux)
	web := httptest.NewServer(rest.RequireCleanPath(mux))
	t.Cleanup(func() {
		for _, close := range []func() error{door.Close, s.Close, rt.Close} {
			if err := close(); err != nil {
				t.Error(err)
			}
		}
		web.Close()
	})
	made, err := s.As(service.Local()).Sessions().Create(t.Context(), belljar.SessionRequest{
		SessionSpec: belljar.SessionSpec{SpecVersion: "1.1", BaseImage: "host"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return "ws" + strings.TrimPrefix(web.URL, "http"), made.ID
}

// TestTerminal works in a terminal with an independent client.
func TestTerminal(t *testing.T) {
	url, session := terminals(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/python3", "terminal.py", url, "secret", session)
	var output, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &complaint
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, &output, &complaint)
	}
	t.Log(output.String())
}

// BenchmarkEcho measures the time from a key to its echo.
func BenchmarkEcho(b *testing.B) {
	url, session := terminals(b)
	conn, _, err := websocket.Dial(b.Context(), url+api.Prefix+"/sessions/"+session+"/terminals?command=cat",
		&websocket.DialOptions{HTTPHeader: http.Header{"X-Api-Key": {"secret"}}})
	if err != nil {
		b.Fatal(err)
	}
	defer conn.CloseNow()
	if _, _, err := conn.Read(b.Context()); err != nil { // the greeting
		b.Fatal(err)
	}
	var took []time.Duration
	pace := time.NewTicker(5 * time.Millisecond) // faster than any typist, slower than the limit
	defer pace.Stop()
	for b.Loop() {
		<-pace.C
		begun := time.Now()
		if err := conn.Write(b.Context(), websocket.MessageText, []byte(`{"type":"input","data":"x"}`)); err != nil {
			b.Fatal(err)
		}
		if _, _, err := conn.Read(b.Context()); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
