package stream

import (
	"context"
	"slices"

	"github.com/belljar/belljar"
)

// feed reads a run's log for one reader and puts the encoded frames into an outbox.
type feed struct {
	runs    belljar.Runs
	id      string
	from    start
	until   uint64 // the last frame; 0 is the log's end
	plain   output // the part of the output to send as text; "" sends envelopes
	out     *outbox
	share   *share
	buffers *bufferPool
}

// run reads until the end of the log or of ctx.
func (f *feed) run(ctx context.Context) {
	err := f.copy(ctx)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // in place of the log's error
	}
	f.out.finish(err)
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
		if first && !f.from.tail() && frame.Seq != f.from.seq {
			note, err := gapNote(f.from.seq, frame.Seq)
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
			f.buffers.put(m.pooled)
			return ctx.Err()
		}
		if f.until != 0 && frame.Seq == f.until {
			return nil
		}
	}
	return nil
}

// encode returns the message of a frame. It has no data if the reader did not ask for the frame.
func (f *feed) encode(frame *belljar.Frame) (message, error) {
	m := message{seq: frame.Seq, kind: frame.Type, event: frame.Event}
	if f.plain != "" {
		if f.plain.has(frame.Type) && len(frame.Output) > 0 {
			m.pooled, m.data = f.buffer(len(frame.Output))
			m.data = append(m.data, frame.Output...)
		}
		return m.updatePooled(), nil
	}
	data, shared := f.share.find(frame.Seq)
	if data != nil {
		m.data = data
		return m, nil
	}
	var err error
	if shared {
		pooled, buf := f.buffer(bufferBytes)
		buf, err = frame.AppendJSON(buf)
		m.data = slices.Clone(buf) // not longer than needed: the readers share it
		pooled.buf = buf
		f.buffers.put(pooled)
		if err == nil {
			f.share.keep(frame.Seq, m.data)
		}
		return m, err
	}
	m.pooled, m.data = f.buffer(len(frame.Output))
	m.data, err = frame.AppendJSON(m.data)
	return m.updatePooled(), err
}

// buffer returns an empty buffer for about n bytes, from the pool if they are many.
func (f *feed) buffer(n int) (*pooled, []byte) {
	if n < smallBytes {
		return nil, make([]byte, 0, n+128)
	}
	b := f.buffers.get()
	return b, b.buf
}

// updatePooled records in the pooled buffer that append may have moved its bytes.
func (m message) updatePooled() message {
	if m.pooled != nil {
		m.pooled.buf = m.data
	}
	return m
}

// gapNote returns the note that the requested frame does not exist, because it is gone or beyond the log (docs/compatibility.md#frames).
func gapNote(requested, delivered uint64) (message, error) {
	lost := uint64(0)
	if delivered > requested {
		lost = delivered - requested
	}
	return noteOf(belljar.Frame{Seq: delivered, Type: belljar.FrameEvent, Event: belljar.EventResume, Data: map[string]any{
		"requested_from_seq": requested, "delivered_from_seq": delivered, "lost_count": lost,
	}})
}

// noteOf returns the message of a frame that is not in the log.
func noteOf(frame belljar.Frame) (message, error) {
	data, err := frame.AppendJSON(nil)
	return message{seq: frame.Seq, kind: frame.Type, event: frame.Event, note: true, data: data}, err
}
