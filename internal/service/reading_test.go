package service

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/belljar/belljar"
)

// logOf returns a log of n frames. during is called for each while it is read.
func logOf(n uint64, during func(seq uint64)) iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		for seq := uint64(1); seq <= n; seq++ {
			during(seq)
			if !yield(belljar.Frame{Seq: seq, Type: belljar.FrameStdout}, nil) {
				return
			}
		}
	}
}

// Of one user's readers, few read a log at the same moment. A reader that is slow to use its frames holds no turn.
func TestReadersOfLogsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers, last = 10, 3 * turnFrames
		turns := newLogTurns()
		reading, slow := make(chan struct{}), make(chan struct{})
		var alice, bob, read atomic.Int64
		start := func(user string, inside *atomic.Int64) {
			first := true
			log := inTurns(t.Context(), turns, user, logOf(last, func(uint64) {
				if first {
					first = false
					inside.Add(1)
					<-reading
				}
			}), 1, last)
			go func() {
				for f, err := range log {
					if err != nil {
						t.Error(err)
					}
					if f.Seq == 1 {
						<-slow
					}
					read.Add(1)
				}
			}()
		}
		for range readers {
			start("alice", &alice)
		}
		start("bob", &bob)
		synctest.Wait()
		if alice.Load() != logsOfOne || bob.Load() != 1 {
			t.Errorf("%d and %d read at the same moment, want %d and 1", alice.Load(), bob.Load(), logsOfOne)
		}
		close(reading)
		synctest.Wait()
		if alice.Load() != readers {
			t.Errorf("%d of %d read while the others use their frames", alice.Load(), readers)
		}
		close(slow)
		synctest.Wait()
		if n := read.Load(); n != (readers+1)*last {
			t.Errorf("read %d frames, want %d", n, (readers+1)*last)
		}
		if running, waiting := turns.Count("alice"); running+waiting != 0 {
			t.Errorf("%d turns are held and %d wait after the end", running, waiting)
		}
	})
}

// A reader that follows a log holds no turn while the log has no more frames, and has all that exist.
func TestFollowerHoldsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const last = 2*turnFrames + 5
		turns, more, read := newLogTurns(), make(chan struct{}), uint64(0)
		log := inTurns(t.Context(), turns, "alice", logOf(last+3, func(seq uint64) {
			if seq == last {
				<-more
			}
		}), 1, last)
		go func() {
			for f := range log {
				if read++; f.Seq != read {
					t.Errorf("frame %d after %d", f.Seq, read-1)
				}
			}
		}()
		synctest.Wait()
		if running, _ := turns.Count("alice"); running != 0 || read != last-1 {
			t.Errorf("%d turns are held, and %d frames are read", running, read)
		}
		close(more)
		synctest.Wait()
		if read != last+3 {
			t.Errorf("read %d frames, want %d", read, last+3)
		}
	})
}

// A log's error follows the frames in front of it. A reader that leaves, also while it waits, leaves its turn.
func TestTurnsEnd(t *testing.T) {
	turns, broken := newLogTurns(), errors.New("broken")
	log := inTurns(t.Context(), turns, "alice", func(yield func(belljar.Frame, error) bool) {
		for f := range logOf(10, func(uint64) {}) {
			if !yield(f, nil) {
				return
			}
		}
		yield(belljar.Frame{}, broken)
	}, 1, 1000)
	n := 0
	for f, err := range log {
		if n++; f.Seq == 10 {
			continue
		}
		if (n == 11) != errors.Is(err, broken) {
			t.Errorf("item %d: %v", n, err)
		}
	}
	for range log {
		break
	}
	for range logsOfOne {
		turns.Take("alice", logsOfOne)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	for _, err := range inTurns(gone, turns, "alice", log, 1, 1000) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a reader that left: %v", err)
		}
	}
	if running, waiting := turns.Count("alice"); n != 11 || running != logsOfOne || waiting != 0 {
		t.Errorf("%d items; %d turns are held and %d wait", n, running, waiting)
	}
}
