package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Paces of a stream of events.
const (
	eventPatience = 30 * time.Second // a reader may take so long over one
	eventPause    = 15 * time.Second // without an event; then a comment says that the server is still there
)

// eventStream answers with server-sent events. It begins with the first of them, or when there has been none for a while;
// until then the answer can be a failure.
type eventStream struct {
	w     http.ResponseWriter
	ready *atomic.Bool // false while the answer must not begin; nil if it may
	stop  chan struct{}
	over  chan struct{}

	mu    sync.Mutex
	begun bool
	gone  bool // the client does not read any more
}

func newEvents(w http.ResponseWriter, ready *atomic.Bool) *eventStream {
	s := &eventStream{w: w, ready: ready, stop: make(chan struct{}), over: make(chan struct{})}
	go s.beat()
	return s
}

// beat says from time to time that the server is still there.
func (s *eventStream) beat() {
	defer close(s.over)
	tick := time.NewTicker(eventPause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if s.ready == nil || s.ready.Load() {
				s.write(": still here\n\n")
			}
		case <-s.stop:
			return
		}
	}
}

// event tells something, unless the answer must not begin yet.
func (s *eventStream) event(name string, data any) {
	if s.ready == nil || s.ready.Load() {
		s.last(name, data)
	}
}

// end ends the comments, and reports whether the answer has begun. Only [eventStream.last] may follow.
func (s *eventStream) end() (begun bool) {
	close(s.stop)
	<-s.over
	return s.begun
}

// last tells how it ended.
func (s *eventStream) last(name string, data any) {
	raw, err := json.Marshal(data)
	if err == nil {
		s.write(fmt.Sprintf("event: %s\ndata: %s\n\n", name, raw))
	}
}

// write writes at once, so that everything arrives when it comes.
func (s *eventStream) write(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return
	}
	if !s.begun {
		s.begun = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no")
		s.w.WriteHeader(http.StatusOK)
	}
	control := http.NewResponseController(s.w)
	_ = control.SetWriteDeadline(time.Now().Add(eventPatience)) // a writer without deadlines has none
	if _, err := s.w.Write([]byte(text)); err != nil {
		s.gone = true
	} else if err := control.Flush(); err != nil {
		s.gone = true
	}
}
