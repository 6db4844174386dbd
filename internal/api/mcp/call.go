package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// The headers with which a transport passes data that the SDK drops.
const (
	requestHeader = "Belljar-Mcp-Request" // the [requestKey], or batchPrefix and an id that a batch's messages share
	traceHeader   = "Belljar-Mcp-Trace"
	batchPrefix   = "batch "
)

// call is one call of a tool, or one read of a resource.
type call struct {
	context.Context
	service belljar.Service
	session *clientSession
	request string // its [requestKey]
	token   any    // of progress; nil if the client requests none
	conn    *sdk.ServerSession
	version string          // of the protocol
	undone  bool            // its run never began
	sent    context.Context // ends when its answer is sent, or it is cancelled
}

// Versions of the protocol.
const (
	firstWithLinks   = "2025-06-18" // results may have resource links
	lastWithSessions = "2025-11-25"
	firstSessionless = "2026-07-28" // each request names its client
)

// newCall returns the call for a request.
func (s *clientSession) newCall(ctx context.Context, req sdk.Request) *call {
	conn, header := req.GetSession().(*sdk.ServerSession), req.GetExtra().Header
	version, _ := req.GetParams().GetMeta()[sdk.MetaKeyProtocolVersion].(string)
	if version < firstSessionless { // initialize has negotiated one
		version = lastWithSessions
		if p := conn.InitializeParams(); p != nil {
			version = min(version, p.ProtocolVersion)
		}
	}
	return &call{
		Context: ctx, sent: ctx, session: s, request: header.Get(requestHeader), conn: conn, version: version,
		service: s.client.Service(header.Get(api.RequestIDHeader), header.Get(traceHeader)),
	}
}

// reserve reserves memory for an answer with n bytes of content, which are encoded more than once. It is released when the answer is
// sent, or before by release.
func (c *call) reserve(n int64) (release func(), err error) {
	if c.session.client.Answers == nil {
		return func() {}, nil
	}
	if release, err = c.session.client.Answers(c, 4*n); err == nil {
		context.AfterFunc(c.sent, release)
	}
	return release, err
}

// callTool answers tools/call.
func (s *clientSession) callTool(ctx context.Context, t *tool, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return nil, context.Cause(s.life)
	}
	s.working.Add(1)
	s.mu.Unlock()
	defer s.working.Done()

	c := s.newCall(ctx, req)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(s.life, func() { stop(context.Cause(s.life)) })()
	c.Context = ctx
	c.token = req.Params.GetProgressToken()
	r, err := t.do(c, req.Params.Arguments)
	if err != nil {
		return c.failed(t, err), nil
	}
	value, err := json.Marshal(r.value)
	if err != nil {
		return c.failed(t, err), nil
	}
	content := append([]sdk.Content{&sdk.TextContent{Text: strings.TrimSuffix(r.text, "\n") + c.detachedNotes()}}, r.more...)
	return &sdk.CallToolResult{Content: content, StructuredContent: json.RawMessage(value), IsError: c.undone}, nil
}

// errorMeta is the key of a result's metadata that holds the error for programs.
const errorMeta = "belljar/error"

// failed returns the result of a call that failed: the error, and what to do next.
func (c *call) failed(t *tool, err error) *sdk.CallToolResult {
	if errors.Is(context.Cause(c), errSessionEnded) || errors.Is(err, errSessionEnded) {
		err = &belljar.Error{Code: belljar.CodeCanceled, Message: "the MCP session has ended", Hint: "initialize a new one"}
	} else if c.stopping(nil) && belljar.CodeOf(err) == belljar.CodeInternal {
		err = errStopping
	} else if c.Err() != nil && belljar.CodeOf(err) == belljar.CodeInternal {
		err = &belljar.Error{Code: belljar.CodeCanceled, Message: "the call was cancelled"}
	}
	e := api.Public(err)
	if e.Code == belljar.CodeInternal {
		c.session.kit.log.Error("tool failed inside", "tool", t.Name, "mcp_session_id", c.session.id, "err", err)
	}
	return &sdk.CallToolResult{Meta: sdk.Meta{errorMeta: e}, IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: explain(e)}}}
}

// explain returns an error as text for a model.
func explain(e *belljar.Error) string {
	text := fmt.Sprintf("error: %s (%s)", e.Message, e.Code)
	if maximum, ok := e.Details["maximum"]; ok && !strings.Contains(e.Message, fmt.Sprint(maximum)) {
		text += fmt.Sprintf("; the maximum is %v", maximum)
	}
	hint := e.Hint
	if hint == "" && e.Code == belljar.CodeInvalidRequest {
		field, _ := e.Details["field"].(string)
		hint = "correct " + cmp.Or(field, "the arguments") + ", and make the call again"
	}
	if hint == "" {
		hint, _, _ = strings.Cut(e.Code.Info().Advice, "; details") // a model does not see the details
	}
	switch e.Code {
	case belljar.CodeRateLimited, belljar.CodeQuotaExceeded, belljar.CodeRuntimeUnavailable:
		// The number is an int, an int64 or a float64.
		if sec, err := strconv.ParseFloat(fmt.Sprint(e.Details["retry_after_sec"]), 64); err == nil && sec >= 0 && sec < 1e9 {
			hint = fmt.Sprintf("wait %d s, then make the same call again; %s", int(math.Ceil(sec)), hint)
		}
	}
	return text + "\nwhat to do: " + hint
}
