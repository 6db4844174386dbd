package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/keylock"
)

// label is the label of runs and sessions that holds the id of their client session.
const label = "mcp"

// clientSession is one client, from its initialize to its end.
type clientSession struct {
	kit     *Kit
	client  Client
	terms   Terms
	id      string // in the label, and the agent of its sandboxes
	server  *sdk.Server
	life    context.Context
	end     context.CancelCauseFunc
	working sync.WaitGroup         // calls
	user    atomic.Pointer[string] // the owner of its sandboxes; nil until it is known
	batches keylock.Locks[string]  // of the messages of each batch

	mu        sync.Mutex
	closing   bool
	sandboxes map[string]string // of this client session: scope by id; copies have none
	late      map[string]bool   // requests that the client stopped waiting for, by [requestKey]
	detached  []detachedRun     // whose calls had no answer
	artifacts []string          // URIs of listed resources, the oldest first
}

// errSessionEnded is the cause with which the calls of a client session end.
var errSessionEnded = errors.New("the client is gone")

// errStopping is the cause with which calls end when the server stops.
var errStopping error = &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: "the server is stopping", Hint: "try again in a moment"}

// newSession starts a client session. id is that of a session to resume after a restart; "" makes a new one.
func (k *Kit) newSession(c Client, id string, sessionID func() string) (*clientSession, error) {
	s := &clientSession{kit: k, client: c, terms: c.Terms, id: id, sandboxes: map[string]string{}, late: map[string]bool{}}
	if err := s.terms.complete(); err != nil {
		return nil, err
	}
	if s.id == "" {
		s.id = belljar.NewID()
	}
	if s.terms.Session == belljar.IsolatedKey || s.terms.Workflow == "" && s.terms.Agent == "" {
		s.terms.Agent = s.id
	}
	s.life, s.end = context.WithCancelCause(context.Background())
	s.server = sdk.NewServer(&sdk.Implementation{Name: "belljar", Title: "Belljar", Version: k.opts.Version}, &sdk.ServerOptions{
		Instructions: s.instructions(), Logger: k.log, GetSessionID: sessionID,
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{ListChanged: true}},
	})
	s.server.AddReceivingMiddleware(s.receive)
	for _, t := range k.tools {
		if s.terms.offers(t.Name) {
			s.server.AddTool(s.listed(*t), func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return s.callTool(ctx, t, req)
			})
		}
	}
	s.addTemplates()
	return s, nil
}

// listed returns a tool as it is for the client's terms.
func (s *clientSession) listed(t tool) *sdk.Tool {
	t.Description = s.terms.describe(t.Description)
	if t.Name == runTool && s.terms.setsImage() {
		in := maps.Clone(t.input)
		delete(in, "oneOf") // the place is known
		in["required"] = []string{"command"}
		t.InputSchema = in
	}
	if !s.terms.reaches() {
		hints := *t.Annotations
		t.Annotations, hints.OpenWorldHint = &hints, new(false)
	}
	return &t.Tool
}

// receive handles every message of the client before the SDK does.
func (s *clientSession) receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if params, ok := req.GetParams().(*sdk.CallToolParamsRaw); ok && params != nil && !s.terms.offers(params.Name) {
			return nil, s.unknownTool(params.Name)
		}
		if x := req.GetExtra(); x != nil && strings.HasPrefix(x.Header.Get(requestHeader), batchPrefix) && !strings.HasPrefix(method, "notifications/") {
			unlock, err := s.batches.Lock(ctx, x.Header.Get(requestHeader))
			if err != nil {
				return nil, coded(err)
			}
			defer func() { context.AfterFunc(ctx, unlock) }() // once its answer is sent: all answers at once would wait in memory for their one stream
		}
		result, err := next(ctx, method, req)
		if list, ok := result.(*sdk.ListToolsResult); ok && err == nil && s.hidesRunTool(req) {
			shown := *list
			shown.Tools = slices.DeleteFunc(slices.Clone(list.Tools), func(t *sdk.Tool) bool { return t.Name == runTool })
			return &shown, nil
		}
		return result, coded(err)
	}
}

// coded returns an error with a code of JSON-RPC. The SDK gives those about the order of messages none.
func coded(err error) error {
	if e := (*jsonrpc.Error)(nil); err == nil || errors.As(err, &e) && e.Code != 0 {
		return err
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
}

// unknownTool returns the error for a tool that is not on offer.
func (s *clientSession) unknownTool(name string) error {
	var names []string
	for _, t := range s.kit.tools {
		if s.terms.offers(t.Name) {
			names = append(names, t.Name)
		}
	}
	return &jsonrpc.Error{
		Code:    jsonrpc.CodeInvalidParams,
		Message: fmt.Sprintf("unknown tool %.80q; the tools here are %s", name, strings.Join(names, ", ")),
	}
}

// hidesRunTool reports whether the list omits sandbox.run for this client: the models of these hosts refuse every request with
// a tool whose schema has oneOf at its root, or whose name has a dot. If the operator names the tool, it is listed.
func (s *clientSession) hidesRunTool(req sdk.Request) bool {
	conn, ok := req.GetSession().(*sdk.ServerSession)
	if !ok || len(s.terms.Tools) > 0 {
		return false
	}
	in := conn.InitializeParams()
	hosts := []string{"claude", "anthropic", "codex", "openai", "cursor", "visual studio code", "vscode", "copilot", "gemini", "windsurf"}
	return in != nil && in.ClientInfo != nil && containsAny(strings.ToLower(in.ClientInfo.Name), hosts)
}

func containsAny(text string, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}

// closeTime bounds the removal of what a client session had.
const closeTime = 30 * time.Second

// refuse refuses further calls, with the cause of the session's end.
func (s *clientSession) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
}

