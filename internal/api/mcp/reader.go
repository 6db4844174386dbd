package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
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
	all     *streamReaders
	stream  string // "" until the first event names it
	cancel  context.CancelFunc
	done    chan struct{}
	list    []message // of the request; nil if its body has none
	refused bool      // in plain text, which is not sent
}

// sessionStream stands for the stream that belongs to no request.
const sessionStream = "-"

// lastEvent is the header with which a client resumes a stream: its id, an underscore and a number.
const lastEvent = "Last-Event-ID"

// claim returns a request that a newer reader of its stream can cancel; call done after it. A request that resumes a stream
// waits until the reader before has ended.
func (all *streamReaders) claim(w http.ResponseWriter, r *http.Request, list []message) (http.ResponseWriter, *http.Request, func()) {
	ctx, cancel := context.WithCancel(r.Context())
	reader := &streamReader{ResponseWriter: w, all: all, cancel: cancel, done: make(chan struct{}), list: list}
	if r.Method == http.MethodGet {
		reader.stream, _, _ = strings.Cut(r.Header.Get(lastEvent), "_")
		if reader.stream == "" {
			reader.stream = sessionStream
		}
		all.mu.Lock()
		before := all.byStream[reader.stream]
		all.byStream[reader.stream] = reader
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

// primeName is the name that the SDK gives the first event of a stream. The protocol requires an id and no data there, and
// clients warn about unknown names.
const primeName = "event: prime\n"

// Write takes the id of the stream from the first event with an id. Each call gets a whole event.
func (reader *streamReader) Write(b []byte) (int, error) {
	if reader.refused {
		return len(b), reader.refuse(strings.TrimSpace(string(b)))
	}
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
					reader.all.byStream[reader.stream] = reader
				}
				break
			}
		}
	}
	reader.all.mu.Unlock()
	return reader.ResponseWriter.Write(b)
}

// WriteHeader holds back the status of a refusal in plain text.
func (reader *streamReader) WriteHeader(status int) {
	reader.refused = status == http.StatusBadRequest && strings.HasPrefix(reader.Header().Get("Content-Type"), "text/plain")
	if !reader.refused {
		reader.ResponseWriter.WriteHeader(status)
	}
}

// refuse sends a JSON-RPC error in place of the SDK's text. The error of a call has status 200, because clients read no other.
func (reader *streamReader) refuse(text string) error {
	status, code, id := http.StatusBadRequest, jsonrpc.CodeInvalidRequest, json.RawMessage(nil)
	if len(reader.list) == 1 {
		id = reader.list[0].ID
	}
	kind, about, _ := strings.Cut(text, ": ")
	switch kind {
	case "malformed payload":
		if reader.list == nil {
			code, text = jsonrpc.CodeParseError, "the body is not JSON: one message, in UTF-8"
		}
	case "JSON RPC not handled":
		if id == nil && len(reader.list) == 1 { // an unknown notification is ignored, as on stdio
			reader.Header().Del("Content-Type")
			reader.ResponseWriter.WriteHeader(http.StatusAccepted)
			return nil
		}
		code, text = jsonrpc.CodeMethodNotFound, "method "+about
		fallthrough
	case "invalid request":
		if id != nil {
			status = http.StatusOK
		}
	}
	reader.Header().Set("Content-Type", "application/json")
	reader.ResponseWriter.WriteHeader(status)
	_, err := reader.ResponseWriter.Write(refusal(id, code, text))
	return err
}

// Flush sends what is buffered.
func (reader *streamReader) Flush() {
	_ = http.NewResponseController(reader.ResponseWriter).Flush() // a writer without Flush buffers nothing
}

// Unwrap returns the writer for http.ResponseController.
func (reader *streamReader) Unwrap() http.ResponseWriter { return reader.ResponseWriter }
