package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/belljar/belljar/internal/local"
)

// stopper turns signals into the end of a run: the first cancels it (TERM, grace, KILL), the second kills it at once.
type stopper struct {
	accept context.Context // ends at the first signal; for what comes before the run is accepted
	engine *local.Engine
	close  func() // stops listening; may be called twice

	going      context.Context // ends when nobody listens any more
	cancelling sync.WaitGroup

	mu     sync.Mutex
	run    string
	signal syscall.Signal
}

// watchSignals listens until closed. abandon is called where a run cannot even be killed, so that nobody waits for it.
func watchSignals(ctx context.Context, e *local.Engine, abandon func()) *stopper {
	accept, cancel := context.WithCancel(ctx)
	going, halt := context.WithCancel(ctx)
	s := &stopper{accept: accept, engine: e, going: going}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	// Taken and dropped, so that a closed stdout is an error of Write instead of our death.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
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
					cancel()
					s.cancelRun(id)
				case id == "" || e.Kill(ctx, id) != nil:
					abandon()
				}
			}
		}
	}()
	s.close = sync.OnceFunc(func() {
		signal.Stop(signals)
		signal.Stop(pipes)
		close(done)
		<-ended
		cancel()
		halt()
		s.cancelling.Wait()
	})
	return s
}

// received notes a signal and returns the run it is for, "" for none yet, and whether it is the first.
func (s *stopper) received(number syscall.Signal) (id string, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = s.signal == 0
	if first {
		s.signal = number
	}
	return s.run, first
}

// started says which run a signal is for; one that came before cancels it now.
func (s *stopper) started(id string) {
	s.mu.Lock()
	s.run = id
	pending := s.signal != 0
	s.mu.Unlock()
	if pending {
		s.cancelRun(id)
	}
}

// cancelRun asks for the end of a run, without waiting for a server to hear it: a second signal must be heard too.
func (s *stopper) cancelRun(id string) {
	if id == "" {
		return
	}
	s.cancelling.Go(func() {
		_ = s.engine.Runs().Cancel(s.going, id) // a run that cannot be cancelled has ended
	})
}

// signalled returns the signal that ends the run, 0 for none.
func (s *stopper) signalled() syscall.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signal
}
