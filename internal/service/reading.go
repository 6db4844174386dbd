package service

import (
	"context"
	"iter"
	"math"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/queue"
)

// Bounds of reading what a log already has. It takes time for every byte, even if the reader then drops the frame: without turns, a user's
// many readers would delay all other users.
const (
	logsOfOne  = 2        // logs of one user that are read at the same moment
	turnFrames = 64       // frames of one turn
	turnBytes  = 64 << 10 // of their output
)

// newLogTurns returns the queue for [inTurns]. Readers wait in it without a bound, since doors bound them.
func newLogTurns() *queue.Queue { return queue.New(queue.Options{Length: math.MaxInt}) }

// inTurns yields a log from seq from on. It reads the frames before last, which exist, a few at a time, in turns with the other readers of
// the user. No turn is held while the reader uses the frames, however slow it is, or while the log has no more frames.
func inTurns(ctx context.Context, turns *queue.Queue, user string, log iter.Seq2[belljar.Frame, error], from, last uint64) iter.Seq2[belljar.Frame, error] {
	if from >= last {
		return log
	}
	return func(yield func(belljar.Frame, error) bool) {
		leave, err := enter(ctx, turns, user)
		if err != nil {
			yield(belljar.Frame{}, err)
			return
		}
		defer func() { leave() }()
		var frames []belljar.Frame
		bytes, follows := 0, false
		give := func() bool {
			leave()
			for _, f := range frames {
				if !yield(f, nil) {
					return false
				}
			}
			clear(frames)
			frames, bytes = frames[:0], 0
			return true
		}
		for f, err := range log {
			switch {
			case follows:
				if !yield(f, err) {
					return
				}
				continue
			case err != nil:
				if give() {
					yield(belljar.Frame{}, err)
				}
				return
			}
			frames = append(frames, f)
			follows = f.Seq+1 >= last
			if bytes += len(f.Output); len(frames) < turnFrames && bytes < turnBytes && !follows {
				continue
			}
			if !give() {
				return
			}
			if follows {
				frames = nil
				continue
			}
			if leave, err = enter(ctx, turns, user); err != nil {
				yield(belljar.Frame{}, err)
				return
			}
		}
		give()
	}
}

// enter waits for a turn.
func enter(ctx context.Context, turns *queue.Queue, user string) (leave func(), err error) {
	turn, err := turns.Enter(user, logsOfOne)
	if err != nil {
		return func() {}, err
	}
	select {
	case <-turn.Ready():
	case <-ctx.Done():
		err = context.Cause(ctx)
		turn.Leave()
	}
	return turn.Leave, err
}
