//go:build unix

package interrupt

import (
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/belljar/belljar/internal/local"
)

// TestSignalBeforeAcceptance: after the first signal, a server still answers a request for a run, so that the run can be
// cancelled. The second signal ends the wait.
func TestSignalBeforeAcceptance(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var early error
	var stop *Stopper
	watched := make(chan struct{})
	stop = Watch(ctx, &local.Engine{Remote: true}, func() {
		<-watched
		early = stop.Accept.Err()
		cancel()
	})
	close(watched)
	for _, n := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} { // the kernel may merge two of one kind
		if err := syscall.Kill(os.Getpid(), n); err != nil {
			t.Fatal(err)
		}
	}
	<-ctx.Done()
	<-stop.Accept.Done()
	stop.Close()
	if early != nil || stop.Begin.Err() == nil {
		t.Errorf("the first signal ended the request: %v", early)
	}
}
