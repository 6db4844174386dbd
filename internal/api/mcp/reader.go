package mcp

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
)

// streamReaders are the requests of a session that read a stream. A stream has one reader, the newest: the server may not have
// noticed that the connection of the one before is broken.
type streamReaders struct {
	mu       sync.Mutex
	byStream map[string]*streamReader
}

// streamReader is a request that reads a stream.
type streamReader struct {
	http.ResponseWriter
	all    *streamReaders
	stream string // "" until the first event names it
	cancel context.CancelFunc
	done   chan struct{}
}

// sessionStream stands for the stream that belongs to no request.
const sessionStream = "-"

// lastEvent is the header with which a client resumes a stream: its id, an underscore and a number.
const lastEvent = "Last-Event-ID"

// claim returns a request that a newer reader of its stream can cancel; call done after it. A request that resumes a stream
// waits until the reader before has ended.
func (all *streamReaders) claim(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request, func()) {
	ctx, cancel := context.WithCancel(r.Context())
	reader := &streamReader{ResponseWriter: w, all: all, cancel: cancel, done: make(chan struct{})}
	if r.Method == http.MethodGet {
		reader.stream, _, _ = strings.Cut(r.Header.Get(lastEvent), "_")
		if reader.stream == "" {
			reader.stream = sessionStream
		}
		all.mu.Lock()
		before := all.byStream[reader.stream]
		all.add(reader)
		all.mu.Unlock()
		if before != nil {
			before.cancel()
			<-before.done
		}
	}
	return reader, r.WithContext(ctx), func() {
		cancel()
		all.mu.Lock()
		if all.byStream[reader.stream] == reader {
			delete(all.byStream, reader.stream)
		}
		all.mu.Unlock()
		close(reader.done)
	}
}

// add makes a request the reader of its stream. all.mu is held.
func (all *streamReaders) add(reader *streamReader) {
	if all.byStream == nil {
		all.byStream = map[string]*streamReader{}
	}
	all.byStream[reader.stream] = reader
}

// primeName is the name that the SDK gives the first event of a stream. The protocol wants an id and no data there, and clients
// warn of unknown names.
const primeName = "event: prime\n"

// Write takes the id of the stream from the first event with an id. Each call gets a whole event.
func (reader *streamReader) Write(b []byte) (int, error) {
	if event, named := bytes.CutPrefix(b, []byte(primeName)); named {
		n, err := reader.Write(event)
		return n + len(primeName), err
	}
	reader.all.mu.Lock()
	if reader.stream == "" {
		for line := range bytes.Lines(b) {
			if id, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
				stream, _, _ := strings.Cut(string(id), "_")
				if reader.stream = strings.TrimSpace(stream); reader.stream != "" {
					reader.all.add(reader)
				}
				break
			}
		}
	}
	reader.all.mu.Unlock()
	return reader.ResponseWriter.Write(b)
}

// Flush sends what is buffered.
func (reader *streamReader) Flush() {
	_ = http.NewResponseController(reader.ResponseWriter).Flush() // a writer without Flush buffers nothing
}

// Unwrap returns the writer for http.ResponseController.
func (reader *streamReader) Unwrap() http.ResponseWriter { return reader.ResponseWriter }
