package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// Path is where the door stands.
const Path = "/mcp"

// sessionHeader names the visit that a request belongs to.
const sessionHeader = "Mcp-Session-Id"

// DoorOptions is what the door opens to. Kit, Engine, Auth and Secret are required.
type DoorOptions struct {
	Kit    *Kit
	Engine belljar.Engine
	Auth   api.Authenticator
	// Secret seals the ids of MCP sessions: at least 32 bytes that nobody else has, the same after a restart.
	Secret []byte
	// Bodies bounds what the bodies of one user take up; nil is [api.JSONShares] of this door's own.
	Bodies *api.Shares
	// OriginAllowed reports whether a browser's page may call; nil allows all.
	OriginAllowed func(r *http.Request) bool
	// StreamURL is where whoever sent r can follow a run; nil is nowhere.
	StreamURL func(r *http.Request, run belljar.Run) string
	// Terms bound those that clients' URLs ask for.
	Terms Terms
	// Idle is how long a visit lasts without a request and without an open stream; 0 is 15 minutes.
	Idle time.Duration
	// Visits is how many one user may have at once; 0 is 100. The one that is idle longest ends for a new one.
	Visits int
	// AfterFunc is the clock; nil is the machine's.
	AfterFunc func(d time.Duration, f func()) (stop func() bool)
}

// Door answers requests. Make one with [NewDoor].
type Door struct {
	opts    DoorOptions
	sealer  *api.Sealer
	boot    string // of this process: ids that it made are those it knows
	handler *sdk.StreamableHTTPHandler
	// stateless answers requests of the protocol without sessions.
	stateless *sdk.StreamableHTTPHandler

	reviving sync.Mutex

	mu     sync.Mutex
	closed bool
	guests map[string]*guest
	ended  map[string]bool // visits of earlier processes that ended in this one
	ending sync.WaitGroup
}

// guest is a visit over HTTP.
type guest struct {
	*visit
	session string // its id
	caller  belljar.Caller
	busy    int         // requests and streams that are open
	since   time.Time   // when the last one ended
	stop    func() bool // ends the wait for the end; nil if there is none
	streams holds
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
	if o.Bodies == nil {
		o.Bodies = api.JSONShares()
	}
	if o.Idle == 0 {
		o.Idle = 15 * time.Minute
	}
	if o.Visits == 0 {
		o.Visits = 100
	}
	if o.AfterFunc == nil {
		o.AfterFunc = func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
	}
	d := &Door{
		opts: o, sealer: api.NewSealer(o.Secret, "", "mcp session"), boot: belljar.NewID(),
		guests: map[string]*guest{}, ended: map[string]bool{},
	}
	d.handler = sdk.NewStreamableHTTPHandler(serverOf, &sdk.StreamableHTTPOptions{
		Logger: o.Kit.log, EventStore: &events{}, DisableLocalhostProtection: true, MaxRequestBodyBytes: -1, // both are the edge's, and ours
	})
	d.stateless = sdk.NewStreamableHTTPHandler(serverOf, &sdk.StreamableHTTPOptions{
		Logger: o.Kit.log, DisableLocalhostProtection: true, MaxRequestBodyBytes: -1, Stateless: true, PropagateRequestCancellation: true,
	})
	return d, nil
}

// Register puts the door on a mux.
func (d *Door) Register(mux *http.ServeMux) { mux.Handle(Path, d) }

type serverKey struct{}

// serverOf is the server that a request is for, as the door has found it.
func serverOf(r *http.Request) *sdk.Server {
	s, _ := r.Context().Value(serverKey{}).(*sdk.Server)
	return s
}

// ServeHTTP answers a request of somebody known.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	api.Route(r.Context(), r.Method+" "+Path)
	if d.opts.OriginAllowed != nil && !d.opts.OriginAllowed(r) {
		api.Fail(w, r, &belljar.Error{
			Code: belljar.CodeForbidden, Message: "this page may not call the server", Details: map[string]any{"field": "Origin"},
			Hint: "an operator allows it with SANDBOX_ALLOWED_ORIGINS",
		})
		return
	}
	caller, err := d.opts.Auth.Authenticate(r)
	if err != nil {
		api.Fail(w, r, err)
		return
	}
	if caller.Source == "" {
		caller.Source = "mcp"
	}
	r = r.WithContext(api.WithCaller(r.Context(), caller))
	if err := d.serve(w, r, api.CallerOf(r.Context())); err != nil {
		api.Fail(w, r, err)
	}
}

