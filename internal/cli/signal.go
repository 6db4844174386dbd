package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/belljar/belljar/internal/local"
)

// stopper ends a run on signals: the first cancels it (TERM, grace, KILL), the second kills it at once.
type stopper struct {
	begin  context.Context // ends at the first signal; for the work before the request
	accept context.Context // ends at the first signal, on a server acceptTime later; for the request
	engine *local.Engine
	close  func() // stops listening; idempotent

	lifetime   context.Context // ends when the stopper is closed
	cancelling sync.WaitGroup

	mu     sync.Mutex
	run    string
	signal syscall.Signal
}

// acceptTime is how long a server may still take to accept a run after the first signal. One that it has accepted has to be cancelled,
// and its id is in the answer. A second signal waits for nothing.
const acceptTime = 10 * time.Second

// watchSignals listens until closed. It calls abandon if a run cannot even be killed, so that the caller stops waiting.
func watchSignals(ctx context.Context, e *local.Engine, abandon func()) *stopper {
	accept, cancel := context.WithCancel(ctx)
	begin, hold := context.WithCancel(accept)
	lifetime, halt := context.WithCancel(ctx)
	s := &stopper{begin: begin, accept: accept, engine: e, lifetime: lifetime}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	// Catch and drop SIGPIPE, so that a closed stdout is an error of Write and does not kill this process.
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

// received records a signal. It returns the run to end, "" if none has started, and whether the signal is the first.
func (s *stopper) received(number syscall.Signal) (id string, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = s.signal == 0
	if first {
		s.signal = number
	}
	return s.run, first
}

// started sets the run to end. If a signal has already arrived, it cancels the run.
func (s *stopper) started(id string) {
	s.mu.Lock()
	s.run = id
	pending := s.signal != 0
	s.mu.Unlock()
	if pending {
		s.cancelRun(id)
	}
}

// cancelRun requests a run's end in the background, so that a second signal is handled while the server is slow.
func (s *stopper) cancelRun(id string) {
	if id == "" {
		return
	}
	s.cancelling.Go(func() {
		_ = s.engine.Runs().Cancel(s.lifetime, id) // a run that cannot be cancelled has ended
	})
}

// signalled returns the signal that ends the run, 0 for none.
func (s *stopper) signalled() syscall.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signal
}
