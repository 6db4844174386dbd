package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
)

// label names a visit on its runs, so that they can be told from others of the same caller.
const label = "mcp"

// visit is one client from its initialize to its end.
type visit struct {
	kit     *Kit
	client  Client
	terms   Terms
	id      string // on its runs, and as the agent of its sessions
	server  *sdk.Server
	life    context.Context
	end     context.CancelCauseFunc
	working sync.WaitGroup // calls

	mu        sync.Mutex
	closing   bool
	user      string            // whose its sessions are; "" until it was asked
	isolated  map[string]string // sessions that cannot be found by their scope: id by name
	known     map[string]bool   // sessions that are the visit's
	reasons   map[string]string // why requests were cancelled, by their id
	late      []lateRun
	artifacts []string // URIs of listed resources, the oldest first
}

// errOver ends what a visit's calls wait for.
var errOver = errors.New("the client is gone")

// newVisit begins a visit. id may be that of a visit that a restart of the server has cut short; "" is a new one.
func (k *Kit) newVisit(c Client, id string, sessionID func() string) (*visit, error) {
	v := &visit{kit: k, client: c, terms: c.Terms, id: id, isolated: map[string]string{}, known: map[string]bool{}, reasons: map[string]string{}}
	if err := v.terms.complete(); err != nil {
		return nil, err
	}
	if v.id == "" {
		v.id = belljar.NewID()
	}
	if v.terms.Session == belljar.IsolatedKey || v.terms.Workflow == "" && v.terms.Agent == "" {
		v.terms.Agent = v.id
	}
	v.life, v.end = context.WithCancelCause(context.Background())
	v.server = sdk.NewServer(&sdk.Implementation{Name: "belljar", Title: "Belljar", Version: k.opts.Version}, &sdk.ServerOptions{
		Instructions: v.instructions(), Logger: k.log, GetSessionID: sessionID,
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{ListChanged: true}},
	})
	v.server.AddReceivingMiddleware(v.receive)
	for _, t := range k.tools {
		if v.terms.has(t.name) {
			v.server.AddTool(t.described(), func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return v.call(ctx, t, req)
			})
		}
	}
	v.addTemplates()
	return v, nil
}

// receive looks at every message of the client before the SDK does.
func (v *visit) receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		switch params := req.GetParams().(type) {
		case *sdk.CallToolParamsRaw:
			if params != nil && !v.terms.has(params.Name) {
				return nil, v.unknownTool(params.Name)
			}
		case *sdk.ListToolsParams:
			result, err := next(ctx, method, req)
			if list, ok := result.(*sdk.ListToolsResult); ok && err == nil && v.hides(req) {
				kept := *list
				kept.Tools = nil
				for _, t := range list.Tools {
					if t.Name != runTool {
						kept.Tools = append(kept.Tools, t)
					}
				}
				return &kept, nil
			}
			return result, err
		}
		return next(ctx, method, req)
	}
}

// unknownTool says which tools there are.
func (v *visit) unknownTool(name string) error {
	var names []string
	for _, t := range v.kit.tools {
		if v.terms.has(t.name) {
			names = append(names, t.name)
		}
	}
	return &jsonrpc.Error{
		Code:    jsonrpc.CodeInvalidParams,
		Message: fmt.Sprintf("unknown tool %.80q; the tools here are %s", name, strings.Join(names, ", ")),
	}
}

// hides reports whether sandbox.run is left out of the list for this client: the models behind these hosts refuse every
// request that offers a tool whose schema has oneOf at its root, or whose name has a dot. An operator who names the tool
// has it listed all the same.
func (v *visit) hides(req sdk.Request) bool {
	if len(v.terms.Tools) > 0 {
		return false
	}
	name := clientName(req)
	for _, host := range []string{"claude", "anthropic", "codex", "openai", "cursor", "visual studio code", "vscode", "copilot", "gemini", "windsurf"} {
		if strings.Contains(name, host) {
			return true
		}
	}
	return false
}