// serve answers a request, or returns why not.
func (d *Door) serve(w http.ResponseWriter, r *http.Request, caller belljar.Caller) error {
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
		body, give, err := d.opts.Bodies.ReadBody(w, r, maxMessage)
		if err != nil {
			return err
		}
		defer give()
		r.Body = io.NopCloser(bytes.NewReader(body))
		if list, err = messagesOf(body); err != nil {
			return err
		}
	}
	if id == "" {
		return d.welcome(w, r, caller, list)
	}
	g, err := d.find(r, caller, id)
	if err != nil {
		return err
	}
	if r.Method == http.MethodDelete {
		d.dismiss(g)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	defer d.enter(g)()
	g.note(r, list)
	g.serve(d.handler, w, r)
	return nil
}

// note tells of a request what the SDK keeps to itself: its id, and why another one is cancelled.
func (g *guest) note(r *http.Request, list []message) {
	r.Header.Del(requestHeader)
	for _, m := range list {
		if m.Method == cancelMethod {
			g.noteCancelled(m.Params)
		} else if len(list) == 1 && m.ID != nil {
			r.Header.Set(requestHeader, keyOf(m.ID))
		}
	}
}

// serve has the SDK answer a request of the visit.
func (g *guest) serve(h http.Handler, w http.ResponseWriter, r *http.Request) {
	w, r, done := g.streams.take(w, r)
	defer done()
	h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), serverKey{}, g.server)))
}

func noSession() error {
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: sessionHeader + " is missing", Details: map[string]any{"field": sessionHeader},
		Hint: "send initialize first, then the id that its answer's header has",
	}
}

// initialize is what of an initialize request a visit is begun again from after a restart.
type initialize struct {
	ProtocolVersion string `json:"protocolVersion"`
	ClientInfo      struct {
		Name string `json:"name"`
	} `json:"clientInfo"`
}

// welcome answers a request that belongs to no visit: initialize begins one.
func (d *Door) welcome(w http.ResponseWriter, r *http.Request, caller belljar.Caller, list []message) error {
	if len(list) != 1 || list[0].Method != "initialize" {
		if !modern(r, list) {
			return noSession()
		}
		g, err := d.resident(r, caller)
		if err != nil {
			return err
		}
		defer d.enter(g)()
		g.note(r, list)
		g.serve(d.stateless, w, r)
		return nil
	}
	var in initialize
	if json.Unmarshal(list[0].Params, &in) != nil {
		in = initialize{} // the SDK refuses it
	}
	g, err := d.begin(r, caller, pass{
		User: caller.ID, Agent: belljar.NewID(), Query: r.URL.RawQuery, Boot: d.boot, Version: cut(in.ProtocolVersion, 32), Client: cut(in.ClientInfo.Name, 64),
	}, "")
	if err != nil {
		return err
	}
	defer d.enter(g)()
	g.serve(d.handler, w, r)
	if g.connected() == nil {
		d.dismiss(g) // it was no initialize after all
	}
	return nil
}

func cut(s string, n int) string { return strings.ToValidUTF8(s[:min(len(s), n)], "") }

// pass is what the id of a visit says.
type pass struct {
	User    string `json:"u"`
	Agent   string `json:"a"`
	Query   string `json:"q,omitempty"`
	Boot    string `json:"b"`
	Version string `json:"v,omitempty"`
	Client  string `json:"c,omitempty"`
}

// begin begins a visit. id is that of one that is begun again, "" of a new one.
func (d *Door) begin(r *http.Request, caller belljar.Caller, p pass, id string) (*guest, error) {
	terms, err := d.opts.Terms.narrowed(p.Query)
	if err != nil {
		return nil, err
	}
	if id == "" {
		if id, err = d.sealer.Seal(p); err != nil {
			return nil, err
		}
	}
	client := Client{Terms: terms, Service: func(requestID, traceID string) belljar.Service {
		as := caller
		if requestID != "" {
			as.RequestID, as.TraceID = requestID, traceID
		}
		return d.opts.Engine.As(as)
	}}
	if d.opts.StreamURL != nil {
		first := r.Clone(api.WithCaller(context.Background(), caller)) // it names the host
		first.Body = nil
		client.StreamURL = func(run belljar.Run) string { return d.opts.StreamURL(first, run) }
	}
	v, err := d.opts.Kit.newVisit(client, p.Agent, func() string { return id })
	if err != nil {
		return nil, err
	}
	v.user = caller.ID
	g := &guest{visit: v, session: id, caller: caller, since: time.Now()}
	return g, d.admit(g)
}

