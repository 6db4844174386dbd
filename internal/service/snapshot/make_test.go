package snapshot

import (
	"context"
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