// close ends the client session, once: its calls, its one-shot runs, and the sandboxes that belong to it.
func (s *clientSession) close() error {
	s.end(errSessionEnded)
	s.refuse()
	s.working.Wait()

	ctx, stop := context.WithTimeout(context.Background(), closeTime)
	defer stop()
	svc := s.client.Service("", "")
	var errs []error
	s.mu.Lock()
	detached, sandboxes := s.detached, s.sandboxes
	s.mu.Unlock()
	for _, run := range detached {
		if run.SessionID == "" || s.terms.Workflow == "" {
			errs = append(errs, ignoreNotFound(svc.Runs().Cancel(ctx, run.ID)))
		}
	}
	for id, scope := range sandboxes {
		if scope == "" {
			errs = append(errs, ignoreNotFound(svc.Sessions().Delete(ctx, id)))
		}
	}
	if s.terms.InMode() == belljar.ToolsCode {
		all := s.scope("").Prefix()
		if s.terms.Workflow != "" { // its other sandboxes stay
			all = s.scope(belljar.IsolatedKey).String()
		}
		_, err := svc.Sessions().CloseAll(ctx, belljar.CloseRequest{KeyPrefix: all})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// scope returns the scope of the sandbox with a name; "" is the usual one. An isolated sandbox has a name that no other client session has:
// this one finds it again, also after a restart of the server.
func (s *clientSession) scope(key string) belljar.Scope {
	scope := belljar.Scope{Namespace: "agent", ID: s.terms.Agent, Key: key}
	if s.terms.Workflow != "" {
		scope.Namespace, scope.ID = "workflow", s.terms.Workflow
	}
	if key == belljar.IsolatedKey {
		scope.Key += "-" + s.id
	}
	return scope
}

// userID returns the owner of the client session's sandboxes. An operator sees the sandboxes of all users, but the operator's model
// must not.
func (s *clientSession) userID(ctx context.Context, svc belljar.Service) (string, error) {
	if user := s.user.Load(); user != nil {
		return *user, nil
	}
	me, err := svc.Node().Me(ctx)
	if err == nil && me.UserID != "" {
		s.user.Store(&me.UserID)
	}
	return me.UserID, err
}

// ignoreNotFound returns err, or nil if the object to remove does not exist.
func ignoreNotFound(err error) error {
	if belljar.CodeOf(err) == belljar.CodeNotFound {
		return nil
	}
	return err
}

const cancelMethod = "notifications/cancelled"

// maxLate bounds the requests that are remembered as late.
const maxLate = 256

// noteCancelled remembers whether the client cancels a request because it stopped waiting. A transport calls it before the SDK sees
// the notification.
func (s *clientSession) noteCancelled(params json.RawMessage) {
	var in struct {
		RequestID any    `json:"requestId"`
		Reason    string `json:"reason"`
	}
	if json.Unmarshal(params, &in) != nil {
		return
	}
	reason, key := strings.ToLower(in.Reason), requestKey(in.RequestID)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.late, key)
	if !containsAny(reason, []string{"timed out", "timeout", "time out", "deadline exceeded"}) {
		return
	}
	if len(s.late) >= maxLate {
		clear(s.late)
	}
	s.late[key] = true
}

// clientTimedOut reports whether the client cancelled the request with a key because it stopped waiting, and not to end its run.
func (s *clientSession) clientTimedOut(request string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	late := s.late[request]
	delete(s.late, request)
	return late
}

// instructions describe the tools as a whole to a model.
func (s *clientSession) instructions() string {
	text := s.terms.describe("Belljar runs code in isolated Linux sandboxes " + withoutNetwork + ". Files live in /workspace." + s.terms.secrets())
	if s.terms.InMode() == belljar.ToolsCode {
		return text + " Call sandbox_open first, then sandbox_fs_write and sandbox_exec with its sandbox_id; files last " +
			"until the sandbox is closed. A command that takes long answers with status running: read on with sandbox_exec_read or sandbox_exec_wait."
	}
	return text + " Each sandbox_run starts afresh: send every file it needs. Files written to /workspace/artifacts, and pictures, come back with the result."
}
