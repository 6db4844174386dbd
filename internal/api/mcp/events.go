package mcp

import (
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

// events is what the sessions keep.
type events struct {
	mu    sync.Mutex
	bytes int
	users map[string]*userEvents // those with streams
}

// userEvents is what the sessions of one user keep.
type userEvents struct {
	bytes   int
	streams []*eventStream // the oldest first
}

// sessionEvents keeps the sent events of a session for a client that resumes with Last-Event-ID. Unlike the SDK's store it bounds the
// streams, and evicts by user and age.
type sessionEvents struct {
	all     *events // its lock guards the streams
	user    string
	streams map[string]*eventStream // by name; nil once the session is closed
}

// eventStream is the events of one stream.
type eventStream struct {
	name  string
	first int // index of data[0]: earlier events are evicted
	data  [][]byte
}

var _ sdk.EventStore = (*sessionEvents)(nil)

// of returns a store for a session of a user.
func (e *events) of(user string) *sessionEvents {
	return &sessionEvents{all: e, user: user, streams: map[string]*eventStream{}}
}

// Open starts a stream.
func (e *sessionEvents) Open(_ context.Context, _, stream string) error {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	if e.streams == nil || e.streams[stream] != nil {
		return nil
	}
	u := e.all.users[e.user]
	if u == nil {
		u = &userEvents{}
		e.all.users[e.user] = u
	}
	s := &eventStream{name: stream}
	u.streams, e.streams[stream] = append(u.streams, s), s
	if len(e.streams) > maxStreams {
		oldest := slices.IndexFunc(u.streams, func(s *eventStream) bool { return s.name != "" && e.streams[s.name] == s })
		e.remove(u.streams[oldest])
	}
	return nil
}

// remove removes a stream.
func (e *sessionEvents) remove(s *eventStream) {
	u := e.all.users[e.user]
	for len(s.data) > 0 {
		e.all.evict(u, s)
	}
	delete(e.streams, s.name)
	u.streams = slices.DeleteFunc(u.streams, func(other *eventStream) bool { return other == s })
	if len(u.streams) == 0 {
		delete(e.all.users, e.user)
	}
}

// evict removes the first event of a user's stream.
func (e *events) evict(u *userEvents, s *eventStream) {
	e.count(u, -len(s.data[0]))
	s.data[0] = nil // the array outlives the slice
	s.data, s.first = s.data[1:], s.first+1
}

// count counts n more bytes of a user.
func (e *events) count(u *userEvents, n int) {
	e.bytes += n
	u.bytes += n
}

// Append adds an event. An event of a removed stream has no number: it is sent, and not kept.
func (e *sessionEvents) Append(_ context.Context, _, stream string, data []byte) error {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	s := e.streams[stream]
	if s == nil {
		return sdk.ErrEventsPurged
	}
	s.data = append(s.data, slices.Clone(data))
	most := e.all.users[e.user]
	if e.all.count(most, len(data)); e.all.bytes <= maxEventBytes {
		return nil
	}
	for _, u := range e.all.users {
		if u.bytes > most.bytes {
			most = u
		}
	}
	for _, old := range most.streams {
		for len(old.data) > 0 && e.all.bytes > maxEventBytes {
			e.all.evict(most, old)
		}
	}
	return nil
}

// After yields the events of a stream after an index. Of the session's own stream, which every new reader reads from its beginning,
// it yields those that are kept.
func (e *sessionEvents) After(_ context.Context, _, stream string, index int) iter.Seq2[[]byte, error] {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	s := e.streams[stream]
	if s == nil || index+1 < s.first && stream != "" {
		return func(yield func([]byte, error) bool) { yield(nil, sdk.ErrEventsPurged) }
	}
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
	for _, s := range e.streams {
		e.remove(s)
	}
	e.streams = nil
	return nil
}
