package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/keylock"
)

// Path is the path of the door.
const Path = "/mcp"

// sessionHeader holds the id of the session that a request belongs to.
const sessionHeader = "Mcp-Session-Id"

// DoorOptions configure a door. Kit, Engine, Auth and Secret are required.
type DoorOptions struct {
	Kit    *Kit
	Engine belljar.Engine
	Auth   api.Authenticator
	// Secret signs the ids of MCP sessions: at least 32 bytes, secret, and the same after a restart.
	Secret []byte
	// Bodies bounds the memory of one user's request bodies; nil is [api.JSONShares] for this door alone.
	Bodies *api.Shares
	// OriginAllowed reports whether a browser's page may call; nil allows all.
	OriginAllowed func(r *http.Request) bool
	// StreamURL returns the address at which the sender of r can follow a run; nil if there is none.
	StreamURL func(r *http.Request, run belljar.Run) string
	// Terms bound the terms that clients' URLs request.
	Terms Terms
	// Idle is how long a session lasts without a request and without an open stream; 0 is 15 minutes.
	Idle time.Duration
	// MaxSessions limits the sessions of one user; 0 is 100. A new session ends the one that is idle longest.
	MaxSessions int
	// Began is when this process began to continue the runs of an earlier one; zero is now.
	Began time.Time
	// AfterFunc is the clock; nil is time.AfterFunc.
	AfterFunc func(d time.Duration, f func()) (stop func() bool)
}

// Door answers requests. Make one with [NewDoor].
type Door struct {
	opts    DoorOptions
	sealer  *api.Sealer
	answers *api.Shares // for what resources and files are read into
	boot    string      // the id of this process: it does not resume sessions that it made itself
	events  events

	resuming keylock.Locks[string] // by the key of a session

	mu       sync.Mutex
	closed   bool
	sessions map[string]*httpSession
	ended    map[string]endedSessions // by user: sessions of earlier processes that ended in this one
	closing  sync.WaitGroup
}

// NewDoor returns a door to an engine.
func NewDoor(o DoorOptions) (*Door, error) {
	switch {
	case o.Kit == nil || o.Engine == nil || o.Auth == nil:
		return nil, errors.New("mcp: kit, engine or authenticator is missing")
	case len(o.Secret) < 32:
		return nil, errors.New("mcp: the secret is shorter than 32 bytes")
	}
	terms := o.Terms
	if err := terms.complete(); err != nil {
		return nil, err
	}
	o.Bodies = cmp.Or(o.Bodies, api.JSONShares())
	o.Idle, o.MaxSessions = cmp.Or(o.Idle, 15*time.Minute), cmp.Or(o.MaxSessions, 100)
	if o.Began.IsZero() {
		o.Began = time.Now()
	}
	if o.AfterFunc == nil {
		o.AfterFunc = func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
	}
	return &Door{
		opts: o, sealer: api.NewSealer(o.Secret, "", "mcp session"), boot: belljar.NewID(), answers: api.NewShares(64<<20, 20*time.Second),
		sessions: map[string]*httpSession{}, ended: map[string]endedSessions{}, events: events{users: map[string]*userEvents{}},
	}, nil
}

// Register puts the door on a mux.
func (d *Door) Register(mux *http.ServeMux) { mux.Handle(Path, d) }

// ServeHTTP answers a request of an authenticated caller.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	api.Route(r.Context(), r.Method+" "+Path)
	if err := d.serve(w, r); err != nil {
		api.Fail(w, r, err)
	}
}

