//go:build linux

package security

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/belljar/belljar/test/dockerd"
)

// engine is the Docker engine of the lanes that need one, observed from outside.
type engine struct {
	*dockerd.Engine
	client http.Client
}

func newEngine(t *testing.T) *engine {
	t.Helper()
	e := &engine{Engine: dockerd.Start(t)}
	e.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", e.Socket())
	}}
	t.Cleanup(e.client.CloseIdleConnections)
	return e
}

// container is an engine's description of one.
type container struct {
	ID    string
	Names []string
	State json.RawMessage // a word in a list, an object in detail
}

// containers lists all containers, also dead ones.
func (e *engine) containers(t *testing.T) []container {
	t.Helper()
	var all []container
	e.get(t, "/containers/json?all=1", &all)
	return all
}

// pid returns the first process of a container, by the host's number; 0 if it is gone.
func (e *engine) pid(t *testing.T, id string) int {
	t.Helper()
	var detail struct{ State struct{ Pid int } }
	e.get(t, "/containers/"+id+"/json", &detail)
	return detail.State.Pid
}

func (e *engine) get(t *testing.T, path string, into any) {
	t.Helper()
	// Cleanups call this, too, after the test's own context has ended.
	ctx, cancel := context.WithTimeout(context.Background(), runTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := e.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusNotFound {
		return
	}
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// left returns the containers with a run's name.
func (e *engine) left(t *testing.T, run string) []string {
	t.Helper()
	var names []string
	for _, c := range e.containers(t) {
		if name := strings.Join(c.Names, " "); strings.Contains(name, run) {
			names = append(names, "container "+name)
		}
	}
	return names
}
