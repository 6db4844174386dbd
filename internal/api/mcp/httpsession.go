package mcp

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// httpSession is a client session over HTTP.
type httpSession struct {
	*clientSession
	key     string // in [Door].sessions: the id that the client sends, or the name of a shared session
	caller  belljar.Caller
	earlier bool        // an earlier process made it
	open    int         // requests and streams
	since   time.Time   // when the last one ended
	stop    func() bool // stops the idle timer; nil if none is set
	streams streamReaders
	events  *sessionEvents
	handler http.Handler
}

// token is the content of a session id: what a restarted server resumes the session from.
type token struct {
	User    string `json:"u"`
	Agent   string `json:"a"`
	Query   string `json:"q,omitempty"`
	Boot    string `json:"b"`
	Version string `json:"v,omitempty"`
	Client  string `json:"c,omitempty"`
}

// start starts a session. key is that of a resumed or shared session; "" makes one. A shared one is for the protocol without sessions.
func (d *Door) start(r *http.Request, caller belljar.Caller, t token, key string, shared bool) (*httpSession, error) {
	terms, err := d.opts.Terms.narrowed(t.Query)
	if err != nil {
		return nil, err
	}
	if key == "" {
		if key, err = d.sealer.Seal(t); err != nil {
			return nil, err
		}
	}
	answers := func(ctx context.Context, n int64) (func(), error) { return d.answers.Take(ctx, caller.ID, n) }
	client := Client{Terms: terms, Answers: answers, Service: func(requestID, traceID string) belljar.Service {
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
	s, err := d.opts.Kit.newSession(client, t.Agent, func() string { return key })
	if err != nil {
		return nil, err
	}
	if caller.ID != "" {
		s.user.Store(&caller.ID)
	}
	hs := &httpSession{
		clientSession: s, key: key, caller: caller, earlier: t.Boot != d.boot, since: time.Now(), streams: streamReaders{byStream: map[string]*streamReader{}},
		events: d.events.of(caller.ID),
	}
	// The edge checks the host, and the door bounds the body.
	options := sdk.StreamableHTTPOptions{Logger: d.opts.Kit.log, DisableLocalhostProtection: true, MaxRequestBodyBytes: -1}
	if shared {
		options.Stateless, options.PropagateRequestCancellation = true, true
	} else {
		options.EventStore = hs.events
	}
	hs.handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.server }, &options)
	return hs, d.admit(hs)
}

// admit adds a session. A user with too many loses the one that is idle longest.
func (d *Door) admit(hs *httpSession) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errStopping
	}
	var idlest *httpSession
	n := 0
	for _, other := range d.sessions {
		if other.caller.ID != hs.caller.ID {
			continue
		}
		n++
		if other.open == 0 && (idlest == nil || other.since.Before(idlest.since)) {
			idlest = other
		}
	}
	switch {
	case n < d.opts.MaxSessions:
	case idlest == nil:
		return &belljar.Error{
			Code: belljar.CodeQuotaExceeded, Message: "there are too many MCP sessions", Details: map[string]any{"maximum": d.opts.MaxSessions},
			Hint: "end one with DELETE, or let it be idle",
		}
	default:
		d.remove(idlest)
	}
	d.sessions[hs.key] = hs
	return nil
}

// find returns a caller's session. It resumes a session of an earlier process of this server.
func (d *Door) find(r *http.Request, caller belljar.Caller, id string) (*httpSession, error) {
	hs := d.session(id)
	if hs == nil || hs.earlier { // another request may be resuming it
		unlock, err := d.resuming.Lock(r.Context(), id)
		if err != nil {
			return nil, err
		}
		defer unlock()
		hs = d.session(id)
	}
	switch {
	case hs == nil:
		return d.resume(r, caller, id)
	case hs.caller.ID != caller.ID || hs.caller.Role != caller.Role:
		return nil, sessionNotFound()
	}
	return hs, nil
}

func sessionNotFound() error {
	return &belljar.Error{Code: belljar.CodeNotFound, Message: "this MCP session does not exist, or has ended", Hint: "send initialize to begin a new one"}
}

// session returns the session with a key; nil if there is none.
func (d *Door) session(key string) *httpSession {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions[key]
}

// resume restarts a session of an earlier process with its sandboxes, without any change for its client. It does not find a session
// that has ended in this process, or could have. The session's lock in d.resuming is held.
func (d *Door) resume(r *http.Request, caller belljar.Caller, id string) (*httpSession, error) {
	d.mu.Lock()
	closed, ended := d.closed, d.ended[caller.ID].has(id)
	d.mu.Unlock()
	var t token
	switch {
	case closed: // its own sessions are gone, but not ended
		return nil, errStopping
	case ended || d.sealer.Open(id, &t) != nil || t.User != caller.ID || t.Boot == d.boot || !belljar.ValidID(t.Agent):
		return nil, sessionNotFound()
	}
	hs, err := d.start(r, caller, t, id, false)
	if err != nil {
		return nil, err
	}
	defer d.acquire(hs)()
	hs.replay(t)
	if hs.connection() == nil {
		d.end(hs)
		return nil, sessionNotFound()
	}
	if err := hs.recall(d.opts.Began); err != nil {
		d.opts.Kit.log.Warn("runs of a resumed MCP session cannot be listed", "mcp_session_id", hs.id, "err", err)
	}
	return hs, nil
}

