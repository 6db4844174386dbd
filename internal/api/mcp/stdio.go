package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
)

// maxMessage is how many bytes one message of a client may have: an 8 MiB file as base64, and its escapes.
const maxMessage = 16 << 20

// Serve serves one client: one message a line, from in and to out. It returns after in or ctx ends, once everything that
// belongs to the client is removed. No other code may write to out.
func (k *Kit) Serve(ctx context.Context, c Client, in io.Reader, out io.Writer) error {
	s, err := k.newSession(c, "", nil)
	if err != nil {
		return err
	}
	p := &pipe{
		session: s, out: out, drain: k.opts.Drain, messages: make(chan jsonrpc.Message), closed: make(chan struct{}), idle: make(chan struct{}, 1),
		pending: map[jsonrpc.ID]bool{}, listening: map[jsonrpc.ID]bool{}, batches: map[jsonrpc.ID]*batch{},
	}
	go p.read(in)
	conn, err := s.server.Connect(context.WithoutCancel(ctx), p, nil)
	if err == nil {
		defer context.AfterFunc(ctx, func() {
			s.end(errSessionEnded)
			_ = p.Close() // it cannot fail
		})()
		err = conn.Wait()
	}
	if p.late != nil {
		err = p.late
	}
	return errors.Join(err, p.Close(), s.close())
}

// pipe is a connection of lines. After a line that is not a message it sends an error and reads the next one.
type pipe struct {
	session  *clientSession
	messages chan jsonrpc.Message // closed at the end of input
	once     sync.Once
	closed   chan struct{}
	idle     chan struct{} // has a token when the last call was answered
	drain    time.Duration // how long calls may continue after the end of the input
	late     error         // the error if some continued for longer

	sending sync.Mutex // guards out. A client that does not read blocks this lock only
	out     io.Writer

	mu        sync.Mutex          // guards the fields below
	calls     int                 // to be answered
	pending   map[jsonrpc.ID]bool // calls whose answer is not made
	listening map[jsonrpc.ID]bool // pending subscriptions/listen, which the end of the input answers
	batches   map[jsonrpc.ID]*batch
}

// batch is the messages of one line, as in the protocol up to 2025-03-26. Their answers share a line, too.
type batch struct {
	open    int
	answers []json.RawMessage
}

// Connect makes the pipe a transport.
func (p *pipe) Connect(context.Context) (sdk.Connection, error) { return p, nil }

// SessionID returns "": a process has one client.
func (p *pipe) SessionID() string { return "" }

// Read returns the next message. At the end of input it waits for the answers to all calls.
func (p *pipe) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m, ok := <-p.messages:
		if ok {
			return m, nil
		}
	case <-p.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	late := time.After(p.drain)
	for p.open() > 0 {
		select {
		case <-p.idle:
			continue
		case <-late:
			p.late = &belljar.Error{
				Code: belljar.CodeTimeout, Message: fmt.Sprintf("calls without an answer %v after the end of the input: %d", p.drain, p.open()),
				Hint: "keep the standard input open until the answers are there",
			}
		case <-p.closed:
		case <-ctx.Done():
		}
		break
	}
	p.session.end(errSessionEnded)
	return nil, io.EOF
}

// open returns the number of calls to wait for: those without an answer, except subscriptions.
func (p *pipe) open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls - len(p.listening)
}

// Close ends the pipe. It closes neither in nor out.
func (p *pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// read reads lines until the input ends or the pipe is closed.
func (p *pipe) read(in io.Reader) {
	defer close(p.messages)
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, long, err := nextLine(lines)
		switch {
		case long:
			p.refuse(requestID(line), jsonrpc.CodeInvalidRequest, fmt.Sprintf("a message may have %d bytes; write large files in parts, or over the REST API", maxMessage))
		case len(bytes.TrimSpace(line)) > 0 && !p.readLine(line):
			return
		}
		if err != nil {
			return
		}
	}
}

