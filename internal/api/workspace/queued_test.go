package workspace

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/socket"
	"github.com/belljar/belljar/internal/workspace"
)

// left is an engine with one chat, whose program is in the queue.
type left struct {
	workspace.Engine
	runs *leftRuns
}

func (w left) Runs() belljar.Runs { return w.runs }

type leftRuns struct {
	busyRuns
	began bool
}

func (*leftRuns) List(_ context.Context, q belljar.RunQuery) (page belljar.RunPage, err error) {
	if q.Phase == belljar.PhaseQueued {
		page.Items = []belljar.Run{{ID: "queued", Labels: map[string]string{label: "chat", chatLabel: "c", templateLabel: "p"}}}
	}
	return page, nil
}

func (*leftRuns) Get(_ context.Context, id string) (belljar.Run, error) {
	return belljar.Run{ID: id, Phase: belljar.PhaseQueued}, nil
}

func (w *leftRuns) Frames(_ context.Context, _ string, from uint64) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		if w.began = from == 1; w.began {
			yield(belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventStart, Seq: 1}, nil)
		}
	}
}

func (w *leftRuns) Stdin(context.Context, string) (belljar.Stdin, error) {
	if !w.began {
		return nil, io.ErrNoProgress
	}
	return nil, &belljar.Error{Code: belljar.CodeConflict}
}

// A program whose client left while it was in the queue is that of the chat: the client comes back to it, or replaces it.
func TestQueuedProgramIsFound(t *testing.T) {
	for query, want := range map[string]struct {
		err      error
		canceled []string
	}{"": {}, "&force_new=1": {io.EOF, []string{"queued"}}} {
		runs := &leftRuns{}
		x := chatWith(t, left{runs: runs}, nil)
		x.call.door.clients = map[string]int{}
		token, _ := x.call.token(socket.Claims{Kind: kindChat, ID: "c"})
		x.call.r = httptest.NewRequestWithContext(t.Context(), "GET", "/?session_id="+token+query, nil)
		peer, err := x.call.chat()
		if !errors.Is(err, want.err) || !slices.Equal(runs.canceled, want.canceled) {
			t.Errorf("%q: %v ended, %v", query, runs.canceled, err)
		}
		if err == nil {
			if !peer.(*chat).resumed {
				t.Errorf("%q: another chat", query)
			}
			peer.Close()
		}
	}
}
