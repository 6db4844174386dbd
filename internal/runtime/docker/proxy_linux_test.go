package docker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
	host "github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/docker"
	"github.com/belljar/belljar/test/dockerd"
	"github.com/belljar/belljar/test/tier"
)

// between is a proxy between a runtime and a real engine that changes requests or answers them itself.
type between struct {
	forward http.Handler

	mu     sync.Mutex
	change func(create map[string]any)                                    // changes a request for a sandbox's container
	answer func(w http.ResponseWriter, path string, r *http.Request) bool // reports whether it answered the request
	asked  map[string]any                                                 // the last request for a container, before the change
}

// interpose starts a proxy in front of an engine and returns its address.
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

// leaves returns the paths of all set values in a request.
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
			return nil // not set
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

// If any field of a request does not reach the engine, the sandbox is refused, and nothing is left.
func TestDroppedFields(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	engine := dockerd.Start(t)
	proxy, address := interpose(t, engine)
	r := open(t, docker.Options{Host: address, Installation: name()})
	image := engine.Busybox(t)
	if err := create(t, r, detached(spec(image))).Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The engine has the same setting by default, which is checked, or the field has no effect on the sandbox.
	harmless := []string{
		"AttachStderr", "AttachStdin", "AttachStdout", "HostConfig.ConsoleSize", "HostConfig.IpcMode", "HostConfig.ReadonlyPaths",
		"HostConfig.RestartPolicy.Name", "HostConfig.Runtime", "HostConfig.ShmSize", "HostConfig.Sysctls.net.ipv4.ip_unprivileged_port_start",
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

// If the engine executes a request but its answer is wrong or missing, Create fails, and nothing is left on the engine.
func TestOddAnswers(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	engine := dockerd.Start(t)
	proxy, address := interpose(t, engine)
	r := open(t, docker.Options{Host: address, Installation: name()})
	image := engine.Busybox(t)
	say := func(code int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			io.WriteString(w, text)
		}
	}
	odd := map[string]http.HandlerFunc{
		"refused": say(http.StatusForbidden, `{"message":"no"}`), "broken": say(http.StatusInternalServerError, `{"message":"broken"}`),
		"lost": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, `{"Id":"`)
		},
		"empty": say(http.StatusOK, "{}"), "null": say(http.StatusOK, "null"), "page": say(http.StatusOK, "<html>"),
	}
	for call, answers := range map[string][]string{
		"/containers/create": {"refused", "broken", "lost", "cut", "empty", "null", "page"},
		"/json":              {"refused", "lost", "cut", "empty", "page"},
		"/attach":            {"refused", "broken", "lost", "empty"},
		"/start":             {"refused", "broken", "lost"},
	} {
		for _, name := range answers {
			proxy.set(nil, func(w http.ResponseWriter, path string, q *http.Request) bool {
				if !strings.HasPrefix(path, "/containers/") || !strings.HasSuffix(path, call) {
					return false
				}
				if call != "/attach" { // an attached connection would be leaked
					proxy.forward.ServeHTTP(httptest.NewRecorder(), q)
				}
				odd[name](w, q)
				return true
			})
			_, err := r.Create(within(t, patience), detached(spec(image)))
			proxy.set(nil, nil)
			var step *runtime.StepError
			if !errors.As(err, &step) || (name == "refused" || name == "lost") && step.Hint == "" {
				t.Errorf("%s, %s: %v", call, name, err)
			}
			if ids, err := r.List(within(t, patience)); err != nil || len(ids) > 0 {
				t.Fatalf("%s, %s leaves %v, %v", call, name, ids, err)
			}
		}
	}
	if out, _ := run(t, create(t, r, spec(image)), "echo well"); out != "well\n" {
		t.Errorf("%q", out)
	}
}

