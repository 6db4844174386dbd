package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/shelf"
)

// crowded is a session whose agent was taken over: it lists many commands, and calls attached before it answers a request for one.
type crowded struct {
	living
	attached func()
}

func (c crowded) Box() *box.Box { return takenOver(c.serve) }

func (c crowded) serve(req wire.Request, r *wire.Reader, w *wire.Writer) {
	if req.Op != wire.OpList {
		c.attached()
		_ = w.JSON(wire.KindReply, wire.Reply{Error: &wire.Error{Code: wire.CodeNotFound}})
		return
	}
	var list []wire.ExecInfo
	for i := range 1000 {
		list = append(list, wire.ExecInfo{ID: fmt.Sprint(i)})
	}
	_ = w.JSON(wire.KindReply, wire.Reply{Execs: list})
}

func saved(t *testing.T) *shelf.Layer {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, besideName), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &shelf.Layer{Dir: dir}
}

// The end of a live snapshot's commands ends with the request.
func TestResumeIsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	attached := 0
	_, err := resume(ctx, crowded{attached: func() { attached++; cancel() }}, saved(t))
	if !errors.Is(err, context.Canceled) || attached != 1 {
		t.Errorf("%d commands were ended, %v", attached, err)
	}
}

// An agent that answers for each of its commands, but late, does not prolong the request.
func TestResumeOfManyCommands(t *testing.T) {
	state := saved(t)
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		_, err := resume(t.Context(), crowded{attached: func() { <-time.After(endTime - time.Second) }}, state)
		if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took > resumeTime+endTime {
			t.Errorf("%v after %v", err, took)
		}
	})
}
