//go:build linux

package service_test

import (
	"context"
	"net"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/test/boxtest"
)

// linkedRuntime is a runtime with one sandbox, whose agent is reached over a link.
type linkedRuntime struct {
	runtime.Runtime
	link *boxtest.Link
}

func (r linkedRuntime) Create(ctx context.Context, spec runtime.Spec) (runtime.Sandbox, error) {
	box, err := r.Runtime.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	r.link.Dial = box.Dial
	return linkedBox{box, r.link}, nil
}

type linkedBox struct {
	runtime.Sandbox
	link *boxtest.Link
}

func (b linkedBox) Dial(ctx context.Context) (net.Conn, error) { return b.link.Connect(ctx) }

// A command that starts although its start was cancelled is ended, and its agent forgets it.
func TestStartCancelled(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		start func(ctx context.Context, b *bench, x belljar.Session) error
	}{
		"the compiler of a run": {`"id":"build-`, func(ctx context.Context, b *bench, x belljar.Session) error {
			req := compiled(b.t, "main", map[string]string{"cc": "exec sleep 1000\n"})
			req.SessionID, req.BaseImage, req.WorkspaceExec = x.ID, "", false
			run := b.start(req)
			<-ctx.Done()
			if err := b.Cancel(b.context(), run.ID); err != nil {
				return err
			}
			b.follow(run.ID)
			return context.Canceled
		}},
		"the description of a shell": {"524289", func(ctx context.Context, b *bench, x belljar.Session) error { // its output limit
			_, err := b.mine().Hibernate(ctx, x.ID, belljar.HibernateSpec{})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			link := &boxtest.Link{Text: c.text, Muted: make(chan struct{})}
			b := newBench(t, over(func(rt runtime.Runtime) runtime.Runtime { return linkedRuntime{rt, link} }), func(o *service.Options) { o.Limits.GraceSec = 0.1 })
			x := b.open(func(r *belljar.SessionRequest) { r.WorkspaceExec = true })
			b.run(shellIn(x.ID, "true"))
			b.service.WaitIdle()
			own := agent.New(link.Dial)
			commands := func() int {
				list, err := own.List(b.context())
				if err != nil {
					t.Fatal(err)
				}
				return len(list)
			}
			ctx, cancel := context.WithCancel(b.context())
			ended := make(chan error, 1)
			go func() { ended <- c.start(ctx, b, x) }()
			<-link.Muted
			b.until(func() bool { return commands() > 0 })
			cancel()
			if err := <-ended; err == nil {
				t.Error("it succeeded")
			}
			b.until(func() bool { return commands() == 0 })
			b.end(x)
		})
	}
}
