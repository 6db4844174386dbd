package store

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/belljar/belljar"
)

// SetLog stores a whole log in the run's row and numbers its frames from 1.
func (r *Run) SetLog(frames []belljar.Frame) (err error) {
	var b []byte
	for i, f := range frames { // others may read the frames
		f.Seq = uint64(i + 1)
		if b, err = f.AppendJSON(b); err != nil {
			return fmt.Errorf("frame %d of the log of run %s: %w", i+1, r.ID, err)
		}
		b = append(b, '\n')
	}
	r.Log = b
	return nil
}

// Frames yields the log that [Run.SetLog] stored. It ends with [ErrCorrupt] at the first frame that cannot be read.
func (r *Run) Frames() iter.Seq2[belljar.Frame, error] {
	return func(yield func(belljar.Frame, error) bool) {
		next := uint64(1)
		for line := range bytes.Lines(r.Log) {
			var f belljar.Frame
			err := f.UnmarshalJSON(line)
			if err == nil && f.Seq != next {
				err = fmt.Errorf("frame %d in place of %d", f.Seq, next)
			}
			if err != nil {
				yield(belljar.Frame{}, fmt.Errorf("log of run %s: %w: %w", r.ID, ErrCorrupt, err))
				return
			}
			if next++; !yield(f, nil) {
				return
			}
		}
	}
}
