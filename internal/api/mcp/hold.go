package mcp

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
)

// holds are the requests of a visit that have a stream. A stream has one reader; a client whose connection broke without our
// hearing of it must not be kept from coming back by the one that is dead, so that the newest one has it.
type holds struct {
	mu   sync.Mutex
	held map[string]*hold // by stream
}

// hold is one request's hold on a stream.
type hold struct {
	http.ResponseWriter
	of     *holds
	stream string // "" until an event has told it
	leave  context.CancelFunc
	left   chan struct{}
}

// ownStream stands for the stream that belongs to no request.
const ownStream = "-"

// lastEvent is the header by which a client comes back to a stream: its id, an underscore and a number.
const lastEvent = "Last-Event-ID"

// take makes a request one that can lose its stream to a newer one; done is to be called behind it. A request that comes back
// to a stream waits until the one before has let it go.
func (hs *holds) take(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request, func()) {
	ctx, leave := context.WithCancel(r.Context())
	h := &hold{ResponseWriter: w, of: hs, leave: leave, left: make(chan struct{})}
	if r.Method == http.MethodGet {
		h.stream, _, _ = strings.Cut(r.Header.Get(lastEvent), "_")
		if h.stream == "" {
			h.stream = ownStream
		}
		hs.mu.Lock()
		before := hs.set(h)
		hs.mu.Unlock()
		if before != nil {
			before.leave()
			<-before.left
		}
	}
	return h, r.WithContext(ctx), func() {
		leave()
		hs.mu.Lock()
		if hs.held[h.stream] == h {
			delete(hs.held, h.stream)
		}
		hs.mu.Unlock()
		close(h.left)
	}
}

// set notes who has a stream, and returns who had it. hs.mu is held.
func (hs *holds) set(h *hold) *hold {
	if hs.held == nil {
		hs.held = map[string]*hold{}
	}
	before := hs.held[h.stream]
	hs.held[h.stream] = h
	return before
}

// primeName is the name that the SDK gives the event that begins a stream. The protocol wants an id and no data, and clients warn
// of names that they do not know.
const primeName = "event: prime\n"

// Write looks for the id of the stream in the first event that has one. Each call has a whole event.
func (h *hold) Write(b []byte) (int, error) {
	if event, named := bytes.CutPrefix(b, []byte(primeName)); named {
		n, err := h.Write(event)
		return n + len(primeName), err
	}
	h.of.mu.Lock()
	if h.stream == "" {
		for line := range bytes.Lines(b) {
			if id, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
				stream, _, _ := strings.Cut(string(id), "_")
				h.stream = strings.TrimSpace(stream)
				if h.stream != "" {
					h.of.set(h)
				}
				break
			}
		}
	}
	h.of.mu.Unlock()
	return h.ResponseWriter.Write(b)
}

// Flush sends what is buffered.
func (h *hold) Flush() {
	_ = http.NewResponseController(h.ResponseWriter).Flush() // a writer that cannot has nothing buffered
}

// Unwrap lets http.ResponseController reach the writer beneath.
func (h *hold) Unwrap() http.ResponseWriter { return h.ResponseWriter }