// clientName is what a client calls itself, in lower case.
func clientName(req sdk.Request) string {
	session, ok := req.GetSession().(*sdk.ServerSession)
	if !ok {
		return ""
	}
	params := session.InitializeParams()
	if params == nil || params.ClientInfo == nil {
		return ""
	}
	return strings.ToLower(params.ClientInfo.Name)
}

// service is what the visit works with outside of calls.
func (v *visit) service() belljar.Service { return v.client.Service("", "") }

// close ends the visit: its calls, its one-shot runs, and the sessions that are its own.
func (v *visit) close() error {
	v.mu.Lock()
	if v.closing {
		v.mu.Unlock()
		return nil
	}
	v.closing = true
	v.mu.Unlock()
	v.end(errOver)
	v.working.Wait()
	return v.leave()
}

// closeTime bounds how long it may take to take down what a visit had.
const closeTime = 30 * time.Second

// leave takes down what is the visit's own.
func (v *visit) leave() error {
	ctx, stop := context.WithTimeout(context.Background(), closeTime)
	defer stop()
	s := v.service()
	var errs []error
	v.mu.Lock()
	late, isolated := v.late, v.isolated
	v.late = nil
	v.mu.Unlock()
	for _, run := range late {
		if run.session == "" || v.terms.own() {
			errs = append(errs, gone(s.Runs().Cancel(ctx, run.id)))
		}
	}
	for _, id := range isolated {
		errs = append(errs, gone(s.Sessions().Delete(ctx, id)))
	}
	switch {
	case v.terms.InMode() != belljar.ToolsCode:
	case !v.terms.own():
		id, err := v.alone(ctx, s)
		if id != "" {
			err = gone(s.Sessions().Delete(ctx, id))
		}
		errs = append(errs, err)
	default:
		_, err := s.Sessions().CloseAll(ctx, belljar.CloseRequest{KeyPrefix: v.terms.scope("").Prefix()})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// alone is the visit's isolated session, if an earlier process of the server has made one; "" if not.
func (v *visit) alone(ctx context.Context, s belljar.Service) (string, error) {
	user, err := v.userID(ctx, s)
	if err != nil {
		return "", err
	}
	page, err := s.Sessions().List(ctx, belljar.SessionQuery{KeyPrefix: v.terms.scope("").Prefix() + belljar.IsolatedKey + ":"})
	if err != nil {
		return "", err
	}
	for _, x := range page.Items {
		if x.Labels[label] == v.id && x.UserID == user {
			return x.ID, nil
		}
	}
	return "", nil
}

// gone is err, unless it says that what is to go is not there.
func gone(err error) error {
	if belljar.CodeOf(err) == belljar.CodeNotFound {
		return nil
	}
	return err
}

// most is how many reasons of cancellations are kept whose requests nobody asks about.
const mostReasons = 256

// cancelled is told by the transport that the client takes a request back, before the SDK hears of it.
func (v *visit) cancelled(request, reason string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.reasons) >= mostReasons {
		clear(v.reasons)
	}
	v.reasons[request] = reason
}

// impatient reports whether a cancelled request was given up by a client that would not wait longer, and not by somebody who
// wants its run to end.
func (v *visit) impatient(request string) bool {
	v.mu.Lock()
	reason := strings.ToLower(v.reasons[request])
	delete(v.reasons, request)
	v.mu.Unlock()
	for _, word := range []string{"timed out", "timeout", "time out", "deadline exceeded"} {
		if strings.Contains(reason, word) {
			return true
		}
	}
	return false
}

// instructions are what a client tells its model about the tools together.
func (v *visit) instructions() string {
	text := "Belljar runs code in isolated Linux sandboxes without network. Files live in /workspace."
	if v.terms.InMode() == belljar.ToolsCode {
		return text + " Call sandbox_open first, then sandbox_fs_write and sandbox_exec with its sandbox_id; files last " +
			"until the sandbox is closed. A command that takes long answers with status running: read on with sandbox_exec_read or sandbox_exec_wait."
	}
	return text + " Each sandbox_run starts afresh: send every file it needs. Files written to /workspace/artifacts, and pictures, come back with the result."
}
