package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// streamReaders are the requests of a session that read a stream. A stream has one reader, the newest: the server may not have
// noticed that the connection of the one before is broken.
type streamReaders struct {
	mu       sync.Mutex
	byStream map[string]*streamReader
	calling  []*streamReader // for the answers to calls
}

// streamReader is a request that reads a stream.
type streamReader struct {
	http.ResponseWriter
	all    *streamReaders
	stream string // "" until the first event names it
	cancel context.CancelFunc
	done   chan struct{}
	list   []message   // of the request; nil if its body has none
	header http.Header // as the SDK sets it
	small  bool        // the client reads events of at most maxEvent bytes

	mu      sync.Mutex // guards the response, and the fields below
	refused bool       // in plain text, which is not sent
	begun   bool       // the status and the header are sent
	events  bool       // with them, that the response is a stream
	prime   []byte     // the first event, sent with the next one
	beat    *time.Timer
}

// quiet is how long a stream sends nothing before it sends a comment. Clients and proxies close connections that are silent for longer.
const quiet = 15 * time.Second

// maxEvent is how many bytes of an event the Python client reads by default. It reads JSON of any size.
const maxEvent = 1 << 20

// primeWait is how long the first event waits for an answer that must be JSON. Before it, the client cannot resume.
const primeWait = 2 * time.Second

// sessionStream stands for the stream that belongs to no request.
const sessionStream = "-"

// lastEvent is the header with which a client resumes a stream: its id, an underscore and a number.
const lastEvent = "Last-Event-ID"

// claim returns a request that a newer reader of its stream can cancel; call done after it. A request that resumes a stream
// waits until the reader before has ended.
func (all *streamReaders) claim(w http.ResponseWriter, r *http.Request, list []message) (http.ResponseWriter, *http.Request, func()) {
	ctx, cancel := context.WithCancel(r.Context())
	reader := &streamReader{ResponseWriter: w, all: all, cancel: cancel, done: make(chan struct{}), list: list, header: http.Header{}}
	reader.small = strings.HasPrefix(r.UserAgent(), "python-httpx2/")
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
	if reader.stream != "" && reader.stream != sessionStream || slices.ContainsFunc(list, message.ends) {
		all.mu.Lock()
		all.calling = append(all.calling, reader)
		all.mu.Unlock()
	}
	if r.Method == http.MethodGet || slices.ContainsFunc(list, message.streams) {
		reader.mu.Lock()
		reader.beat = time.AfterFunc(quiet, reader.keepAlive)
		reader.mu.Unlock()
	}
	return reader, r.WithContext(ctx), func() {
		cancel()
		reader.end()
		all.mu.Lock()
		if all.byStream[reader.stream] == reader {
			delete(all.byStream, reader.stream)
		}
		all.calling = slices.DeleteFunc(all.calling, func(other *streamReader) bool { return other == reader })
		all.mu.Unlock()
		close(reader.done)
	}
}

// answered waits until the open calls have their answers, for at most a time.
func (all *streamReaders) answered(most time.Duration) {
	all.mu.Lock()
	open := slices.Clone(all.calling)
	all.mu.Unlock()
	late := time.After(most)
	for _, reader := range open {
		select {
		case <-reader.done:
		case <-late:
			return
		}
	}
}

// primeName is the name that the SDK gives the first event of a stream. The protocol requires an id and no data there, and
// clients warn about unknown names.
const primeName = "event: prime\n"

// Header returns the header of the response as the SDK sets it: without a lock, so that it is sent under one.
func (reader *streamReader) Header() http.Header { return reader.header }

const streamType = "text/event-stream"

// begin sends the status and the header, once. The caller holds the mutex.
func (reader *streamReader) begin(status int, header http.Header) {
	if reader.begun {
		return
	}
	reader.begun, reader.events = true, header.Get("Content-Type") == streamType
	sent := reader.ResponseWriter.Header()
	maps.Copy(sent, header)
	if reader.events {
		sent.Set("X-Accel-Buffering", "no") // nginx passes each event on
	}
	reader.ResponseWriter.WriteHeader(status)
	_, _ = reader.ResponseWriter.Write(reader.prime) // a broken connection ends the request
}

// keepAlive sends a comment. If the call has sent nothing, its response becomes a stream.
func (reader *streamReader) keepAlive() {
	reader.mu.Lock()
	defer reader.mu.Unlock()
	if reader.beat == nil || reader.begun && !reader.events { // it has ended, or sends no stream
		return
	}
	reader.begin(http.StatusOK, http.Header{"Content-Type": {streamType}, "Cache-Control": {"no-cache, no-transform"}})
	_ = reader.send([]byte(": still here\n\n")) // a broken connection ends the request
	_ = http.NewResponseController(reader.ResponseWriter).Flush()
}

