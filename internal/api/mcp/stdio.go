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
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxMessage is how many bytes one message of a client may have: an 8 MiB file as base64, and its escapes.
const maxMessage = 16 << 20

// lastWords is how long calls under way may go on when there is no more input. Then the visit ends.
const lastWords = 5 * time.Second

// Serve serves one client: a message a line, from in and to out. It returns when in ends or ctx does, and nothing of what
// was the client's own is left by then. Nothing else may write to out.
func (k *Kit) Serve(ctx context.Context, c Client, in io.Reader, out io.Writer) error {
	v, err := k.newVisit(c, "", nil)
	if err != nil {
		return err
	}
	p := &pipe{
		visit: v, out: out, messages: make(chan jsonrpc.Message), closed: make(chan struct{}), idle: make(chan struct{}, 1),
		asked: map[jsonrpc.ID]bool{}, batches: map[jsonrpc.ID]*batch{},
	}
	go p.read(in)
	session, err := v.server.Connect(context.WithoutCancel(ctx), p, nil)
	if err != nil {
		return errors.Join(err, p.Close(), v.close())
	}
	defer context.AfterFunc(ctx, func() {
		v.end(errOver)
		_ = p.Close() // it cannot fail
	})()
	err = session.Wait()
	return errors.Join(err, p.Close(), v.close())
}

// pipe is a connection of lines. A line that is no message is answered, and the next one is read.
type pipe struct {
	visit    *visit
	messages chan jsonrpc.Message // closed at the end of input
	once     sync.Once
	closed   chan struct{}
	idle     chan struct{} // gets something when no call is under way

	sending sync.Mutex // of out. A client that does not read holds it, and nothing else
	out     io.Writer

	mu      sync.Mutex          // of what follows
	calls   int                 // under way
	asked   map[jsonrpc.ID]bool // calls under way
	batches map[jsonrpc.ID]*batch
}

// batch is messages that came in one line, as up to 2025-03-26: they are answered in one, too.
type batch struct {
	open    int
	answers []json.RawMessage
}

// Connect makes the pipe a transport.
func (p *pipe) Connect(context.Context) (sdk.Connection, error) { return p, nil }

// SessionID is none: a process has one client.
func (p *pipe) SessionID() string { return "" }

// Read returns the next message. At the end of input it waits for the answers to those before.
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
	late := time.NewTimer(lastWords)
	defer late.Stop()
	for p.busy() {
		select {
		case <-p.idle:
			continue
		case <-late.C:
		case <-p.closed:
		case <-ctx.Done():
		}
		break
	}
	p.visit.end(errOver)
	return nil, io.EOF
}

func (p *pipe) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls > 0
}

// Close ends the pipe. in and out are left to whoever gave them.
func (p *pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// read takes lines until there are no more, or the pipe is closed.
func (p *pipe) read(in io.Reader) {
	defer close(p.messages)
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, long, err := nextLine(lines)
		switch {
		case long:
			p.refuse(nil, jsonrpc.CodeInvalidRequest, fmt.Sprintf("a message may have %d bytes; write large files in parts, or over the REST API", maxMessage))
		case len(bytes.TrimSpace(line)) > 0 && !p.take(line):
			return
		}
		if err != nil {
			return
		}
	}
}

