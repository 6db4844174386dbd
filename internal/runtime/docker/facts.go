package docker

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/belljar/belljar/internal/runtime"
)

// facts are the properties that an engine reports.
type facts struct {
	system.Info
	podman bool // the engine is Podman, which has the same API but enforces less
	at     time.Time
}

// fresh is how long facts are used before they are refreshed. An engine takes tens of milliseconds to report them, since it
// runs programs to find out their versions.
const fresh = time.Minute

// ask returns the engine's facts, if it answers. It returns stale facts too, and refreshes them in the background, unless
// the engine was away since.
func (e *engine) ask(ctx context.Context) (*facts, error) {
	if e.unusable != nil {
		return nil, e.unusable
	}
	ping, err := e.ping(ctx)
	if err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) { // else only the caller has left
			e.mu.Lock()
			e.facts = nil
			e.mu.Unlock()
		}
		return nil, err
	}
	if ping.OSType != "" && ping.OSType != "linux" {
		return nil, fmt.Errorf("%w: it runs containers of %s", errForeign, ping.OSType)
	}
	e.mu.Lock()
	known := e.facts
	again := known != nil && time.Since(known.at) > fresh && !e.asking && !e.closed()
	if again {
		e.asking = true
		e.watches.Add(1)
	}
	e.mu.Unlock()
	switch {
	case known == nil:
		return e.learn(ctx)
	case again:
		go func() {
			defer e.watches.Done()
			ctx, cancel := context.WithTimeout(context.Background(), e.opts.Patience)
			defer cancel()
			if _, err := e.learn(ctx); err != nil {
				e.log.Warn("the docker engine returns no information", "error", err)
			}
			e.mu.Lock()
			e.asking = false
			e.mu.Unlock()
		}()
	}
	return known, nil
}

func (e *engine) learn(ctx context.Context) (*facts, error) {
	got, err := e.api().Info(ctx, client.InfoOptions{})
	if err != nil {
		return nil, err
	}
	version, err := e.api().ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return nil, err
	}
	f := &facts{Info: got.Info, at: time.Now()}
	for _, part := range version.Components {
		f.podman = f.podman || strings.HasPrefix(part.Name, "Podman")
	}
	e.mu.Lock()
	e.facts = f
	e.mu.Unlock()
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

// has reports whether the engine lists a security option: seccomp, apparmor, userns, rootless …
func (f *facts) has(option string) bool {
	return slices.ContainsFunc(f.SecurityOptions, func(s string) bool {
		return s == option || slices.Contains(strings.Split(s, ","), "name="+option)
	})
}

// since reports whether the engine's kernel has at least this version.
func (f *facts) since(major, minor int) bool {
	var x, y int
	_, err := fmt.Sscanf(f.KernelVersion, "%d.%d", &x, &y)
	return err == nil && (x > major || x == major && y >= minor)
}

// mapped reports whether the engine's containers have a user namespace, in which there are 65,536 ids.
func (f *facts) mapped() bool { return f.has("userns") || f.has("rootless") }

// ociRuntime returns the OCI runtime that isolates the containers if asked was requested, and whether the engine has it.
func (f *facts) ociRuntime(asked string) (name string, ok bool) {
	if asked == "" {
		return f.DefaultRuntime, true
	}
	_, ok = f.Runtimes[asked]
	return asked, ok
}

// isolation is the isolation class of an OCI runtime. The operator chooses its name, which proves nothing. If the engine
// reports the program or shim, that decides.
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
	what = strings.TrimPrefix(strings.TrimPrefix(what, "io.containerd."), "belljar-") // a runsc of Belljar's own
	switch {
	case strings.HasPrefix(what, "runsc"), strings.HasPrefix(what, "containerd-shim-runsc"):
		return runtime.IsolationUserKernel
	case strings.HasPrefix(what, "kata"), strings.HasPrefix(what, "containerd-shim-kata"):
		return runtime.IsolationMicroVM
	}
	return runtime.IsolationNamespace
}

// ownKernel reports whether sandboxes of a class have a kernel of their own, whose processes the engine's host does not see.
func ownKernel(class runtime.Isolation) bool {
	return class == runtime.IsolationUserKernel || class == runtime.IsolationMicroVM
}

// last returns the facts that the engine reported last; nil if it was away since.
func (e *engine) last() *facts {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.facts
}
