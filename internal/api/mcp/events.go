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
	maxEventBytes = 64 << 20 // of all users; the oldest of the one who holds the most are evicted first
)

// events bounds the events that the sessions keep.
type events struct {
	mu    sync.Mutex
	bytes int
	users map[string]*userEvents // those with streams
}

// userEvents is the streams of one user.
type userEvents struct {
	bytes int
	order list.List // of *eventStream, the oldest first
}

// sessionEvents keeps the sent events of a session for a client that resumes with Last-Event-ID. Unlike the SDK's store it bounds the
// streams, and evicts by user and age.
type sessionEvents struct {
	all     *events // its lock guards the streams
	user    string
	streams map[string]*list.Element // of *eventStream; nil once the session is closed
}

// eventStream is the events of one stream.
type eventStream struct {
	of    *sessionEvents
	name  string
	first int // index of data[0]: earlier events are evicted
	data  [][]byte
}

var _ sdk.EventStore = (*sessionEvents)(nil)

// of returns a store for a session of a user.
func (e *events) of(user string) *sessionEvents {
	return &sessionEvents{all: e, user: user, streams: map[string]*list.Element{}}
}

// Open starts a stream.
func (e *sessionEvents) Open(_ context.Context, _, stream string) error {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	if e.streams[stream] != nil || e.streams == nil {
		return nil
	}
	u := e.all.users[e.user]
	if u == nil {
		u = &userEvents{}
		e.all.users[e.user] = u
	}
	e.streams[stream] = u.order.PushBack(&eventStream{of: e, name: stream})
	if len(e.streams) > maxStreams {
		for at := u.order.Front(); at != nil; at = at.Next() {
			if s := at.Value.(*eventStream); s.of == e && s.name != "" {
				e.remove(at)
				break
			}
		}
	}
	return nil
}

// remove removes a stream.
func (e *sessionEvents) remove(at *list.Element) {
	s, u := at.Value.(*eventStream), e.all.users[e.user]
	u.order.Remove(at)
	for _, d := range s.data {
		e.all.add(u, -len(d))
	}
	if u.order.Len() == 0 {
		delete(e.all.users, e.user)
	}
	delete(e.streams, s.name)
}

// add counts n more bytes of a user.
func (e *events) add(u *userEvents, n int) {
	e.bytes += n
	u.bytes += n
}

// Append adds an event. An event of a removed stream has no number: it is sent, and not kept.
func (e *sessionEvents) Append(_ context.Context, _, stream string, data []byte) error {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	at := e.streams[stream]
	if at == nil {
		return sdk.ErrEventsPurged
	}
	s := at.Value.(*eventStream)
	s.data = append(s.data, slices.Clone(data))
	u := e.all.users[e.user]
	e.all.add(u, len(data))
	e.all.evict(u)
	return nil
}

// evict removes the oldest events of the user who holds the most, until there is room. most is any user.
func (e *events) evict(most *userEvents) {
	if e.bytes <= maxEventBytes {
		return
	}
	for _, u := range e.users {
		if u.bytes > most.bytes {
			most = u
		}
	}
	for at := most.order.Front(); at != nil && e.bytes > maxEventBytes; at = at.Next() {
		old := at.Value.(*eventStream)
		for len(old.data) > 0 && e.bytes > maxEventBytes {
			e.add(most, -len(old.data[0]))
			old.data[0] = nil // the array outlives the slice
			old.data, old.first = old.data[1:], old.first+1
		}
	}
}

// After yields the events of a stream after an index. Of the session's own stream, which every new reader reads from its beginning,
// it yields those that are kept.
func (e *sessionEvents) After(_ context.Context, _, stream string, index int) iter.Seq2[[]byte, error] {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	at := e.streams[stream]
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

// SessionClosed removes the streams.
func (e *sessionEvents) SessionClosed(context.Context, string) error {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	for _, at := range e.streams {
		e.remove(at)
	}
	e.streams = nil
	return nil
}
