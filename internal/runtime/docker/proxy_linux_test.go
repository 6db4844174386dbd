package docker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/docker"
	"github.com/belljar/belljar/test/dockerd"
)

// between is somebody between a runtime and a real engine, who changes what is asked for, or answers himself.
type between struct {
	forward http.Handler

	mu     sync.Mutex
	change func(create map[string]any)                                    // of a request for a sandbox's container
	answer func(w http.ResponseWriter, path string, r *http.Request) bool // true if it did
	asked  map[string]any                                                 // the last request for one, before the change
}

// interpose puts somebody before an engine. The returned address is his.
func interpose(t testing.TB, e *dockerd.Engine) (*between, string) {
	t.Helper()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "docker"})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", e.Socket())
	}}
	proxy.Transport, proxy.FlushInterval = transport, -1
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	b := &between{forward: proxy}
	server := httptest.NewServer(b)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	return b, "tcp://" + server.Listener.Addr().String()
}

func (b *between) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	change, answer := b.change, b.answer
	b.mu.Unlock()
	path := version.ReplaceAllString(r.URL.Path, "")
	if answer != nil && answer(w, path, r) {
		return
	}
	if path == "/containers/create" && !strings.HasPrefix(r.URL.Query().Get("name"), "belljar-fill-") {
		text, err := io.ReadAll(r.Body)
		body := map[string]any{}
		if err == nil {
			d := json.NewDecoder(bytes.NewReader(text))
			d.UseNumber()
			err = d.Decode(&body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		b.mu.Lock()
		b.asked = body
		b.mu.Unlock()
		if change != nil {
			change(body)
			text, _ = json.Marshal(body)
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	}
	b.forward.ServeHTTP(w, r)
}

func (b *between) set(change func(map[string]any), answer func(http.ResponseWriter, string, *http.Request) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.change, b.answer = change, answer
}

// leaves are the places of a request where something is said, as paths.
func leaves(v any, at []string) (list [][]string) {
	at = at[:len(at):len(at)]
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			list = append(list, leaves(x, append(at, name))...)
		}
		return list
	case nil, string, json.Number:
		if v == nil || v == "" || v == json.Number("0") {
			return nil // it says nothing
		}
	case bool:
		if !v && at[len(at)-1] != "Init" {
			return nil
		}
	case []any:
		if len(v) == 0 {
			return nil
		}
	}
	return [][]string{at}
}

func without(v map[string]any, at []string) {
	for _, name := range at[:len(at)-1] {
		v = v[name].(map[string]any)
	}
	delete(v, at[len(at)-1])
}

// Whatever of a request does not reach an engine, the sandbox is refused for want of it, and nothing is left.
func TestDroppedFields(t *testing.T) {
	t.Parallel()
	engine := dockerd.Start(t)
	proxy, address := interpose(t, engine)
	r := open(t, docker.Options{Host: address, Installation: name()})
	image := engine.Busybox(t)
	if err := create(t, r, detached(spec(image))).Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	// An engine does the same without having been told, which is looked at, or they are only for its eyes.
	harmless := []string{
		"AttachStderr", "AttachStdin", "AttachStdout", "HostConfig.ConsoleSize", "HostConfig.IpcMode", "HostConfig.ReadonlyPaths",
		"HostConfig.RestartPolicy.Name", "HostConfig.ShmSize",
	}
	places := leaves(proxy.asked, nil)
	if len(places) < 35 {
		t.Fatalf("only %d: %v", len(places), places)
	}
	for _, at := range places {
		where := strings.Join(at, ".")
		proxy.set(func(create map[string]any) { without(create, at) }, nil)
		box, err := r.Create(t.Context(), detached(spec(image)))
		if err == nil {
			err = box.Destroy(t.Context())
			if err != nil || !slices.Contains(harmless, where) {
				t.Errorf("without %s there is a sandbox; its end: %v", where, err)
			}
			continue
		}
		var step *runtime.StepError
		if !errors.As(err, &step) {
			t.Errorf("without %s: %v", where, err)
		}
	}
	if ids, err := r.List(t.Context()); err != nil || len(ids) > 0 {
		t.Errorf("left: %v, %v", ids, err)
	}
}
