package stream

import (
	"net/http"
	"strconv"
	"time"

	"github.com/belljar/belljar/internal/event"
)

// outlet writes to one reader over plain HTTP.
type outlet struct {
	door    *Door
	w       http.ResponseWriter
	control *http.ResponseController
	sse     bool // the pieces are server-sent events
	begun   bool // the answer has begun
	sent    int64
	record  func(event.Event)
}

func (d *Door) newOutlet(w http.ResponseWriter, sse bool) outlet {
	return outlet{door: d, w: w, control: http.NewResponseController(w), sse: sse}
}

// push writes one piece within the write timeout, and flushes it; false if that fails.
func (o *outlet) push(piece []byte) bool {
	if err := o.control.SetWriteDeadline(time.Now().Add(o.door.opts.WriteTimeout)); err != nil {
		o.door.log.Error("stream without a deadline", "err", err)
		return false
	}
	var err error
	if o.sse && !o.begun {
		_, err = o.w.Write([]byte("retry: 1000\n\n"))
	}
	o.begun = true
	if err == nil {
		var n int
		n, err = o.w.Write(piece)
		o.sent += int64(n)
	}
	if err == nil {
		err = o.control.Flush()
	}
	if isTimeout(err) {
		o.record(event.Event{Name: event.StreamDropped, Reason: causeSlow})
	}
	return err == nil
}

// stillHere is a server-sent comment, which keeps a connection alive.
const stillHere = ": still here\n\n"

// appendEvent appends a server-sent event. Notes have no id: a browser resumes after the last frame.
func appendEvent(dst []byte, m message) []byte {
	if !m.note {
		dst = append(dst, "id: "...)
		dst = strconv.AppendUint(dst, m.seq, 10)
		dst = append(dst, '\n')
	}
	dst = append(dst, "event: "...)
	dst = append(dst, m.kind...)
	dst = append(dst, "\ndata: "...)
	dst = append(dst, m.data...)
	return append(dst, "\n\n"...)
}
