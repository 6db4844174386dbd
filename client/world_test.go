//go:build linux

package client_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/rest"
	"github.com/belljar/belljar/internal/api/stream"
	"github.com/belljar/belljar/internal/api/terminal"
	"github.com/belljar/belljar/internal/blob/spool"
	logs "github.com/belljar/belljar/internal/logbook/memory"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service"
	records "github.com/belljar/belljar/internal/store/memory"
	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/leak"
)

// forExamples starts the server of the examples on first use.
var forExamples = sync.OnceValue(func() *world {
	dir, err := os.MkdirTemp("", "belljar-client-")
	if err != nil {
		panic(err)
	}
	w, err := serve(dir, nil)
	if err != nil {
		panic(err)
	}
	w.end = func() error { return errors.Join(w.close(), os.RemoveAll(dir)) }
	return w
})

func exampleOptions() client.Options { return client.Options{URL: forExamples().url, APIKey: "alice"} }

func exampleServer() (url, key string) { return forExamples().url, "alice" }

func TestMain(m *testing.M) {
	if mode := os.Getenv(doubleVariable); mode != "" && len(os.Args) > 1 && os.Args[1] == "serve" {
		os.Exit(playBelljar(mode))
	}
	if err := build.Alone(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if program, err := os.Executable(); err == nil { // the belljar that examples start
		os.Setenv("BELLJAR_BIN", program)
		os.Setenv(doubleVariable, playServe)
	}
	code := m.Run()
	if err := errors.Join(forExamples().end(), leak.Find(limit)); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// limit is the timeout of every wait in a test.
const limit = 5 * time.Minute

// world is a server with the real APIs, the real service and the fake runtime.
type world struct {
	t   *testing.T // nil for examples
	url string

	runtime   *fake.Runtime
	service   *service.Service
	streams   *stream.Door
	terminals *terminal.Door
	server    *httptest.Server
	end       func() error // of the examples' world
}

// around is a test's middleware.
type around func(http.Handler) http.Handler

// newWorld starts a server. Its cleanup checks that no sandbox is left over.
func newWorld(t *testing.T, wrap around, change ...func(*service.Options)) *world {
	t.Helper()
	w, err := serve(t.TempDir(), wrap, change...)
	if err != nil {
		t.Fatal(err)
	}
	w.t = t
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func serve(dir string, wrap around, change ...func(*service.Options)) (*world, error) {
	w, handler, err := assemble(dir, wrap, change...)
	if err != nil {
		return nil, err
	}
	w.server = httptest.NewServer(handler)
	w.url = w.server.URL
	return w, nil
}

// assemble creates everything but the listener.
func assemble(dir string, wrap around, change ...func(*service.Options)) (w *world, handler http.Handler, err error) {
	w = &world{runtime: fake.New(fake.Options{Dir: dir, Enforces: []string{"memory"}})}
	opts := service.Options{
		Runtimes: []runtime.Runtime{w.runtime}, Store: records.New(), Logs: logs.New(), Blobs: &spool.Store{Dir: dir},
		Limits: belljar.Limits{NProc: 4096, StartupTimeoutSec: 300, TimeoutSec: 300, GraceSec: 0.2}, Require: []string{}, TempDir: dir,
	}
	for _, f := range change {
		f(&opts)
	}
	if w.service, err = service.New(opts); err != nil {
		return nil, nil, err
	}
	auth := keys{"alice": {ID: "alice", Role: belljar.RoleUser}, "bob": {ID: "bob", Role: belljar.RoleUser}, "root": {ID: "root", Role: belljar.RoleAdmin}}
	w.streams, err = stream.New(stream.Options{Engine: w.service, Auth: auth, Secret: bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		return nil, nil, err
	}
	w.terminals, err = terminal.New(terminal.Options{
		Engine: w.service, Auth: auth, Secret: bytes.Repeat([]byte{7}, 32), OriginAllowed: func(*http.Request) bool { return true },
	})
	if err != nil {
		return nil, nil, err
	}
	door, err := rest.New(rest.Options{Engine: w.service, Auth: auth, MaxUpload: 8 << 20, Terminal: w.terminals.New})
	if err != nil {
		return nil, nil, err
	}
	edge, err := api.NewEdge(api.EdgeOptions{})
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	door.Register(mux)
	w.streams.Register(mux)
	w.terminals.Register(mux)
	handler = edge.Wrap(rest.RequireCleanPath(mux))
	if wrap != nil {
		handler = wrap(handler)
	}
	return w, handler, nil
}

// close closes everything and reports leftover sandboxes.
func (w *world) close() error {
	err := errors.Join(w.service.Close(), w.streams.Close(), w.terminals.Close())
	w.server.Close()
	left, listed := w.runtime.List(context.Background())
	if len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("sandboxes left over: %v", left))
	}
	return errors.Join(err, listed, w.runtime.Close())
}

// keys are the server's callers by X-API-KEY.
type keys map[string]belljar.Caller

func (k keys) Authenticate(r *http.Request) (belljar.Caller, error) {
	c, ok := k[r.Header.Get("X-API-KEY")]
	if !ok {
		return c, &belljar.Error{Code: belljar.CodeUnauthorized, Message: "no valid key"}
	}
	return c, nil
}

// client returns a client for alice.
func (w *world) client(change ...func(*client.Options)) *client.Client {
	w.t.Helper()
	return open(w.t, w.url, change...)
}

func open(t *testing.T, url string, change ...func(*client.Options)) *client.Client {
	t.Helper()
	opts := client.Options{URL: url, APIKey: "alice", Patience: limit}
	for _, f := range change {
		f(&opts)
	}
	c, err := client.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func as(key string) func(*client.Options) { return func(o *client.Options) { o.APIKey = key } }

func patience(d time.Duration) func(*client.Options) {
	return func(o *client.Options) { o.Patience = d }
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// shell returns a request for a shell script.
func shell(script string) belljar.RunRequest {
	return belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: "host", Command: []string{"/bin/sh", "-c", script},
	}}
}

// finish runs a request and returns the run and its output.
func finish(t *testing.T, c belljar.Service, req belljar.RunRequest) (belljar.Run, belljar.Output) {
	t.Helper()
	run, out, err := tryFinish(t, c, req)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	return run, out
}

func tryFinish(t *testing.T, c belljar.Service, req belljar.RunRequest) (belljar.Run, belljar.Output, error) {
	t.Helper()
	run, err := c.Runs().Start(within(t), req)
	if err != nil {
		return run, belljar.Output{}, err
	}
	return belljar.Collect(within(t), c.Runs(), run.ID)
}

// ended waits for a run's end.
func ended(t *testing.T, c belljar.Service, id string) belljar.Run {
	t.Helper()
	run, _, err := belljar.Collect(within(t), c.Runs(), id)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// want checks an error's type and code.
func want(t *testing.T, err error, code belljar.Code) *belljar.Error {
	t.Helper()
	e, ok := err.(*belljar.Error)
	if !ok {
		t.Fatalf("%T %v, want a belljar.Error %s", err, err, code)
	}
	if e.Code != code {
		t.Fatalf("%s: %v, want %s", e.Code, e, code)
	}
	return e
}

// endOfLog returns the error of a log without frames; nil if there is none.
func endOfLog(t *testing.T, service belljar.Service, id string) (end error) {
	t.Helper()
	for f, err := range service.Runs().Frames(within(t), id, 1) {
		if err == nil || end != nil {
			t.Errorf("%+v, %v after %v", f, err, end)
		}
		end = err
	}
	return end
}

// archive returns a tar stream of files, by name.
func archive(t *testing.T, files map[string]string) io.Reader {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(files[name]))}
		if target, ok := strings.CutPrefix(files[name], "-> "); ok {
			h = &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, files[name]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &buf
}
