package folder

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/runtime"
)

// TestLongPath: the state folder's path may be too long for a socket address.
func TestLongPath(t *testing.T) {
	r, err := New(t.TempDir(), filepath.Join(t.TempDir(), strings.Repeat("long", 30)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := r.Create(t.Context(), runtime.Spec{ID: "01234567-89ab-7def-8123-456789abcdef", Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	c, err := b.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := b.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}
