package stream

import (
	"context"
	"slices"

	"github.com/belljar/belljar"
)

// feed reads a run's log for one reader and puts it, encoded, into an outbox.
type feed struct {
	runs  belljar.Runs
	id    string
	from  start
	until uint64 // the last frame; 0 is the log's end
	plain output // what of the output, if not the envelopes
	out   *outbox
	share *share
	lend  *lender
}

// run feeds until the log's end or ctx's.
func (f *feed) run(ctx context.Context) {
	f.out.finish(f.copy(ctx))
}

func (f *feed) copy(ctx context.Context) error {
	if f.until != 0 && f.from.seq > f.until {
		return nil
	}
	first := f.plain == ""
	for frame, err := range f.runs.Frames(ctx, f.id, f.from.seq) {
		if err != nil {
			return err
		}
		if f.until != 0 && frame.Seq > f.until {
			return nil
		}
		if first && !f.from.tail() && frame.Seq > f.from.seq {
			note, err := gap(f.from.seq, frame.Seq)
			if err != nil {
				return err
			}
			if !f.out.put(ctx, note) {
				return ctx.Err()
			}
		}
		first = false
		m, err := f.encode(&frame)
		if err != nil {
			return err
		}
		if m.data != nil && !f.out.put(ctx, m) {
			f.lend.back(m.loan)
			return ctx.Err()
		}
		if f.until != 0 && frame.Seq == f.until {
			return nil
		}
	}
	return nil
}

// encode makes a message of a frame; one without data if the reader did not ask for it.
func (f *feed) encode(frame *belljar.Frame) (message, error) {
	m := message{seq: frame.Seq, kind: frame.Type, event: frame.Event}
	if f.plain != "" {
		if f.plain.has(frame.Type) && len(frame.Output) > 0 {
			m.loan, m.data = f.fill(len(frame.Output))
			m.data = append(m.data, frame.Output...)
		}
		return m.kept(), nil
	}
	data, worth := f.share.find(frame.Seq)
	if data != nil {
		m.data = data
		return m, nil
	}
	var err error
	if worth {
		loan, buf := f.fill(loanBytes)
		buf, err = frame.AppendJSON(buf)
		m.data = slices.Clone(buf) // as short as it is: many may hold it for long
		loan.buf = buf
		f.lend.back(loan)
		if err == nil {
			f.share.keep(frame.Seq, m.data)
		}
		return m, err
	}
	m.loan, m.data = f.fill(len(frame.Output))
	m.data, err = frame.AppendJSON(m.data)
	return m.kept(), err
}

// fill returns an empty buffer for about n bytes, lent if they are many.
func (f *feed) fill(n int) (*loan, []byte) {
	if n < smallBytes {
		return nil, make([]byte, 0, n+128)
	}
	l := f.lend.lend()
	return l, l.buf
}

// kept is m whose loan knows that its buffer may have moved.
func (m message) kept() message {
	if m.loan != nil {
		m.loan.buf = m.data
	}
	return m
}

// gap is the note that frames are gone (docs/compatibility.md#frames).
func gap(requested, delivered uint64) (message, error) {
	return noteOf(belljar.Frame{Seq: delivered, Type: belljar.FrameEvent, Event: belljar.EventResume, Data: map[string]any{
		"requested_from_seq": requested, "delivered_from_seq": delivered, "lost_count": delivered - requested,
	}})
}

// noteOf makes a message of a frame that is not in the log.
func noteOf(frame belljar.Frame) (message, error) {
	data, err := frame.AppendJSON(nil)
	return message{seq: frame.Seq, kind: frame.Type, event: frame.Event, note: true, data: data}, err
}