// nextLine reads a line of at most [maxMessage] bytes. A longer one is read and dropped.
func nextLine(r *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxMessage {
			line, long = nil, true
		}
		if !long {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// take hands the messages of a line on. It reports false when the pipe is closed.
func (p *pipe) take(line []byte) bool {
	if !utf8.Valid(line) || !json.Valid(line) {
		p.refuse(nil, jsonrpc.CodeParseError, "the line is not JSON: one message a line, in UTF-8")
		return true
	}
	if err := wellFormed(line); err != nil {
		p.refuse(nil, jsonrpc.CodeInvalidRequest, err.Error())
		return true
	}
	list := []json.RawMessage{line}
	several := bytes.HasPrefix(bytes.TrimSpace(line), []byte("["))
	if several {
		if err := json.Unmarshal(line, &list); err != nil || len(list) == 0 {
			p.refuse(nil, jsonrpc.CodeInvalidRequest, "the batch is empty")
			return true
		}
		if len(list) > mostBatch {
			p.refuse(nil, jsonrpc.CodeInvalidRequest, fmt.Sprintf("a batch has %d messages at most", mostBatch))
			return true
		}
	}
	var messages []jsonrpc.Message
	for _, raw := range list {
		m, err := jsonrpc.DecodeMessage(raw)
		if err != nil {
			p.refuse(idOf(raw), jsonrpc.CodeInvalidRequest, "the line is not a JSON-RPC 2.0 message: "+err.Error())
			continue
		}
		if err := checkID(raw); err != nil {
			p.refuse(idOf(raw), jsonrpc.CodeInvalidRequest, err.Error())
			continue
		}
		messages = append(messages, m)
	}
	messages = p.expect(messages, several)
	for _, m := range messages {
		if r, ok := m.(*jsonrpc.Request); ok {
			p.visit.note(r)
		}
		select {
		case p.messages <- m:
		case <-p.closed:
			return false
		}
	}
	return true
}

// expect counts the calls that have to be answered. It returns the messages without calls that have the id of one under
// way: those are refused, because two answers could not be told apart.
func (p *pipe) expect(messages []jsonrpc.Message, several bool) []jsonrpc.Message {
	var kept []jsonrpc.Message
	var twice []jsonrpc.ID
	p.mu.Lock()
	b := &batch{}
	for _, m := range messages {
		r, ok := m.(*jsonrpc.Request)
		switch {
		case !ok || !r.IsCall():
		case p.asked[r.ID]:
			twice = append(twice, r.ID)
			continue
		default:
			p.asked[r.ID] = true
			p.calls++
			if several {
				b.open++
				p.batches[r.ID] = b
			}
		}
		kept = append(kept, m)
	}
	p.mu.Unlock()
	for _, id := range twice {
		raw, err := json.Marshal(id.Raw())
		if err != nil {
			raw = nil // it is a text or a number
		}
		p.refuse(raw, jsonrpc.CodeInvalidRequest, fmt.Sprintf("id %.40s belongs to a request in progress; each request needs its own", raw))
	}
	return kept
}

// Write sends a message.
func (p *pipe) Write(_ context.Context, m jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	if answer, ok := m.(*jsonrpc.Response); ok {
		if data, err = p.whole(answer.ID, data); data == nil || err != nil {
			return err
		}
		defer p.answered()
	}
	return p.send(data)
}

// whole is an answer as it is sent: by itself, or with the others of its batch once they are there, and nil before.
func (p *pipe) whole(id jsonrpc.ID, answer []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.asked, id)
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

// answered notes that a call is no longer under way.
func (p *pipe) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls--; p.calls == 0 {
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

// refuse answers a line that is no message. id is JSON, nil if there is none.
func (p *pipe) refuse(id json.RawMessage, code int, message string) {
	if id == nil {
		id = json.RawMessage("null")
	}
	data, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": message}})
	if err != nil {
		return // it cannot be
	}
	_ = p.send(data) // a client that is gone needs no answer
}

// idOf is the id of what is no message otherwise; nil if it has none that can be answered to.
func idOf(raw json.RawMessage) json.RawMessage {
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(raw, &m) != nil || len(m.ID) == 0 || m.ID[0] != '"' && (m.ID[0] < '0' || m.ID[0] > '9') && m.ID[0] != '-' {
		return nil
	}
	return m.ID
}

// note tells the visit of a request what the SDK keeps to itself: its id, and why another one is cancelled.
func (v *visit) note(r *jsonrpc.Request) {
	if r.IsCall() {
		r.Extra = &sdk.RequestExtra{Header: http.Header{requestHeader: {requestKey(r.ID.Raw())}}}
	}
	if r.Method == cancelMethod {
		v.noteCancelled(r.Params)
	}
}

const cancelMethod = "notifications/cancelled"

// noteCancelled reads a notification that a request is cancelled.
func (v *visit) noteCancelled(params json.RawMessage) {
	var in struct {
		RequestID any    `json:"requestId"`
		Reason    string `json:"reason"`
	}
	if json.Unmarshal(params, &in) == nil {
		v.cancelled(requestKey(in.RequestID), in.Reason)
	}
}

// requestKey is a request's id as text: numbers and texts do not mix.
func requestKey(id any) string {
	switch n := id.(type) {
	case float64:
		return fmt.Sprintf("%.0f", n)
	case int64:
		return fmt.Sprintf("%d", n)
	case string:
		return "'" + n
	}
	return ""
}
