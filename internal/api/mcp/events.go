package mcp

import (
	"container/list"
	"context"
	"iter"
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds of what is kept for clients whose connection breaks while an answer is on its way.
const (
	mostStreams    = 64       // of one visit, the newest
	mostEventBytes = 64 << 20 // of all visits; the oldest go first
)

// events keeps what was sent, for clients that come back with Last-Event-ID. It is an [sdk.EventStore].
type events struct {
	mu     sync.Mutex
	bytes  int
	visits map[string]map[string]*list.Element // of *sent, by session and stream
	order  list.List                           // of *sent, the oldest first
}

// sent is one stream of events.
type sent struct {
	session, stream string
	first           int // index of data[0]: what was before is gone
	data            [][]byte
}

var _ sdk.EventStore = (*events)(nil)

// Open begins a stream.
func (e *events) Open(_ context.Context, session, stream string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.visits == nil {
		e.visits = map[string]map[string]*list.Element{}
	}
	streams := e.visits[session]
	if streams == nil {
		streams = map[string]*list.Element{}
		e.visits[session] = streams
	}
	if streams[stream] != nil {
		return nil
	}
	streams[stream] = e.order.PushBack(&sent{session: session, stream: stream})
	if len(streams) > mostStreams {
		for at := e.order.Front(); at != nil; at = at.Next() {
			if s := at.Value.(*sent); s.session == session && s.stream != "" {
				e.drop(at)
				break
			}
		}
	}
	return nil
}

// drop forgets a stream.
func (e *events) drop(at *list.Element) {
	s := e.order.Remove(at).(*sent)
	for _, d := range s.data {
		e.bytes -= len(d)
	}
	delete(e.visits[s.session], s.stream)
}

// Append adds an event. One of a stream that is forgotten cannot be numbered any more: it is sent, and not kept.
func (e *events) Append(_ context.Context, session, stream string, data []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := e.visits[session][stream]
	if at == nil {
		return sdk.ErrEventsPurged
	}
	s := at.Value.(*sent)
	s.data = append(s.data, slices.Clone(data))
	e.bytes += len(data)
	for at := e.order.Front(); at != nil && e.bytes > mostEventBytes; at = at.Next() {
		old := at.Value.(*sent)
		for len(old.data) > 0 && e.bytes > mostEventBytes {
			e.bytes -= len(old.data[0])
			old.data, old.first = old.data[1:], old.first+1
		}
	}
	return nil
}

// After yields the events of a stream behind an index.
func (e *events) After(_ context.Context, session, stream string, index int) iter.Seq2[[]byte, error] {
	e.mu.Lock()
	defer e.mu.Unlock()
	var data [][]byte
	at := e.visits[session][stream]
	known := at != nil
	if known {
		s := at.Value.(*sent)
		from := index + 1 - s.first
		known = from >= 0
		if known && from < len(s.data) {
			data = slices.Clone(s.data[from:])
		}
	}
	return func(yield func([]byte, error) bool) {
		if !known {
			yield(nil, sdk.ErrEventsPurged)
			return
		}
		for _, d := range data {
			if !yield(d, nil) {
				return
			}
		}
	}
}

// SessionClosed forgets a visit.
func (e *events) SessionClosed(_ context.Context, session string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, at := range e.visits[session] {
		e.drop(at)
	}
	delete(e.visits, session)
	return nil
}