// nextLine reads a line of at most [maxMessage] bytes. It drops the middle of a longer one.
func nextLine(r *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxMessage; long {
			line = slices.Delete(line, lineEnd, max(lineEnd, len(line)-lineEnd))
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// readLine passes the messages of a line on. It reports false when the pipe is closed.
func (p *pipe) readLine(line []byte) bool {
	var list []json.RawMessage
	inBatch := isBatch(line)
	if !inBatch {
		list = append(list, line)
	}
	code, problem := jsonrpc.CodeInvalidRequest, ""
	switch err := checkText(line); {
	case !utf8.Valid(line) || !json.Valid(line):
		code, problem = jsonrpc.CodeParseError, "the line is not JSON: one message a line, in UTF-8"
	case err != nil:
		problem = err.Error()
	case inBatch && (json.Unmarshal(line, &list) != nil || len(list) == 0):
		problem = "the batch is empty"
	case len(list) > maxBatch:
		problem = fmt.Sprintf("a batch has %d messages at most", maxBatch)
	}
	if problem != "" {
		p.refuse(requestID(line), code, problem)
		return true
	}
	var messages []jsonrpc.Message
	for _, raw := range list {
		var own message
		unread := json.Unmarshal(raw, &own)
		m, err := jsonrpc.DecodeMessage(raw)
		if err != nil {
			err = fmt.Errorf("the line is not a JSON-RPC 2.0 message: %w", err)
		} else if err = unread; err == nil {
			err = own.check()
		}
		if err != nil {
			p.refuse(own.ID, jsonrpc.CodeInvalidRequest, err.Error())
			continue
		}
		messages = append(messages, m)
	}
	for _, m := range p.register(messages, inBatch) {
		if r, ok := m.(*jsonrpc.Request); ok {
			if r.IsCall() { // the SDK does not pass the id on
				r.Extra = &sdk.RequestExtra{Header: http.Header{requestHeader: {requestKey(r.ID.Raw())}}}
			}
			if r.Method == cancelMethod {
				p.session.noteCancelled(r.Params)
			}
		}
		select {
		case p.messages <- m:
		case <-p.closed:
			return false
		}
	}
	return true
}

// register counts the calls that must be answered, and returns the messages. It refuses a call with the id of a pending one,
// because the client could not tell the answers apart.
func (p *pipe) register(messages []jsonrpc.Message, inBatch bool) []jsonrpc.Message {
	var kept []jsonrpc.Message
	var duplicates []jsonrpc.ID
	p.mu.Lock()
	b := &batch{}
	for _, m := range messages {
		r, ok := m.(*jsonrpc.Request)
		switch {
		case !ok || !r.IsCall():
		case p.pending[r.ID]:
			duplicates = append(duplicates, r.ID)
			continue
		default:
			p.pending[r.ID] = true
			p.calls++
			if r.Method == "subscriptions/listen" {
				p.listening[r.ID] = true
			}
			if inBatch {
				b.open++
				p.batches[r.ID] = b
			}
		}
		kept = append(kept, m)
	}
	p.mu.Unlock()
	for _, id := range duplicates {
		raw, _ := json.Marshal(id.Raw()) // a string or a number
		p.refuse(raw, jsonrpc.CodeInvalidRequest, fmt.Sprintf("id %.40s belongs to a request in progress; each request needs its own", raw))
	}
	return kept
}

// Write sends a message.
func (p *pipe) Write(_ context.Context, m jsonrpc.Message) error {
	answer, ok := m.(*jsonrpc.Response)
	if ok {
		answer.Error = coded(answer.Error)
	}
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	if ok {
		if data, err = p.joinBatch(answer.ID, data); data == nil || err != nil {
			return err
		}
		defer p.answered()
	}
	return p.send(data)
}

// joinBatch returns an answer as it is sent. An answer to a batch is nil, except the last, which contains all of them.
func (p *pipe) joinBatch(id jsonrpc.ID, answer []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, id)
	delete(p.listening, id)
	b := p.batches[id]
	if b == nil {
		return answer, nil
	}
	delete(p.batches, id)
	b.answers = append(b.answers, answer)
	if b.open--; b.open > 0 {
		p.calls--
		return nil, nil
	}
	return json.Marshal(b.answers)
}

// answered notes that the answer to a call was sent.
func (p *pipe) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls--; p.calls == len(p.listening) {
		select {
		case p.idle <- struct{}{}:
		default:
		}
	}
}

// send writes a line.
func (p *pipe) send(data []byte) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	_, err := p.out.Write(append(data, '\n'))
	return err
}

// lineEnd is how many bytes of each end of a line [requestID] reads.
const lineEnd = 512

// requestID returns the id of the request that a line is; nil if its ends do not show one. Without the id, the client's call would
// wait for its own timeout. Clients write it in front of params, or last.
func requestID(line []byte) json.RawMessage {
	head, tail := line[:min(len(line), lineEnd)], line[max(0, len(line)-lineEnd):]
	if !regexp.MustCompile(`^\s*\{[^{}]*"method"\s*:`).Match(head) {
		return nil // the id of a response is the server's
	}
	const id = `"id"\s*:\s*("[\w.:-]*"|-?(?:0|[1-9]\d*))\s*`
	found := regexp.MustCompile(`^\s*\{[^{}]*` + id + `,`).FindSubmatch(head)
	if found == nil {
		found = regexp.MustCompile(id + `\}\s*$`).FindSubmatch(tail)
	}
	if found == nil {
		return nil
	}
	return found[1]
}

// refuse answers a line that is not a message.
func (p *pipe) refuse(id json.RawMessage, code int, message string) {
	_ = p.send(refusal(id, code, message)) // a client that is gone needs no answer
}

// refusal returns a JSON-RPC error. An id that is neither a string nor a number is answered as null.
func refusal(id json.RawMessage, code int, message string) []byte {
	if len(id) == 0 || id[0] != '"' && (id[0] < '0' || id[0] > '9') && id[0] != '-' {
		id = json.RawMessage("null")
	}
	data, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": message}})
	return data
}
