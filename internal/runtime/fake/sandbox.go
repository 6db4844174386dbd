//go:build linux

package fake

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/runtime"
)

// box is a living sandbox: an agent in this process and a folder.
type box struct {
	host     *Host
	id       string       // guarded by the host's mu
	born     runtime.Spec // the spec it was made for, without id and lease; guarded by the host's mu
	detached bool
	dir      string
	agent    *guest.Agent
	line     line
	serving  sync.WaitGroup
	gone     chan struct{} // closed when nothing is left

	mu    sync.Mutex // guards the fields below; held while the box is made
	owner *Runtime
	ended bool
	exit  runtime.Exit
	err   error
}

func (b *box) start(spec runtime.Spec, parent string, mux, ports bool) (err error) {
	if b.dir, err = workspaceIn(parent); err != nil {
		return &runtime.StepError{Step: "workspace", Err: err}
	}
	defer func() {
		if err != nil {
			os.RemoveAll(b.dir)
		}
	}()
	if b.line = line(newSockets()); mux {
		if b.line, err = newPipes(); err != nil {
			return &runtime.StepError{Step: "pipe", Err: err}
		}
	}
	b.agent, err = guest.New(guest.Config{
		Workspace: filepath.Join(b.dir, "workspace"),
		Secrets:   filepath.Join(b.dir, "secrets"),
		LeaseMS:   spec.Lease.Milliseconds(),
		Build:     "fake",
		Relay:     ports,
	})
	if err != nil {
		b.line.listener().Close()
		return &runtime.StepError{Step: "agent", Err: err}
	}
	b.serving.Go(func() { b.agent.Serve(b.line.listener()) })
	b.serving.Go(func() {
		select {
		case <-b.agent.Done():
			go b.end(runtime.Exit{Reason: runtime.ExitAgent, Detail: "lease over"})
		case <-b.gone:
		}
	})
	return nil
}

// adopt makes r the box's owner; false if the box may not be attached to.
func (b *box) adopt(r *Runtime) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || !b.detached && b.owner != r {
		return false
	}
	b.owner = r
	return true
}

func (b *box) ownedBy(r *Runtime) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.owner == r
}

func (b *box) disconnect() { b.line.disconnect() }

// end kills everything and removes every trace, and returns when that is done. If it is called again, the first
// reason stays.
func (b *box) end(why runtime.Exit) error {
	b.mu.Lock()
	if b.ended {
		b.mu.Unlock()
		<-b.gone
		return b.err
	}
	b.ended, b.exit = true, why
	b.mu.Unlock()
	err := b.agent.Close()
	b.line.disconnect()
	b.line.listener().Close()
	if e := os.RemoveAll(b.dir); err == nil {
		err = e
	}
	if err != nil {
		b.err = fmt.Errorf("destroy %s: %w", b.name(), err)
	}
	b.host.forget(b)
	close(b.gone)
	b.serving.Wait()
	return b.err
}

// sandbox implements [runtime.Sandbox].
type sandbox struct{ box *box }

func (s *sandbox) ID() string { return s.box.name() }

func (s *sandbox) Dial(ctx context.Context) (net.Conn, error) {
	b := s.box
	b.mu.Lock()
	ended := b.ended
	b.mu.Unlock()
	if ended {
		return nil, fmt.Errorf("dial %s: %w", b.name(), runtime.ErrGone)
	}
	c, err := b.line.dial(ctx)
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.ended {
			err = runtime.ErrGone
		}
		return nil, fmt.Errorf("dial %s: %w", b.name(), err)
	}
	return c, nil
}

// Usage returns no figures: nothing here separates a sandbox's use from the test's own.
func (s *sandbox) Usage(context.Context) (runtime.Usage, error) {
	select {
	case <-s.box.gone:
		return runtime.Usage{}, fmt.Errorf("usage of %s: %w", s.box.name(), runtime.ErrGone)
	default:
		return runtime.Usage{}, nil
	}
}

func (s *sandbox) Wait(ctx context.Context) (runtime.Exit, error) {
	select {
	case <-s.box.gone:
		return s.box.exit, nil
	case <-ctx.Done():
		return runtime.Exit{}, context.Cause(ctx)
	}
}

func (s *sandbox) Destroy(context.Context) error {
	return s.box.end(runtime.Exit{Reason: runtime.ExitDestroyed})
}
