package workspace

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/socket"
)

// Labels of the runs that this door starts.
const (
	label         = "workspace"         // chat | git | signal
	chatLabel     = "workspace_chat"    // the id of the chat, which stays the same when its program is replaced
	templateLabel = "workspace_program" // the name of the template
	optionsLabel  = "workspace_options" // as JSON
)

// MaxChatLifetime is the longest life of a chat's program.
const MaxChatLifetime = 24 * time.Hour

const (
	maxChats  = 8 // of one workspace at the same time
	chatIdle  = time.Hour
	chatInput = 64 << 20         // bytes that one program reads
	endTime   = 15 * time.Second // for a program to end
)

// attend changes the number of a chat's clients by n, and returns it.
func (d *Door) attend(id string, n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clients[id] += n
	left := d.clients[id]
	if left == 0 {
		delete(d.clients, id)
	}
	return left
}

// chat is the conversation with a program, as one client sees it. The program is an interactive run of the workspace's session, so
// that the program and its output outlive clients and the server.
type chat struct {
	*call
	id       string
	template string
	options  options
	resumed  bool
	fromSeq  int // the first earlier message that the client requests; 0 is none

	mu      sync.Mutex // guards the fields below
	program *program
	greeted bool
}

// running returns the runs of a chat that have not ended, or of all chats for "", the newest first.
func (c *call) running(id string) ([]belljar.Run, error) {
	page, err := c.Engine.Runs().List(c.r.Context(), belljar.RunQuery{SessionID: c.Session, Phase: belljar.PhaseRunning, Limit: belljar.MaxPage})
	return slices.DeleteFunc(page.Items, func(r belljar.Run) bool {
		return r.Labels[label] != "chat" || id != "" && r.Labels[chatLabel] != id
	}), err
}

// chat attaches to the chat of session_id, or starts one.
func (c *call) chat() (socket.Peer, error) {
	q, ctx := c.r.URL.Query(), c.r.Context()
	x := &chat{call: c}
	x.fromSeq, _ = strconv.Atoi(q.Get("from_seq"))
	claims, err := c.returns(kindChat)
	if err != nil {
		return nil, err
	}
	x.id = cmp.Or(claims.ID, belljar.NewID())
	unlock, err := c.door.locks.Lock(ctx, x.id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	all, err := c.running("")
	if err != nil {
		return nil, err
	}
	runs := slices.DeleteFunc(slices.Clone(all), func(r belljar.Run) bool { return r.Labels[chatLabel] != x.id })
	provider := q.Get("provider")
	if x.resumed = len(runs) > 0; x.resumed {
		provider = runs[0].Labels[templateLabel]
	} else if claims.Kind == kindChat {
		return nil, socket.NotFound()
	}
	var template Template
	if x.template, template, err = c.template(templateChat, provider, "claude", chatFailed); err != nil {
		return nil, err
	}
	x.options = optionsOf(template, q)
	switch {
	case x.resumed:
		err = x.resume(runs[0], template)
	case len(all) >= maxChats:
		return nil, &belljar.Error{Code: belljar.CodeQuotaExceeded, Message: fmt.Sprintf("a workspace has at most %d chats at once", maxChats)}
	default:
		x.program, err = x.start(ctx, false)
	}
	if err != nil {
		return nil, err
	}
	c.door.attend(x.id, 1)
	return x, nil
}

// resume attaches to a run. If the client requests options other than the run's, resume starts a new program in its place.
func (x *chat) resume(run belljar.Run, template Template) (err error) {
	had := options{}
	_ = json.Unmarshal([]byte(run.Labels[optionsLabel]), &had) // this door sets the label
	asked, ctx := x.options, x.r.Context()
	x.options = had
	if len(asked) == 0 || maps.Equal(asked, had) {
		x.program, err = x.follows(ctx, run.ID, x.fromSeq, false)
		return err
	}
	if _, err := template.command(asked, x.id, nil); err != nil {
		return err
	}
	x.options = asked
	if err := x.end(ctx, run.ID); err != nil {
		return err
	}
	x.program, err = x.start(ctx, true)
	return err
}

// failed is a verdict whose reason is sent to the client.
func failed(code websocket.StatusCode, text string) socket.Verdict {
	return socket.Verdict{Code: code, Reason: text, Message: chatError(text)}
}

func (x *chat) current() *program {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.program
}

// replace makes p the program, and releases the input of the previous one.
func (x *chat) replace(p *program) {
	x.mu.Lock()
	old := x.program
	x.program = p
	x.mu.Unlock()
	old.release()
}

// connected is the first message, sent again with each new token.
type connected struct {
	Type      string         `json:"type"`    // system
	Subtype   string         `json:"subtype"` // connected
	SessionID string         `json:"session_id"`
	Resumed   bool           `json:"resumed"`
	Settings  map[string]any `json:"settings"`
	ExpiresAt time.Time      `json:"expires_at"`
	Provider  string         `json:"provider"`
	// Seq is the number of the program's messages before the ones that follow. Only the first message has it.
	Seq *int `json:"seq,omitempty"`
}

// system is any other message of the door's own.
type system struct {
	Type    string `json:"type"`    // system
	Subtype string `json:"subtype"` // error | interrupted | restarted | echo | stderr
	Message string `json:"message,omitempty"`
	Payload string `json:"payload,omitempty"`
}

func chatError(text string) system { return system{Type: "system", Subtype: "error", Message: text} }

func chatFailed(e *belljar.Error) any { return chatError(messageOf(e)) }

// Close implements [socket.Peer].
func (x *chat) Close() {
	x.door.attend(x.id, -1)
	p := x.current()
	p.stop()
	p.release()
}

// Greet implements [socket.Peer].
func (x *chat) Greet() any {
	token, expires := x.token(kindChat, x.id)
	m := connected{
		Type: "system", Subtype: "connected", SessionID: token, Resumed: x.resumed, ExpiresAt: expires, Provider: x.template,
		Settings: map[string]any{"model": nil, "max_thinking_tokens": nil},
	}
	for name, v := range x.options {
		m.Settings[name] = v
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.greeted {
		x.greeted = true
		m.Seq = new(x.program.before)
	}
	return m
}

// Follow implements [socket.Peer]: it emits the messages of the program, and of programs that replace it.
func (x *chat) Follow(ctx context.Context, emit socket.Emit) socket.Verdict {
	for {
		p := x.current()
		err := p.emit(ctx, emit)
		p.stop()
		replaced := false
		if err == nil && ctx.Err() == nil {
			replaced, err = x.successor(ctx, p, emit)
		}
		switch {
		case ctx.Err() != nil:
			return socket.Gone()
		case errors.Is(err, errCut):
			return failed(socket.CloseOverflow, "the chat program has printed all that is kept of one; restart it")
		case err != nil:
			return socket.Lost(err)
		case !replaced:
			return x.ended(ctx, p.runID)
		}
	}
}

// successor reports whether a program that has ended was replaced, by this client or another one. It then follows the new program.
// It waits for a restart in progress.
func (x *chat) successor(ctx context.Context, old *program, emit socket.Emit) (bool, error) {
	unlock, err := x.door.locks.Lock(ctx, x.id)
	if err != nil {
		return false, err
	}
	defer unlock()
	if x.current() != old {
		return true, nil
	}
	runs, err := x.running(x.id)
	if err != nil || len(runs) == 0 {
		return false, nil
	}
	next, err := x.follows(ctx, runs[0].ID, 1, false)
	if err != nil {
		return false, nil
	}
	x.replace(next)
	return true, emit(system{Type: "system", Subtype: "restarted"})
}
