package docker

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// A caller that leaves while the engine is asked says nothing about the engine. An engine that cannot be reached is away.
func TestFactsOutlastACallerThatLeaves(t *testing.T) {
	asked := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		asked <- struct{}{}
		<-q.Context().Done()
	}))
	t.Cleanup(server.Close)
	r := connected(t, "tcp://"+server.Listener.Addr().String(), time.Minute)
	known := &facts{at: time.Now()}
	r.engine.facts = known
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-asked
		leave()
	}()
	if _, err := r.engine.ask(ctx); err == nil || r.engine.last() != known {
		t.Errorf("after a caller that has left: %v, %v", r.engine.last(), err)
	}
	server.Close()
	if _, err := r.engine.ask(t.Context()); err == nil || r.engine.last() != nil {
		t.Errorf("an engine that is away: %v, %v", r.engine.last(), err)
	}
}

// Containers of an engine with SELinux cannot read folders of this machine, whatever their permissions are, except in a kernel
// of gVisor's. A refused request has the reason.
func TestLayersWithSELinux(t *testing.T) {
	for name, c := range map[string]struct {
		host, oci, option string
		why               string // "" if there are layers
	}{
		"here":      {"unix:///run/docker.sock", "", "name=apparmor", ""},
		"elsewhere": {"tcp://engine:2375", "", "name=apparmor", "another machine"},
		"selinux":   {"unix:///run/docker.sock", "", "name=selinux", "SELinux"},
		"gvisor":    {"unix:///run/docker.sock", "runsc", "name=selinux", ""},
		"neither":   {"unix:///run/docker.sock", "", "name=rootless", ""},
	} {
		e := &engine{host: c.host, opts: Options{OCIRuntime: c.oci}}
		f := able()
		f.SecurityOptions = []string{"name=seccomp,profile=builtin", c.option}
		caps := e.capabilities(f)
		if caps.Layers != (c.why == "") || !strings.Contains(caps.NoLayers.Detail, c.why) {
			t.Errorf("%s: %v, %+v", name, caps.Layers, caps.NoLayers)
		}
		if p := caps.Protection(runtime.ProtectFilesystem); (p.Weaker != "") != (name == "neither") {
			t.Errorf("%s: %+v", name, p)
		}
		spec := runtime.Spec{ID: belljar.NewID(), Workspace: runtime.Workspace{Bytes: 1, Inodes: 1}, Root: runtime.Root{Layers: []runtime.Layer{{Name: "pip"}}}}
		var step *runtime.StepError
		switch err := e.check(spec, f); {
		case c.why == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.why != "" && (!errors.As(err, &step) || step.Step != stepMount || !strings.Contains(err.Error(), c.why) || step.Hint == ""):
			t.Errorf("%s: %v", name, err)
		}
	}
}
