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
	// chatInputRate is how many bytes a second a program reads. It is the maximum, because input that stays above the rate is closed.
	chatInputRate = 16 << 20
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
	call     *call
	id       string
	template string
	options  options // changed with the lock of the chat and mu
	resumed  bool
	fromSeq  int // the first earlier message that the client requests; 0 is none

	mu      sync.Mutex // guards the fields below
	program *program   // that gets input
	shown   *program   // whose messages the client gets; the program before, until the client has all of its messages
	greeted bool
}

// unended are the phases of a run that has not ended, in their order.
var unended = []belljar.Phase{belljar.PhaseQueued, belljar.PhaseStarting, belljar.PhaseRunning}

// chats returns the runs of a chat, or of all chats for "", in phases: those of the last phase first, and of each the newest first. A run
// that goes from one phase to a later one meanwhile is found once.
func (c *call) chats(id string, phases ...belljar.Phase) (all []belljar.Run, err error) {
	for _, phase := range phases {
		page, err := c.Engine.Runs().List(c.r.Context(), belljar.RunQuery{SessionID: c.Session, Phase: phase, Limit: belljar.MaxPage})
		if err != nil {
			return nil, err
		}
		now := slices.DeleteFunc(page.Items, func(r belljar.Run) bool {
			return r.Labels[label] != "chat" || id != "" && r.Labels[chatLabel] != id
		})
		for _, r := range all {
			if !slices.ContainsFunc(now, func(later belljar.Run) bool { return later.ID == r.ID }) {
				now = append(now, r)
			}
		}
		all = now
	}
	return all, nil
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
	runs, err := c.chats(x.id, unended...)
	if err != nil {
		return nil, err
	}
	provider := q.Get("provider")
	if c.flag("force_new", false) && (len(runs) == 0 || provider != "" && provider != runs[0].Labels[templateLabel]) {
		runs, claims, x.id = nil, socket.Claims{}, belljar.NewID() // there is nothing to continue
	}
	if x.resumed = len(runs) > 0; x.resumed {
		provider = runs[0].Labels[templateLabel]
		if x.fromSeq > 0 && claims.Run != "" && claims.Run != runs[0].ID { // the number is one of a former program
			x.fromSeq = 1
		}
	} else if claims.Kind == kindChat {
		return nil, socket.NotFound()
	}
	var template Template
	if x.template, template, err = c.template(templateChat, provider, "claude", chatFailed); err != nil {
		return nil, err
	}
	x.options = optionsOf(template, q)
	if x.resumed {
		err = x.resume(runs, template)
	} else {
		x.program, err = x.start(ctx, false)
	}
	if err != nil {
		return nil, err
	}
	x.shown = x.program
	c.door.attend(x.id, 1)
	return x, nil
}

// reserve counts the chat among those of its workspace, although no run of it is listed, until release. It refuses one more than there may
// be; with again, the chat counts already. The lock makes sure that each other reserve finds a restarting chat either running or starting.
func (x *chat) reserve(ctx context.Context, again bool) (release func(), err error) {
	d := x.call.door
	unlock, err := d.locks.Lock(ctx, x.call.Session)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if !again {
		if err := x.room(); err != nil {
			return nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.starting[x.id] = x.call.Session
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.starting, x.id)
	}, nil
}

// room refuses a chat if the workspace has its maximum.
func (x *chat) room() error {
	d, all := x.call.door, map[string]bool{}
	d.mu.Lock()
	for id, session := range d.starting { // read first: a chat that is no longer starting is in the list
		if session == x.call.Session {
			all[id] = true
		}
	}
	d.mu.Unlock()
	runs, err := x.call.chats("", unended...)
	if err != nil {
		return err
	}
	for _, r := range runs {
		all[r.Labels[chatLabel]] = true
	}
	if len(all) >= maxChats {
		return &belljar.Error{Code: belljar.CodeQuotaExceeded, Message: fmt.Sprintf("a workspace has at most %d chats at once", maxChats)}
	}
	return nil
}

func ids(runs []belljar.Run) (list []string) {
	for _, r := range runs {
		list = append(list, r.ID)
	}
	return list
}

// optionsHad returns the options of a chat's run.
func optionsHad(run belljar.Run) options {
	had := options{}
	if json.Unmarshal([]byte(run.Labels[optionsLabel]), &had) != nil || had == nil { // a run of the user's own may have any label
		return options{}
	}
	return had
}

// keep records the option that a control message has set in the program of a run.
func (d *Door) keep(runID string, l controlLine) {
	if name, value := l.sets(); name != "" {
		next := maps.Clone(d.kept(runID))
		next[name] = value
		d.set.Store(runID, next)
	}
}

