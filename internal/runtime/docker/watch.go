package docker

import (
	"cmp"
	"context"
	"fmt"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// watch keeps a sandbox connected, reconnects when the connection is lost, and detects its end.
func (r *Runtime) watch(s *sandbox, host *wire.MuxHost) {
	s.Connect(host)
	r.remember(s)
	s.meter.ready(s)
	r.engine.watches.Add(1)
	go func() {
		defer r.engine.watches.Done()
		s.live(host)
	}()
}

// live follows a sandbox until it ends or the runtime is closed.
func (s *sandbox) live(host *wire.MuxHost) {
	for {
		closing := false
		select {
		case <-host.Done():
		case <-s.removed: // its connection may outlast it, if a proxy in front of the engine has lost it
		case <-s.rt.engine.closing:
			closing = true
		}
		host.Close()
		s.Connect(nil)
		if closing && s.detached {
			s.Leave()
			return
		}
		next, exit := s.resume()
		switch {
		case exit != nil:
			s.End(*exit)
			return
		case next == nil:
			s.Leave()
			return
		}
		host = next
		s.Connect(host)
	}
}

// away is how long an engine may take for one answer before the request is repeated.
const away = 10 * time.Second

// settle is how long a container whose connection has ended is given to end as well.
const settle = 250 * time.Millisecond

// resume finds out why a connection was lost. It returns the reason if the sandbox has ended, or else a new connection. It
// returns neither if the runtime is closed meanwhile. It queries an engine that does not answer until the patience is over.
func (s *sandbox) resume() (*wire.MuxHost, *runtime.Exit) {
	patience := time.After(s.rt.engine.opts.Patience)
	wasAway := false
	for pause := shortest; ; pause = min(2*pause, longest) {
		ctx, cancel := context.WithTimeout(context.Background(), away)
		exit, err := s.look(ctx)
		var host *wire.MuxHost
		if exit == nil && err == nil && s.detached {
			host, err = s.rt.engine.attach(ctx, s.container, &s.stderr)
		}
		cancel()
		switch {
		case exit != nil && wasAway && exit.Reason != runtime.ExitDestroyed:
			return nil, &runtime.Exit{Reason: runtime.ExitEngineGone, Detail: "the engine was away, and the sandbox has ended: " + exit.Detail}
		case exit != nil:
			return nil, exit
		case host != nil:
			return host, nil
		}
		wasAway = wasAway || err != nil
		if cerrdefs.IsInvalidArgument(err) { // the engine may be back with another version, and refuse the client's
			ctx, cancel := context.WithTimeout(context.Background(), away)
			_, _ = s.rt.engine.ping(ctx) // the next request fails, too
			cancel()
		}
		select {
		case <-time.After(pause):
		case <-patience:
			if err == nil { // it has neither ended nor a connection: of a creator's sandbox there is only one
				return nil, &runtime.Exit{Reason: runtime.ExitEngineGone, Detail: "its connection has ended, and it has not"}
			}
			return nil, &runtime.Exit{Reason: runtime.ExitEngineGone, Detail: err.Error()}
		case <-s.rt.engine.closing:
			if err != nil || s.detached {
				return nil, nil
			}
		}
	}
}

// look returns how a sandbox has ended; nil if it lives. It gives the container a moment to end after its streams.
func (s *sandbox) look(ctx context.Context) (*runtime.Exit, error) {
	waiting, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	wait := s.rt.engine.api().ContainerWait(waiting, s.container, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-wait.Result:
	case <-wait.Error:
	}
	got, err := s.rt.engine.api().ContainerInspect(ctx, s.container, client.ContainerInspectOptions{})
	s.mu.Lock()
	destroyed := s.destroyed
	s.mu.Unlock()
	switch {
	case cerrdefs.IsNotFound(err) && destroyed:
		return &runtime.Exit{Reason: runtime.ExitDestroyed}, nil
	case cerrdefs.IsNotFound(err):
		return &runtime.Exit{Reason: runtime.ExitKilled, Detail: "its container was removed from the engine"}, nil
	case err != nil:
		return nil, err
	case got.Container.State == nil:
		return nil, fmt.Errorf("the engine does not say how container %s is", s.container)
	case got.Container.State.Running:
		return nil, nil
	}
	exit := s.explain(got.Container.State)
	if destroyed {
		exit = runtime.Exit{Reason: runtime.ExitDestroyed}
	}
	return &exit, nil
}

// killed is the status of a process that was killed, as engines report it.
const killed = 128 + 9

// explain returns the reason for a container's end.
func (s *sandbox) explain(st *container.State) runtime.Exit {
	reason := cmp.Or(s.stderr.String(), st.Error)
	if reason != "" {
		reason = ": " + reason
	}
	switch {
	case st.ExitCode == killed && st.OOMKilled:
		return runtime.Exit{Reason: runtime.ExitOOM, Detail: "the agent was killed because memory ran out"}
	case st.ExitCode > 128:
		return runtime.Exit{Reason: runtime.ExitKilled, Detail: fmt.Sprintf("agent killed by signal %d%s", st.ExitCode-128, reason)}
	}
	return runtime.Exit{Reason: runtime.ExitAgent, Detail: fmt.Sprintf("agent ended with status %d%s", st.ExitCode, reason)}
}
