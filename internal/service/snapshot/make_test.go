package snapshot

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
)

type living struct{ Workspace }

func (living) Context() context.Context { return context.Background() }
func (living) Session() belljar.Session { return belljar.Session{ID: "x"} }

// An unreadable workspace root is named in the error, too.
func TestFault(t *testing.T) {
	err := (&Snapshots{}).fault(t.Context(), living{}, &wire.Error{Code: wire.CodeDenied})
	if belljar.CodeOf(err) != belljar.CodeConflict || !strings.HasPrefix(err.Error(), `"." cannot be read`) {
		t.Error(err)
	}
}

// An agent's path is cut, in the message and in the details.
func TestFaultWithALongPath(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	err := (&Snapshots{}).fault(t.Context(), living{}, &wire.Error{Code: wire.CodeDenied, Path: long})
	own, is := errors.AsType[*belljar.Error](err)
	if want := long[:200] + "…"; !is || own.Details["path"] != want || !strings.HasPrefix(own.Message, `"`+want+`" cannot be read`) {
		t.Errorf("%.500v", err)
	}
}
