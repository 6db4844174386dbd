//go:build linux

package native

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// If a sandbox ends during its creation, or the host briefly lacks a resource, later sandboxes still get overlays.
func TestProbedAgain(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		err  error
		kept bool
	}{"ended": {unix.ESRCH, false}, "lacking": {errors.Join(errors.ErrUnsupported, unix.EINVAL), true}} {
		t.Run(name, func(t *testing.T) {
			var p probes
			if err := p.of(dir, func() error { return c.err }); !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, c.err) {
				t.Error(err)
			}
			if err := p.of(dir, nil); (err != nil) != c.kept {
				t.Errorf("%v is known afterwards", err)
			}
			if err := p.of(dir, func() error { return nil }); (err != nil) != c.kept {
				t.Errorf("the next time: %v", err)
			}
		})
	}
}
