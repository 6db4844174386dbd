package mcp

import (
	"container/list"
	"context"
	"iter"
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Limits of the events kept for clients whose connection breaks during an answer.
const (
	maxStreams    = 64       // of one session, the newest
	maxEventBytes = 64 << 20 // of all sessions; the oldest are evicted first
)

// events keeps sent events for clients that resume with Last-Event-ID. Unlike the SDK's store it bounds the streams of a
// session, and evicts by age.
type events struct {
	mu       sync.Mutex
	bytes    int
	sessions map[string]map[string]*list.Element // of *eventStream, by session and stream
	order    list.List                           // of *eventStream, the oldest first
}

// eventStream is the events of one stream.
type eventStream struct {
	session, stream string
	first           int // index of data[0]: earlier events are evicted
	data            [][]byte
}

var _ sdk.EventStore = (*events)(nil)

// Open starts a stream.
func (e *events) Open(_ context.Context, session, stream string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sessions == nil {
		e.sessions = map[string]map[string]*list.Element{}
	}
	streams := e.sessions[session]
	if streams == nil {
		streams = map[string]*list.Element{}
		e.sessions[session] = streams
	}
	if streams[stream] != nil {
		return nil
	}
	streams[stream] = e.order.PushBack(&eventStream{session: session, stream: stream})
	if len(streams) > maxStreams {
		for at := e.order.Front(); at != nil; at = at.Next() {
			if s := at.Value.(*eventStream); s.session == session && s.stream != "" {
				e.remove(at)
				break
			}
		}
	}
	return nil
}

// remove removes a stream.
func (e *events) remove(at *list.Element) {
	s := e.order.Remove(at).(*eventStream)
	for _, d := range s.data {
		e.bytes -= len(d)
	}
	delete(e.sessions[s.session], s.stream)
}

// Append adds an event. An event of a removed stream has no number: it is sent, and not kept.
func (e *events) Append(_ context.Context, session, stream string, data []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := e.sessions[session][stream]
	if at == nil {
		return sdk.ErrEventsPurged
	}
	s := at.Value.(*eventStream)
	s.data = append(s.data, slices.Clone(data))
	e.bytes += len(data)
	for at := e.order.Front(); at != nil && e.bytes > maxEventBytes; at = at.Next() {
		old := at.Value.(*eventStream)
		for len(old.data) > 0 && e.bytes > maxEventBytes {
			e.bytes -= len(old.data[0])
			old.data[0] = nil // the array outlives the slice
			old.data, old.first = old.data[1:], old.first+1
		}
	}
	return nil
}

// After yields the events of a stream after an index. Of the session's own stream, which every new reader reads from its beginning,
// it yields those that are kept.
func (e *events) After(_ context.Context, session, stream string, index int) iter.Seq2[[]byte, error] {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := e.sessions[session][stream]
	if at == nil || index+1 < at.Value.(*eventStream).first && stream != "" {
		return func(yield func([]byte, error) bool) { yield(nil, sdk.ErrEventsPurged) }
	}
	s := at.Value.(*eventStream)
	data := slices.Clone(s.data[min(max(index+1-s.first, 0), len(s.data)):])
	return func(yield func([]byte, error) bool) {
		for _, d := range data {
			if !yield(d, nil) {
				return
			}
		}
	}
}

// SessionClosed removes the streams of a session.
func (e *events) SessionClosed(_ context.Context, session string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, at := range e.sessions[session] {
		e.remove(at)
	}
	delete(e.sessions, session)
	return nil
}