// end ends the response.
func (reader *streamReader) end() {
	reader.mu.Lock()
	defer reader.mu.Unlock()
	if reader.beat != nil {
		reader.beat.Stop()
		reader.beat = nil
	}
	if !reader.begun {
		maps.Copy(reader.ResponseWriter.Header(), reader.header)
	}
}

// send sends a part of the body. An error in place of the stream that keepAlive began becomes an event. The caller holds the mutex.
func (reader *streamReader) send(b []byte) error {
	if reader.beat != nil {
		reader.beat.Reset(quiet)
	}
	if reader.events && bytes.HasPrefix(b, []byte("{")) {
		b = fmt.Appendf(nil, "event: message\ndata: %s\n\n", bytes.TrimSpace(b))
	}
	_, err := reader.ResponseWriter.Write(b)
	return err
}

// Write takes the id of the stream from the first event with an id. Each call gets a whole event.
func (reader *streamReader) Write(b []byte) (int, error) {
	reader.mu.Lock()
	defer reader.mu.Unlock()
	if reader.refused {
		return len(b), reader.refuse(strings.TrimSpace(string(b)))
	}
	event := bytes.TrimPrefix(b, []byte(primeName))
	reader.all.mu.Lock()
	if reader.stream == "" {
		for line := range bytes.Lines(event) {
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
	switch one := len(reader.list) == 1; {
	case one && reader.small && reader.beat != nil && len(event) < len(b):
		reader.prime = event
		reader.beat.Reset(primeWait)
		return len(b), nil
	case len(event) > maxEvent && one && !reader.begun:
		_, event, _ = bytes.Cut(event, []byte("data: "))
		reader.prime = nil
		reader.header.Set("Content-Type", "application/json")
	case len(event) > maxEvent && reader.small:
		event = withoutPictures(event)
	}
	reader.begin(http.StatusOK, reader.header)
	return len(b), reader.send(event)
}

// withoutPictures returns an event without the pictures of its answer that do not fit into maxEvent.
func withoutPictures(event []byte) []byte {
	head, data, _ := bytes.Cut(event, []byte("data: "))
	var answer, result map[string]json.RawMessage
	var content []json.RawMessage
	if json.Unmarshal(data, &answer) != nil || json.Unmarshal(answer["result"], &result) != nil || json.Unmarshal(result["content"], &content) != nil {
		return event
	}
	room := maxEvent*9/10 - len(event) // encoding can make text longer
	for i, c := range content {
		if room < 0 && bytes.HasPrefix(c, []byte(`{"type":"image"`)) {
			content[i], _ = json.Marshal(&sdk.TextContent{Text: "note: a picture is left out, because this client reads 1 MiB at a time. Read it as a file: as a resource, or with sandbox_fs_read"})
			room += len(c) - len(content[i])
		}
	}
	result["content"], _ = json.Marshal(content) // of JSON, as the others
	answer["result"], _ = json.Marshal(result)
	data, _ = json.Marshal(answer)
	return fmt.Appendf(nil, "%sdata: %s\n\n", head, data)
}

// WriteHeader holds back the status of a refusal in plain text.
func (reader *streamReader) WriteHeader(status int) {
	reader.mu.Lock()
	defer reader.mu.Unlock()
	reader.refused = status == http.StatusBadRequest && strings.HasPrefix(reader.header.Get("Content-Type"), "text/plain")
	if !reader.refused {
		reader.begin(status, reader.header)
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
	case "malformed payload", "POST requires a non-empty body":
		if reader.list == nil {
			code, text = jsonrpc.CodeParseError, "the body is not JSON: one message, in UTF-8"
		}
	case "JSON RPC not handled":
		if id == nil && len(reader.list) == 1 { // an unknown notification is ignored, as on stdio
			reader.header.Del("Content-Type")
			reader.begin(http.StatusAccepted, reader.header)
			return nil
		}
		code, text = jsonrpc.CodeMethodNotFound, "method "+about
		fallthrough
	case "invalid request":
		if id != nil {
			status = http.StatusOK
		}
	}
	reader.header.Set("Content-Type", "application/json")
	reader.begin(status, reader.header)
	return reader.send(refusal(id, code, text))
}

// Flush sends what is buffered.
func (reader *streamReader) Flush() {
	reader.mu.Lock()
	defer reader.mu.Unlock()
	if reader.prime != nil && !reader.begun {
		return
	}
	reader.begin(http.StatusOK, reader.header)
	_ = http.NewResponseController(reader.ResponseWriter).Flush() // a writer without Flush buffers nothing
}
