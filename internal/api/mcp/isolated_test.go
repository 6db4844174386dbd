package mcp

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/belljar/belljar"
)

// opening is a service whose sandboxes take time to open.
type opening struct {
	belljar.Service
	sessions *openingSessions
}

func (o opening) Sessions() belljar.Sessions { return o.sessions }

type openingSessions struct {
	belljar.Sessions
	opened int
	ready  chan struct{}
	made   belljar.Session
}

func (o *openingSessions) List(context.Context, belljar.SessionQuery) (belljar.SessionPage, error) {
	return belljar.SessionPage{}, nil
}

func (o *openingSessions) Get(context.Context, string) (belljar.Session, error) { return o.made, nil }

func (o *openingSessions) Open(context.Context, belljar.SessionRequest) (belljar.Session, bool, error) {
	o.opened++
	<-o.ready
	o.made = belljar.Session{ID: belljar.NewID(), State: belljar.SessionActive}
	return o.made, true, nil
}

// Calls at the same time open one isolated sandbox.
func TestIsolatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := &openingSessions{ready: make(chan struct{})}
		s := &clientSession{
			terms: Terms{Toolset: belljar.Toolset{Mode: belljar.ToolsCode, Session: belljar.IsolatedKey}},
			id:    "client", isolated: map[string]string{}, known: map[string]bool{},
		}
		user := "ann"
		s.user.Store(&user)
		ids := make(chan string, 4)
		for range cap(ids) {
			go func() {
				x, _, err := (&call{Context: t.Context(), Service: opening{sessions: svc}, clientSession: s}).openSandbox(belljar.IsolatedKey)
				if err != nil {
					t.Error(err)
				}
				ids <- x.ID
			}()
		}
		synctest.Wait()
		if svc.opened != 1 {
			t.Errorf("%d calls open a sandbox", svc.opened)
		}
		close(svc.ready)
		for range cap(ids) {
			if id := <-ids; id != svc.made.ID {
				t.Errorf("sandbox %s, want %s", id, svc.made.ID)
			}
		}
	})
}