// serve answers a request. After an error, no answer is written.
func (d *Door) serve(w http.ResponseWriter, r *http.Request) error {
	if d.opts.OriginAllowed != nil && !d.opts.OriginAllowed(r) {
		return &belljar.Error{
			Code: belljar.CodeForbidden, Message: "this page may not call the server", Details: map[string]any{"field": "Origin"},
			Hint: "an operator allows it with SANDBOX_ALLOWED_ORIGINS",
		}
	}
	caller, err := d.opts.Auth.Authenticate(r)
	if err != nil {
		return err
	}
	caller.Source = cmp.Or(caller.Source, "mcp")
	r = r.WithContext(api.WithCaller(r.Context(), caller))
	caller = api.CallerOf(r.Context())
	id := r.Header.Get(sessionHeader)
	switch {
	case r.Method != http.MethodPost && r.Method != http.MethodGet && r.Method != http.MethodDelete:
		w.Header().Set("Allow", "GET, POST, DELETE")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return nil
	case r.Method != http.MethodPost && id == "":
		return noSession()
	}
	r.Header.Set(api.RequestIDHeader, caller.RequestID)
	r.Header.Set(traceHeader, caller.TraceID)
	var list []message
	if r.Method == http.MethodPost {
		body, release, err := d.opts.Bodies.ReadBody(w, r, maxMessage)
		if err != nil {
			return err
		}
		defer release()
		r.Body = io.NopCloser(bytes.NewReader(body))
		if list, err = messagesOf(body); list == nil {
			r.Body = http.NoBody // of text that begins with a message, the SDK would read that
		}
		if err == nil {
			err = api.CountMore(r.Context(), len(list)-1)
		}
		if err != nil {
			return err
		}
	}
	if id == "" && len(list) == 1 && list[0].Method == "initialize" {
		return d.initialize(w, r, caller, list)
	}
	var hs *httpSession
	switch {
	case id != "":
		hs, err = d.find(r, caller, id)
	case isSessionless(r, list):
		hs, err = d.shared(r, caller)
	default:
		err = noSession()
	}
	if err != nil {
		return err
	}
	if r.Method == http.MethodDelete {
		d.end(hs)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	defer d.acquire(hs)()
	hs.note(r, list)
	hs.serve(w, r, list)
	return nil
}

// note keeps what the SDK drops: a request's id, which messages are a batch, and the reason of a cancellation.
func (hs *httpSession) note(r *http.Request, list []message) {
	if r.Header.Del(requestHeader); len(list) > 1 {
		r.Header.Set(requestHeader, batchPrefix+belljar.NewID())
	}
	for _, m := range list {
		if m.Method == cancelMethod {
			hs.noteCancelled(m.Params)
		} else if len(list) == 1 && m.ID != nil {
			r.Header.Set(requestHeader, requestKey(m.ID))
		}
	}
}

// serve makes the SDK answer a request of the session.
func (hs *httpSession) serve(w http.ResponseWriter, r *http.Request, list []message) {
	w, r, done := hs.streams.claim(w, r, list)
	defer done()
	hs.handler.ServeHTTP(w, r)
}

func noSession() error {
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: sessionHeader + " is missing", Details: map[string]any{"field": sessionHeader},
		Hint: "send initialize first, then the id that its answer's header has",
	}
}

// initialize starts a session.
func (d *Door) initialize(w http.ResponseWriter, r *http.Request, caller belljar.Caller, list []message) error {
	var in sdk.InitializeParams
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(json.Unmarshal(list[0].Params, &in), &wrong) { // the SDK's error has no code
		w.Header().Set("Content-Type", "application/json")
		where := strings.TrimSuffix("params."+wrong.Field, ".")
		_, _ = w.Write(refusal(list[0].ID, jsonrpc.CodeInvalidParams, fmt.Sprintf("%s of initialize must not be a JSON %s", where, wrong.Value)))
		return nil
	}
	if in.ClientInfo == nil { // it is absent, or null
		in.ClientInfo = &sdk.Implementation{}
	}
	hs, err := d.start(r, caller, token{
		User: caller.ID, Agent: belljar.NewID(), Query: r.URL.RawQuery, Boot: d.boot, Version: cut(in.ProtocolVersion, 32), Client: cut(in.ClientInfo.Name, 64),
	}, "", false)
	if err != nil {
		return err
	}
	defer d.acquire(hs)()
	hs.serve(w, r, list)
	if hs.connection() == nil {
		d.end(hs) // the SDK refused it
	}
	return nil
}

// cut returns the first n bytes of a text, at most.
func cut(s string, n int) string { return strings.ToValidUTF8(s[:min(len(s), n)], "") }

// answerTime bounds how long the answers of ended calls may take.
const answerTime = 5 * time.Second

// Close ends all calls and sends their answers. The sandboxes stay: their clients resume on the next server.
func (d *Door) Close() error {
	d.mu.Lock()
	d.closed = true
	var all sync.WaitGroup
	for _, hs := range d.sessions {
		hs.stopTimer()
		all.Go(func() {
			hs.end(errStopping)
			hs.refuse()
			hs.streams.answered(answerTime) // the SDK drops answers after the end of a connection
			hs.disconnect()
			hs.working.Wait()
		})
	}
	clear(d.sessions)
	d.mu.Unlock()
	all.Wait()
	d.closing.Wait()
	return nil
}
