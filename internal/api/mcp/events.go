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

// events keeps sent events for clients that resume with Last-Event-ID. Unlike the SDK's store it bounds the streams of a
// session, and evicts by user and age.
type events struct {
	userOf   func(session string) string
	mu       sync.Mutex
	bytes    int
	sessions map[string]map[string]*list.Element // of *eventStream, by session and stream
	users    map[string]*userEvents              // those with streams
}

// userEvents is the streams of one user.
type userEvents struct {
	bytes int
	order list.List // of *eventStream, the oldest first
}

// eventStream is the events of one stream.
type eventStream struct {
	user, session, stream string
	first                 int // index of data[0]: earlier events are evicted
	data                  [][]byte
}

var _ sdk.EventStore = (*events)(nil)

// Open starts a stream.
func (e *events) Open(_ context.Context, session, stream string) error {
	user := e.userOf(session)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sessions == nil {
		e.sessions, e.users = map[string]map[string]*list.Element{}, map[string]*userEvents{}
	}
	streams := e.sessions[session]
	if streams == nil {
		streams = map[string]*list.Element{}
		e.sessions[session] = streams
	}
	if streams[stream] != nil {
		return nil
	}
	if e.users[user] == nil {
		e.users[user] = &userEvents{}
	}
	order := &e.users[user].order
	streams[stream] = order.PushBack(&eventStream{user: user, session: session, stream: stream})
	if len(streams) > maxStreams {
		for at := order.Front(); at != nil; at = at.Next() {
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
	s := at.Value.(*eventStream)
	u := e.users[s.user]
	u.order.Remove(at)
	for _, d := range s.data {
		e.add(u, -len(d))
	}
	if u.order.Len() == 0 {
		delete(e.users, s.user)
	}
	delete(e.sessions[s.session], s.stream)
}

// add counts n more bytes of a user.
func (e *events) add(u *userEvents, n int) {
	e.bytes += n
	u.bytes += n
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
	most := e.users[s.user]
	if e.add(most, len(data)); e.bytes <= maxEventBytes {
		return nil
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
