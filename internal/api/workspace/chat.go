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
)

// Labels of the runs that this door starts.
const (
	label         = "workspace"         // chat | git | signal
	chatLabel     = "workspace_chat"    // the id of the chat, which stays when its program is replaced
	templateLabel = "workspace_program" // the name of the template
	optionsLabel  = "workspace_options" // as JSON
)

// MaxChatLifetime is the longest life of a chat's program.
const MaxChatLifetime = 24 * time.Hour

const (
	maxChats  = 8 // of one workspace at once
	chatIdle  = time.Hour
	chatInput = 64 << 20 // bytes that one program reads
	endTime   = 15 * time.Second
)

// clients counts the clients of each chat.
type clients struct {
	mu   sync.Mutex
	byID map[string]int
}

func (c *clients) add(id string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = map[string]int{}
	}
	if c.byID[id] += n; c.byID[id] == 0 {
		delete(c.byID, id)
	}
}

func (c *clients) count(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[id]
}

// chat is the conversation with a program, as one client sees it. The program is an interactive run of the workspace's session, so
// that it, and all that it prints, outlives clients and the server.
type chat struct {
	*call
	id       string
	template string
	options  options
	resumed  bool
	fromSeq  int // the first message of the past that the client wants; 0 is none

	mu      sync.Mutex // guards what follows
	program *program
	greeted bool
}

// program is one run of a chat.
type program struct {
	runID string
	stdin belljar.Stdin // nil if it had ended before
	log   *transcript
}

// running returns the runs of a chat that have not ended, or of all chats for "", the newest first.
func (c *call) running(id string) ([]belljar.Run, error) {
	page, err := c.Engine.Runs().List(c.r.Context(), belljar.RunQuery{SessionID: c.Session, Phase: belljar.PhaseRunning, Limit: belljar.MaxPage})
	return slices.DeleteFunc(page.Items, func(r belljar.Run) bool {
		return r.Labels[label] != "chat" || id != "" && r.Labels[chatLabel] != id
	}), err
}

// chat attaches to the chat of session_id, or begins one.
func (c *call) chat() (peer, error) {
	q := c.r.URL.Query()
	x := &chat{call: c}
	x.fromSeq, _ = strconv.Atoi(q.Get("from_seq"))
	var (
		run belljar.Run
		err error
	)
	if token := q.Get("session_id"); token != "" && !c.flag("force_new", false) {
		claims, err := c.claims(token)
		if err != nil || claims.Kind == kindPTY {
			return nil, notFound()
		}
		x.id = claims.ID
		unlock, err := c.door.locks.lock(c.r.Context(), x.id)
		if err != nil {
			return nil, err
		}
		defer unlock()
		runs, err := c.running(x.id)
		switch {
		case err != nil:
			return nil, err
		case len(runs) > 0:
			run, x.resumed = runs[0], true
		case claims.Kind == kindChat:
			return nil, notFound()
		}
	}
	name := cmp.Or(run.Labels[templateLabel], q.Get("provider"))
	template, ok := Template{}, false
	if x.template, template, ok = c.door.opts.Templates.pick(templateChat, name, "claude"); !ok {
		return nil, x.noTemplate()
	}
	x.options = optionsOf(template, q)
	if x.resumed {
		return x, x.resume(run, template)
	}
	if all, err := c.running(""); err != nil {
		return nil, err
	} else if len(all) >= maxChats {
		return nil, &belljar.Error{Code: belljar.CodeQuotaExceeded, Message: fmt.Sprintf("a workspace has at most %d chats at once", maxChats)}
	}
	x.id = cmp.Or(x.id, belljar.NewID())
	x.program, err = x.start(c.r.Context(), template.Start)
	if err == nil {
		c.door.chats.add(x.id, 1)
	}
	return x, err
}

func (x *chat) noTemplate() error {
	names := x.door.opts.Templates.names(templateChat)
	if len(names) == 0 {
		const text = "no chat program is configured; set SANDBOX_WORKSPACE_TEMPLATES"
		return verdict{websocket.StatusPolicyViolation, text, chatError(text)}
	}
	return unknown(x.template, names, chatFailure)
}

// resume attaches to a run. If the client asks for other options than it has, a new program takes over.
func (x *chat) resume(run belljar.Run, template Template) (err error) {
	had := options{}
	_ = json.Unmarshal([]byte(run.Labels[optionsLabel]), &had) // a label of the door's own
	asked := x.options
	if x.options = had; len(asked) > 0 && !maps.Equal(asked, had) {
		if _, err := template.command(asked, x.id, nil); err != nil {
			return err
		}
		x.options = asked
		if err := x.stop(x.r.Context(), run.ID); err != nil {
			return err
		}
		x.program, err = x.start(x.r.Context(), template.again())
	} else {
		x.program, err = x.follows(x.r.Context(), run.ID, x.fromSeq, false)
	}
	if err == nil {
		x.door.chats.add(x.id, 1)
	}
	return err
}

// again returns the further arguments of a program that goes on with a chat.
func (t Template) again() []string {
	if len(t.Resume) > 0 {
		return t.Resume
	}
	return t.Start
}

// chatEnv is the environment variable with the id of the chat, by which [chat.interrupt] finds its processes.
const chatEnv = "BELLJAR_CHAT"