// Create gives up on an engine that makes a container and never answers. The container can be removed by its name.
func TestCreateUnanswered(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	engine := dockerd.Start(t)
	proxy, address := interpose(t, engine)
	installation, s := name(), spec(engine.Busybox(t))
	patient := open(t, docker.Options{Host: address, Installation: installation})
	if err := create(t, patient, spec(s.Root.Name)).Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	reached, made := make(chan struct{}, 10), make(chan struct{}, 10)
	proxy.set(nil, func(_ http.ResponseWriter, path string, q *http.Request) bool {
		if path != "/containers/create" {
			return false
		}
		reached <- struct{}{}
		// The engine finishes what it has begun, even if the client disconnects, and the test must know when.
		proxy.forward.ServeHTTP(httptest.NewRecorder(), q.WithContext(context.WithoutCancel(q.Context())))
		made <- struct{}{}
		<-q.Context().Done()
		return true
	})
	// Retry with longer patience until the request reaches the engine before Create gives up.
	for hurry, asked := time.Second, false; !asked && hurry < patience; hurry *= 2 {
		s.ID = belljar.NewID()
		hasty := open(t, docker.Options{Host: address, Installation: installation, Patience: hurry})
		var step *runtime.StepError
		if _, err := hasty.Create(within(t, patience), s); !errors.As(err, &step) || step.Step != "engine" || step.Hint == "" {
			t.Errorf("%v", err)
		}
		select {
		case <-reached:
			<-made
			asked = true
		default:
		}
	}
	if err := patient.Remove(within(t, patience), s.ID); err != nil {
		t.Error(err)
	}
	if ids, err := patient.List(within(t, patience)); err != nil || len(ids) > 0 {
		t.Errorf("left: %v, %v", ids, err)
	}
}

// cutting forwards an attached connection, and closes it after a number of bytes from the engine.
func cutting(e *dockerd.Engine, w http.ResponseWriter, r *http.Request, after int64) {
	to, err := net.Dial("unix", e.Socket())
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer to.Close()
	if err := r.Write(to); err != nil {
		return
	}
	from, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer from.Close()
	go func() {
		io.Copy(to, buffered)
		to.Close()
	}()
	io.CopyN(from, to, after)
}

// A program's output arrives complete and once, however often and wherever the connection to the engine breaks.
func TestConnectionCut(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	engine := dockerd.Start(t)
	proxy, address := interpose(t, engine)
	r := open(t, docker.Options{Host: address, Installation: name()})
	var cuts atomic.Int32
	proxy.set(nil, func(w http.ResponseWriter, path string, q *http.Request) bool {
		if !strings.HasSuffix(path, "/attach") || cuts.Load() >= 8 {
			return false
		}
		cutting(engine, w, q, 10_000+int64(rand.IntN(300_000)))
		cuts.Add(1)
		return true
	})
	box := create(t, r, detached(spec(engine.Busybox(t))))
	p := start(t, box, "seq 1 400000; exit 5")
	var got strings.Builder
	exit, err := p.Output(within(t, patience), func(_ int64, _ wire.Stream, text []byte) error { got.Write(text); return nil })
	for errors.Is(err, host.ErrDisconnected) {
		var next *host.Process
		if next, err = host.New(box.Dial).Attach(within(t, patience), p.Started().ID, p.Position()); err != nil {
			if errors.Is(err, host.ErrDisconnected) { // closed in the middle of the output
				continue
			}
			t.Fatal(err)
		}
		t.Cleanup(func() { next.Close() })
		p = next
		exit, err = p.Output(within(t, patience), func(_ int64, _ wire.Stream, text []byte) error { got.Write(text); return nil })
	}
	var want strings.Builder
	for i := range 400_000 {
		fmt.Fprintln(&want, i+1)
	}
	if err != nil || exit.Code != 5 || got.String() != want.String() {
		t.Errorf("%v, %+v, %d bytes of %d after %d cuts", err, exit, got.Len(), want.Len(), cuts.Load())
	}
	if cuts.Load() < 3 {
		t.Errorf("only %d cuts", cuts.Load())
	}
}