// kept returns the options that control messages have set in the program of a run, "" for a default of the program.
func (d *Door) kept(runID string) options {
	if v, ok := d.set.Load(runID); ok {
		return v.(options)
	}
	return options{}
}

// resume attaches to the first of the chat's runs. If the client requests options other than the run's, or force_new, resume starts a new
// program in place of all.
func (x *chat) resume(runs []belljar.Run, template Template) (err error) {
	run := runs[0]
	set, began := x.call.door.kept(run.ID), optionsHad(run)
	had, asked, ctx := template.with(began, set), x.options, x.call.r.Context()
	x.options = had
	if len(asked) == 0 {
		asked = had
	}
	for name := range set { // a client need not repeat what a message has set, and may repeat what the program began with
		if v := asked[name]; v == "" || v == began[name] {
			if asked[name] = had[name]; had[name] == "" {
				delete(asked, name)
			}
		}
	}
	if maps.Equal(asked, had) && !x.call.flag("force_new", false) {
		x.program, err = x.follows(ctx, run.ID, x.fromSeq, false)
		return err
	}
	if _, err := template.command(asked, x.id, nil); err != nil {
		return err
	}
	x.options = asked
	x.program, err = x.start(ctx, true, ids(runs)...)
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
	old, shown := x.program, x.shown
	x.program = p
	x.mu.Unlock()
	old.release()
	if old != shown { // Follow does not reach it
		old.stop()
	}
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
	Payload any    `json:"payload,omitempty"` // the line, or the client's message
	// SessionID is a new token, in interrupted and restarted.
	SessionID string `json:"session_id,omitempty"`
}

func chatError(text string) system { return system{Type: "system", Subtype: "error", Message: text} }

func chatFailed(e *belljar.Error) any { return chatError(messageOf(e)) }

// Close implements [socket.Peer].
func (x *chat) Close() {
	x.call.door.attend(x.id, -1)
	x.mu.Lock()
	p, shown := x.program, x.shown
	x.mu.Unlock()
	shown.stop() // Follow may have left it for its successor, and replace leaves it to Follow
	p.stop()
	p.release()
}

// Greet implements [socket.Peer].
func (x *chat) Greet() any { return x.greeting() }

func (x *chat) greeting() connected {
	x.mu.Lock()
	defer x.mu.Unlock()
	token, expires := x.call.token(socket.Claims{Kind: kindChat, ID: x.id, Run: x.shown.runID})
	m := connected{
		Type: "system", Subtype: "connected", SessionID: token, Resumed: x.resumed, ExpiresAt: expires, Provider: x.template,
		Settings: map[string]any{"model": nil, "max_thinking_tokens": nil},
	}
	now := maps.Clone(x.options)
	maps.Copy(now, x.call.door.kept(x.shown.runID))
	for name, v := range now {
		m.Settings[name] = v
		if n, err := strconv.Atoi(v); err == nil && name == "max_thinking_tokens" {
			m.Settings[name] = n
		} else if v == "" {
			m.Settings[name] = nil
		}
	}
	if !x.greeted {
		x.greeted = true
		m.Seq = new(x.shown.before)
	}
	return m
}

// Follow implements [socket.Peer]: it emits the messages of the program, and of programs that replace it. The client learns of each after the
// last message of the one before, with a token that names it.
func (x *chat) Follow(ctx context.Context, emit socket.Emit) socket.Verdict {
	p := x.shown
	for {
		err := p.emit(ctx, emit)
		p.stop()
		var next *program
		if err == nil && ctx.Err() == nil {
			next, err = x.successor(ctx, p)
		}
		if err == nil && next != nil {
			now := x.greeting()
			if err = emit(system{Type: "system", Subtype: "restarted", SessionID: now.SessionID}); err == nil {
				err = emit(now)
			}
		}
		switch {
		case ctx.Err() != nil:
			return socket.Gone()
		case errors.Is(err, errCut):
			return failed(socket.CloseOverflow, "the chat program has printed all that is kept of one; restart it")
		case err != nil:
			return socket.Lost(err)
		case next == nil:
			return x.ended(ctx, p.runID)
		}
		p = next
	}
}

// successor returns the program that has replaced one that has ended, by this client or another one; nil if there is none. It waits for a
// restart in progress.
func (x *chat) successor(ctx context.Context, old *program) (*program, error) {
	unlock, err := x.call.door.locks.Lock(ctx, x.id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	next, had := x.current(), x.options
	if next == old {
		runs, err := x.call.chats(x.id, unended...)
		if err != nil || len(runs) == 0 {
			return nil, nil
		}
		if next, err = x.follows(ctx, runs[0].ID, 1, false); err != nil {
			return nil, nil
		}
		had = optionsHad(runs[0])
		x.replace(next)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.shown, x.options = next, had
	return next, nil
}
