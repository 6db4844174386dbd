package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	eventWriteTimeout = 30 * time.Second // of one event
	heartbeatInterval = 15 * time.Second
)

// eventStream responds with server-sent events. The response starts with the first event or heartbeat; until then the
// handler can still respond with an error.
type eventStream struct {
	w     http.ResponseWriter
	ready *atomic.Bool // false while the response must not start; nil if it may
	stop  chan struct{}
	over  chan struct{}

	mu    sync.Mutex
	begun bool
	gone  bool // a write failed
}

func newEvents(w http.ResponseWriter, ready *atomic.Bool) *eventStream {
	s := &eventStream{w: w, ready: ready, stop: make(chan struct{}), over: make(chan struct{})}
	go s.heartbeat()
	return s
}

// heartbeat sends a comment every heartbeatInterval, so that the connection is never idle for long.
func (s *eventStream) heartbeat() {
	defer close(s.over)
	tick := time.NewTicker(heartbeatInterval)
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

// event sends an event, or drops it while the response must not start.
func (s *eventStream) event(name string, data any) {
	if s.ready == nil || s.ready.Load() {
		s.last(name, data)
	}
}

// end stops the heartbeat and reports whether the response has started. Only [eventStream.last] may follow.
func (s *eventStream) end() (begun bool) {
	close(s.stop)
	<-s.over
	return s.begun
}

// last sends the final event.
func (s *eventStream) last(name string, data any) {
	raw, err := json.Marshal(data)
	if err == nil {
		s.write(fmt.Sprintf("event: %s\ndata: %s\n\n", name, raw))
	}
}

// write writes and flushes text.
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
	_ = control.SetWriteDeadline(time.Now().Add(eventWriteTimeout)) // fails only without a connection, as in tests
	if _, err := s.w.Write([]byte(text)); err != nil {
		s.gone = true
	} else if err := control.Flush(); err != nil {
		s.gone = true
	}
}
