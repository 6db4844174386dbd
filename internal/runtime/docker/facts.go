package docker

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/belljar/belljar/internal/runtime"
)

// facts are what an engine says of itself.
type facts struct {
	system.Info
	podman bool // it is Podman, which speaks the same language and means less by it
	at     time.Time
}

// fresh is for how long facts are taken for true without another look. An engine takes tens of milliseconds to tell them,
// since it runs programs to find out their versions.
const fresh = time.Minute

// ask returns what the engine says of itself, if it answers. Facts that are not fresh any more are returned all the
// same, and looked at again behind the caller's back; those of an engine that was away in between are not.
func (r *Runtime) ask(ctx context.Context) (*facts, error) {
	if r.astray != nil {
		return nil, r.astray
	}
	ping, err := r.api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if err != nil {
		r.mu.Lock()
		r.facts = nil
		r.mu.Unlock()
		return nil, err
	}
	if ping.OSType != "" && ping.OSType != "linux" {
		return nil, fmt.Errorf("%w: it runs containers of %s", errForeign, ping.OSType)
	}
	r.mu.Lock()
	known := r.facts
	again := known != nil && time.Since(known.at) > fresh && !r.asking && !r.closed()
	if again {
		r.asking = true
		r.watches.Add(1)
	}
	r.mu.Unlock()
	switch {
	case known == nil:
		return r.learn(ctx)
	case again:
		go func() {
			defer r.watches.Done()
			ctx, cancel := context.WithTimeout(context.Background(), r.opts.Patience)
			defer cancel()
			if _, err := r.learn(ctx); err != nil {
				r.log.Warn("the docker engine returns no information", "error", err)
			}
			r.mu.Lock()
			r.asking = false
			r.mu.Unlock()
		}()
	}
	return known, nil
}

func (r *Runtime) learn(ctx context.Context) (*facts, error) {
	got, err := r.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return nil, err
	}
	version, err := r.api.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return nil, err
	}
	f := &facts{Info: got.Info, at: time.Now()}
	for _, part := range version.Components {
		f.podman = f.podman || strings.HasPrefix(part.Name, "Podman")
	}
	r.mu.Lock()
	r.facts = f
	r.mu.Unlock()
	return f, nil
}

// arch is the engine's architecture by Go's name.
func (f *facts) arch() string {
	switch f.Architecture {
	case "x86_64", "amd64":
		return "amd64"
	case "aarch64", "arm64":
		return "arm64"
	}
	return f.Architecture
}

// has tells whether the engine lists a security option: seccomp, apparmor, userns, rootless …
func (f *facts) has(option string) bool {
	return slices.ContainsFunc(f.SecurityOptions, func(s string) bool {
		return s == option || slices.Contains(strings.Split(s, ","), "name="+option)
	})
}

// mapped tells whether the engine's containers have a user namespace, in which there are 65,536 ids.
func (f *facts) mapped() bool { return f.has("userns") || f.has("rootless") }

// ociRuntime is what isolates the containers of a runtime that asked for the one named, and whether the engine has it.
func (f *facts) ociRuntime(asked string) (name string, ok bool) {
	if asked == "" {
		return f.DefaultRuntime, true
	}
	_, ok = f.Runtimes[asked]
	return asked, ok
}

// isolation is the class of wall that an OCI runtime builds. Its name is the operator's choice, and says nothing alone:
// where the engine tells what program or shim stands behind it, that counts.
func (f *facts) isolation(name string) runtime.Isolation {
	what := name
	if known, ok := f.Runtimes[name]; ok {
		switch {
		case known.Path != "":
			what = path.Base(known.Path)
		case known.Type != "":
			what = known.Type
		}
	}
	what = strings.TrimPrefix(strings.TrimPrefix(what, "io.containerd."), "belljar-") // the runsc of ours is one
	switch {
	case strings.HasPrefix(what, "runsc"), strings.HasPrefix(what, "containerd-shim-runsc"):
		return runtime.IsolationUserKernel
	case strings.HasPrefix(what, "kata"), strings.HasPrefix(what, "containerd-shim-kata"):
		return runtime.IsolationMicroVM
	}
	return runtime.IsolationNamespace
}