// start starts a program.
func (x *chat) start(ctx context.Context, more []string) (*program, error) {
	template := x.door.opts.Templates[x.template]
	command, err := template.command(x.options, x.id, more)
	if err != nil {
		return nil, err
	}
	had, err := json.Marshal(x.options)
	if err != nil {
		return nil, err
	}
	env := map[string]string{chatEnv: x.id}
	maps.Copy(env, template.Env)
	run, err := x.Engine.Runs().Start(ctx, belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, SessionID: x.Session, Command: command, Env: env, Interactive: true,
		TimeoutSec: x.door.opts.ChatLifetime.Seconds(), StdinIdleTimeoutSec: chatIdle.Seconds(), StdinMaxBytes: chatInput,
		Labels: map[string]string{label: "chat", chatLabel: x.id, templateLabel: x.template, optionsLabel: string(had)},
	}})
	if err != nil {
		return nil, err
	}
	x.door.opts.Logger.Info("workspace chat", "template", x.template, "run_id", run.ID, "user_id", x.caller.ID, "request_id", x.caller.RequestID)
	return x.follows(ctx, run.ID, 0, true)
}

// follows opens the input and the output of a run. Of a fresh one everything is shown. Of another, what it prints from now on, the
// messages from fromSeq on, and for 0 the last of those that begin a conversation.
func (x *chat) follows(ctx context.Context, runID string, fromSeq int, fresh bool) (*program, error) {
	log, err := x.transcript(runID, fromSeq, fresh)
	if err != nil {
		return nil, err
	}
	stdin, err := x.Engine.Runs().Stdin(ctx, runID)
	if err != nil && belljar.CodeOf(err) != belljar.CodeConflict { // a conflict is that it has ended, which its log shows
		log.close()
		return nil, err
	}
	return &program{runID: runID, stdin: stdin, log: log}, nil
}

// ended is the verdict on a program that has ended.
func (x *chat) ended(ctx context.Context, runID string) verdict {
	v := verdict{code: websocket.StatusNormalClosure, reason: "the program has ended"}
	run, err := x.Engine.Runs().Get(ctx, runID)
	switch {
	case err != nil:
		return notFound()
	case run.ExitCode == nil:
		v.message = chatError("the chat program could not be started")
	case *run.ExitCode != 0 && run.Phase != belljar.PhaseKilled && run.Phase != belljar.PhaseTimedOut:
		v.message = chatError(fmt.Sprintf("the chat program has ended with exit code %d", *run.ExitCode))
	case run.Phase == belljar.PhaseTimedOut:
		v = verdict{closeTimeout, "the chat's lifetime is over", chatError("the chat's lifetime is over")}
	case run.Phase != belljar.PhaseCompleted:
		v.message = chatError("the chat program was ended")
	}
	return v
}

// stop ends a run and waits for that.
func (x *chat) stop(ctx context.Context, runID string) error {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if err := x.Engine.Runs().Cancel(ctx, runID); err != nil {
		return err
	}
	for _, err := range x.Engine.Runs().Frames(ctx, runID, belljar.Tail) {
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *chat) current() *program {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.program
}

// replace makes p the program.
func (x *chat) replace(p *program) {
	x.mu.Lock()
	old := x.program
	x.program = p
	x.mu.Unlock()
	old.release()
}

// release gives the input of a program up.
func (p *program) release() {
	if p.stdin != nil {
		_ = p.stdin.Close() // never fails
	}
}

// connected is the first message, and again each time with a new token.
type connected struct {
	Type      string         `json:"type"`    // system
	Subtype   string         `json:"subtype"` // connected
	SessionID string         `json:"session_id"`
	Resumed   bool           `json:"resumed"`
	Settings  map[string]any `json:"settings"`
	ExpiresAt time.Time      `json:"expires_at"`
	Provider  string         `json:"provider"`
	// Seq is the number of messages that the program has printed before those that follow. Only the first message has it.
	Seq *int `json:"seq,omitempty"`
}

// system is another message of the door's own.
type system struct {
	Type    string `json:"type"`    // system
	Subtype string `json:"subtype"` // error | interrupted | restarted | echo | stderr
	Message string `json:"message,omitempty"`
	Payload string `json:"payload,omitempty"`
}

func chatError(text string) system { return system{Type: "system", Subtype: "error", Message: text} }

func chatFailure(_ belljar.Code, text string) any { return chatError(text) }

func (x *chat) close() {
	x.door.chats.add(x.id, -1)
	p := x.current()
	p.log.close()
	p.release()
}

func (x *chat) greet() (any, error) {
	token, expires, err := x.token(kindChat, x.id)
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
		seq := x.program.log.before
		m.Seq = &seq
	}
	return m, err
}

// follow emits what the program prints, and what those print that replace it.
func (x *chat) follow(ctx context.Context, emit func(any) error) verdict {
	for {
		p := x.current()
		err := p.log.emit(ctx, emit)
		p.log.close()
		switch {
		case ctx.Err() != nil:
			return verdict{reason: "client"}
		case errors.Is(err, errCut):
			const text = "the chat program has printed all that is kept of one; restart it"
			return verdict{closeOverflow, text, chatError(text)}
		case err != nil:
			return lost(err)
		}
		again, err := x.successor(ctx, p, emit)
		switch {
		case ctx.Err() != nil:
			return verdict{reason: "client"}
		case err != nil:
			return lost(err)
		case !again:
			return x.ended(ctx, p.runID)
		}
	}
}

// successor reports whether a program that has ended was replaced, by this client or another one, and then follows the new one. A
// restart that is under way is waited for.
func (x *chat) successor(ctx context.Context, old *program, emit func(any) error) (bool, error) {
	unlock, err := x.door.locks.lock(ctx, x.id)
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