// admit takes a visit in, in place of the user's idlest if he has too many.
func (d *Door) admit(g *guest) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "the server is stopping", Hint: "try again in a moment"}
	}
	var idlest *guest
	n := 0
	for _, other := range d.guests {
		if other.caller.ID != g.caller.ID {
			continue
		}
		n++
		if other.busy == 0 && (idlest == nil || other.since.Before(idlest.since)) {
			idlest = other
		}
	}
	switch {
	case n < d.opts.Visits:
	case idlest == nil:
		return &belljar.Error{
			Code: belljar.CodeQuotaExceeded, Message: "there are too many MCP sessions", Details: map[string]any{"maximum": d.opts.Visits},
			Hint: "end one with DELETE, or let it be idle",
		}
	default:
		d.forget(idlest)
	}
	d.guests[g.session] = g
	return nil
}

// find returns a caller's visit. One of an earlier process of this server is begun again.
func (d *Door) find(r *http.Request, caller belljar.Caller, id string) (*guest, error) {
	none := &belljar.Error{Code: belljar.CodeNotFound, Message: "this MCP session does not exist, or has ended", Hint: "send initialize to begin a new one"}
	d.mu.Lock()
	g := d.guests[id]
	d.mu.Unlock()
	if g != nil {
		if g.caller.ID != caller.ID || g.caller.Role != caller.Role {
			return nil, none
		}
		return g, nil
	}
	var p pass
	if d.sealer.Open(id, &p) != nil || p.User != caller.ID || p.Boot == d.boot || !belljar.ValidID(p.Agent) {
		return nil, none
	}
	g, err := d.revive(r, caller, p, id)
	if g == nil && err == nil {
		return nil, none
	}
	return g, err
}

// enter notes that a request of a visit is open; the result notes its end.
func (d *Door) enter(g *guest) (leave func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g.busy++
	g.halt()
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		g.since = time.Now()
		if g.busy--; g.busy == 0 && d.guests[g.session] == g {
			g.stop = d.opts.AfterFunc(d.opts.Idle, func() { d.expire(g) })
		}
	}
}

// halt ends the wait for the end of an idle visit.
func (g *guest) halt() {
	if g.stop != nil {
		g.stop()
		g.stop = nil
	}
}

// expire ends a visit that nobody has come back to.
func (d *Door) expire(g *guest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if g.busy == 0 {
		d.forget(g)
	}
}

// dismiss ends a visit, and waits until nothing of it is left.
func (d *Door) dismiss(g *guest) {
	d.mu.Lock()
	gone := d.forget(g)
	d.mu.Unlock()
	if gone != nil {
		<-gone
	}
}

// mostEnded bounds how many ended visits of earlier processes are remembered.
const mostEnded = 10000

// forget takes a visit out, and down behind; the result is closed when it is. nil if it was out already. d.mu is held.
func (d *Door) forget(g *guest) (done chan struct{}) {
	if d.guests[g.session] != g {
		return nil
	}
	delete(d.guests, g.session)
	if len(d.ended) >= mostEnded {
		clear(d.ended)
	}
	d.ended[g.session] = true
	g.halt()
	done = make(chan struct{})
	d.ending.Add(1)
	go func() {
		defer d.ending.Done()
		defer close(done)
		g.end(errOver)
		if s := g.connected(); s != nil {
			_ = s.Close() // it has no connection that could fail
		}
		if err := g.close(); err != nil {
			d.opts.Kit.log.Warn("MCP session could not be taken down", "visit", g.id, "err", err)
		}
	}()
	return done
}

// connected is the SDK's half of the visit; nil if it has none, because initialize failed.
func (g *guest) connected() *sdk.ServerSession {
	for s := range g.server.Sessions() {
		return s
	}
	return nil
}

// Close ends all answers under way. The sandboxes of visits live on: their clients come back to the next server.
func (d *Door) Close() error {
	d.mu.Lock()
	d.closed = true
	guests := make([]*guest, 0, len(d.guests))
	for _, g := range d.guests {
		guests = append(guests, g)
		g.halt()
	}
	clear(d.guests)
	d.mu.Unlock()
	var all sync.WaitGroup
	for g := range slices.Values(guests) {
		all.Go(func() {
			g.end(errOver)
			if s := g.connected(); s != nil {
				_ = s.Close() // it has no connection that could fail
			}
			g.working.Wait()
		})
	}
	all.Wait()
	d.ending.Wait()
	return nil
}
