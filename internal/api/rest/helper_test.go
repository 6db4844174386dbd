package rest_test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/linetest"
	"github.com/belljar/belljar/internal/api/rest"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/test/apitest"
	"github.com/belljar/belljar/test/leak"
	"github.com/belljar/belljar/test/nest"
)

func TestMain(m *testing.M) { os.Exit(nest.Main(func() int { return leak.Main(m) })) }

const prefix = api.Prefix

// bench is a server with the door and a world that the test prepares.
type bench struct {
	t     *testing.T
	world *world
	url   string
	http  *http.Client
}

func newBench(t *testing.T, change ...func(*rest.Options, *api.EdgeOptions)) *bench {
	t.Helper()
	w, opts, edge := worldly(change...)
	b := serve(t, opts, edge)
	b.world = w
	return b
}

// onLine runs a test of the door's timeouts with a fake clock.
func onLine(t *testing.T, test func(*testing.T, *bench, *linetest.Line)) {
	t.Helper()
	w, opts, edge := worldly(func(_ *rest.Options, e *api.EdgeOptions) { e.BodyIdle = time.Second })
	linetest.Serve(t, func(t *testing.T) http.Handler { return handler(t, opts, edge) }, func(t *testing.T, l *linetest.Line) {
		client := l.Client()
		t.Cleanup(client.CloseIdleConnections)
		test(t, &bench{t: t, world: w, url: "http://line", http: client}, l)
	})
}

// worldly returns a world and the options of a door to it.
func worldly(change ...func(*rest.Options, *api.EdgeOptions)) (*world, rest.Options, api.EdgeOptions) {
	w := newWorld()
	opts := rest.Options{Engine: w, Auth: apitest.Callers(), Version: "1", PreviewURL: previewURL}
	edge := api.EdgeOptions{BodyIdle: time.Minute}
	opts.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })
	opts.Series = func() (map[string][]event.Series, error) {
		return map[string][]event.Series{"sandbox_runs": {{Labels: map[string]string{"phase": "queued"}, Value: 2}}}, nil
	}
	for _, f := range change {
		f(&opts, &edge)
	}
	return w, opts, edge
}

// serve starts a server with the door, other doors and the edge, as in production.
func serve(t *testing.T, opts rest.Options, edge api.EdgeOptions, others ...interface{ Register(*http.ServeMux) }) *bench {
	t.Helper()
	server := httptest.NewServer(handler(t, opts, edge, others...))
	t.Cleanup(server.Close)
	plain := &http.Transport{DisableCompression: true}
	t.Cleanup(plain.CloseIdleConnections)
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     http.RoundTripper(plain),
	}
	if !*update {
		client.Transport = newContract(t, plain)
	}
	return &bench{t: t, url: server.URL, http: client}
}

// handler returns the handler of such a server.
func handler(t *testing.T, opts rest.Options, edge api.EdgeOptions, others ...interface{ Register(*http.ServeMux) }) http.Handler {
	t.Helper()
	door, err := rest.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	front, err := api.NewEdge(edge)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	door.Register(mux)
	for _, other := range others {
		other.Register(mux)
	}
	return front.Wrap(rest.RequireCleanPath(mux))
}

// send sends a request as a caller; "" is anonymous.
func (b *bench) send(method, path, as string, header http.Header, body string) *http.Response {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	maps.Copy(r.Header, header)
	if as != "" {
		r.Header.Set("X-API-KEY", as)
	}
	if body != "" && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := b.http.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp
}

// get returns the body of a path, which must exist.
func (b *bench) get(path, as string) []byte {
	b.t.Helper()
	resp := b.send("GET", path, as, nil, "")
	body := read(b.t, resp)
	if resp.StatusCode != http.StatusOK {
		b.t.Fatalf("GET %s answers %d: %s", path, resp.StatusCode, body)
	}
	return body
}

func (b *bench) context() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), 5*time.Minute)
	b.t.Cleanup(cancel)
	return ctx
}

func read(t *testing.T, resp *http.Response) []byte {
	t.Helper()
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}