// replay sends the SDK the messages with which the client began the session, and discards the answer.
func (hs *httpSession) replay(t token) {
	body, _ := json.Marshal([]map[string]any{ // of strings and maps
		{"jsonrpc": "2.0", "id": "revive", "method": "initialize", "params": map[string]any{
			"protocolVersion": t.Version, "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": t.Client, "version": ""},
		}},
		{"jsonrpc": "2.0", "method": "notifications/initialized"},
	})
	r, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, Path, bytes.NewReader(body)) // method and path are valid
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	hs.serve(discard{}, r, nil)
}

// discard is a response that no client reads.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// isSessionless reports whether a request is of the protocol without sessions.
func isSessionless(r *http.Request, list []message) bool {
	return r.Header.Get("Mcp-Protocol-Version") >= firstSessionless ||
		len(list) == 1 && (list[0].Method == "server/discover" || strings.Contains(string(list[0].Params), "io.modelcontextprotocol/protocolVersion"))
}

// shared returns the session for requests of the protocol without sessions. All clients of one user with one URL share it,
// because nothing else distinguishes them. Its agent is the same after a restart.
func (d *Door) shared(r *http.Request, caller belljar.Caller) (*httpSession, error) {
	key := strings.Join([]string{"", string(caller.Role), caller.ID, r.URL.RawQuery}, "\x00") // no header can have this value
	unlock, err := d.resuming.Lock(r.Context(), key)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if hs := d.session(key); hs != nil {
		return hs, nil
	}
	sum := hmac.New(sha256.New, d.opts.Secret)
	sum.Write([]byte("resident\x00" + key))
	return d.start(r, caller, token{User: caller.ID, Agent: hex.EncodeToString(sum.Sum(nil)[:16]), Query: r.URL.RawQuery, Boot: d.boot}, key, true)
}

// acquire counts an open request of a session; the result ends that.
func (d *Door) acquire(hs *httpSession) (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	hs.open++
	hs.stopTimer()
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		hs.since = time.Now()
		if hs.open--; hs.open == 0 && d.sessions[hs.key] == hs {
			hs.stop = d.opts.AfterFunc(d.opts.Idle, func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				if hs.open == 0 {
					d.remove(hs)
				}
			})
		}
	}
}

// stopTimer stops the idle timer. [Door].mu is held.
func (hs *httpSession) stopTimer() {
	if hs.stop != nil {
		hs.stop()
		hs.stop = nil
	}
}

// end removes a session, and waits until all that belongs to it is removed.
func (d *Door) end(hs *httpSession) {
	d.mu.Lock()
	done := d.remove(hs)
	d.mu.Unlock()
	if done != nil {
		<-done
	}
}

// maxEnded bounds how many ended sessions of earlier processes are remembered of one user, so that they are not resumed. Once there
// are so many, none of that user is resumed.
const maxEnded = 10000

// endedSessions is the digests of ended sessions' ids, which are long.
type endedSessions map[[sha256.Size]byte]bool

// has reports whether a session has ended, or could have.
func (e endedSessions) has(id string) bool { return len(e) >= maxEnded || e[sha256.Sum256([]byte(id))] }

// remove removes a session and closes it in the background, then done. done is nil if the session was removed before. d.mu is held.
func (d *Door) remove(hs *httpSession) (done chan struct{}) {
	if d.sessions[hs.key] != hs {
		return nil
	}
	delete(d.sessions, hs.key)
	if ended := d.ended[hs.caller.ID]; hs.earlier && len(ended) < maxEnded {
		if ended == nil {
			ended = endedSessions{}
			d.ended[hs.caller.ID] = ended
		}
		ended[sha256.Sum256([]byte(hs.key))] = true
	}
	hs.stopTimer()
	done = make(chan struct{})
	d.closing.Go(func() {
		defer close(done)
		hs.disconnect()
		if err := hs.close(); err != nil {
			d.opts.Kit.log.Warn("MCP session could not be closed", "mcp_session_id", hs.id, "err", err)
		}
	})
	return done
}

// disconnect ends the session's calls, and its connection.
func (hs *httpSession) disconnect() {
	hs.end(errSessionEnded)
	if conn := hs.connection(); conn != nil {
		_ = conn.Close() // over HTTP it cannot fail
	}
}

// connection returns the SDK's session; nil if initialize failed.
func (hs *httpSession) connection() *sdk.ServerSession {
	for conn := range hs.server.Sessions() {
		return conn
	}
	return nil
}
