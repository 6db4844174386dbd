// Package interrupt handles Ctrl-C and other signals for a command, and for a run that it waits for.
package interrupt

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/belljar/belljar/internal/local"
)

// Stopper ends a run on signals: the first cancels it (TERM, grace, KILL), the second kills it immediately.
type Stopper struct {
	Begin  context.Context // ends at the first signal; for the work before the request
	Accept context.Context // ends at the first signal, on a server acceptTime later; for the request
	engine *local.Engine
	Close  func() // stops listening; idempotent

	lifetime   context.Context // ends when the stopper is closed
	cancelling sync.WaitGroup

	mu     sync.Mutex
	run    string
	signal syscall.Signal
}

// acceptTime limits how long a server may take to accept a run after the first signal. An accepted run must be cancelled, and its id
// is in the response. A second signal skips this wait.
const acceptTime = 10 * time.Second

// Watch listens until closed. It calls abandon if a run cannot even be killed, so that the caller stops waiting.
func Watch(ctx context.Context, e *local.Engine, abandon func()) *Stopper {
	accept, cancel := context.WithCancel(ctx)
	begin, hold := context.WithCancel(accept)
	lifetime, halt := context.WithCancel(ctx)
	s := &Stopper{Begin: begin, Accept: accept, engine: e, lifetime: lifetime}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case received := <-signals:
				number, _ := received.(syscall.Signal)
				switch id, first := s.received(number); {
				case first:
					hold()
					if id == "" && e.Remote {
						time.AfterFunc(acceptTime, cancel)
					} else {
						cancel()
					}
					s.cancelRun(id)
				case id == "" || e.Kill(ctx, id) != nil:
					abandon()
				}
			}
		}
	}()
	s.Close = sync.OnceFunc(func() {
		signal.Stop(signals)
		close(done)
		<-ended
		cancel()
		halt()
		s.cancelling.Wait()
	})
	return s
}

// received records a signal. It returns the run to end, "" if none has started, and whether the signal is the first.
func (s *Stopper) received(number syscall.Signal) (id string, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = s.signal == 0
	if first {
		s.signal = number
	}
	return s.run, first
}

// Started sets the run to end. If a signal has already arrived, it cancels the run.
func (s *Stopper) Started(id string) {
	s.mu.Lock()
	s.run = id
	pending := s.signal != 0
	s.mu.Unlock()
	if pending {
		s.cancelRun(id)
	}
}

// cancelRun requests a run's end in the background, so that a second signal is handled while the server is slow.
func (s *Stopper) cancelRun(id string) {
	if id == "" {
		return
	}
	s.cancelling.Go(func() {
		_ = s.engine.Runs().Cancel(s.lifetime, id) // a run that cannot be cancelled has ended
	})
}

// Signalled returns the signal that ends the run, 0 for none.
func (s *Stopper) Signalled() syscall.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signal
}
