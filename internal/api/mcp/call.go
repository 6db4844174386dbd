package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// The headers by which a transport tells of a request what the SDK does not pass on.
const (
	requestHeader = "Belljar-Mcp-Request" // its JSON-RPC id
	traceHeader   = "Belljar-Mcp-Trace"
)

// call is one call of a tool.
type call struct {
	context.Context
	belljar.Service
	*visit
	request string // the JSON-RPC id
	token   any    // of progress; nil if the client wants none
	session *sdk.ServerSession
	image   func(mime string) bool // whether the client takes such pictures
}

// call does what a tool does.
func (v *visit) call(ctx context.Context, t *tool, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	v.mu.Lock()
	if v.closing {
		v.mu.Unlock()
		return nil, errOver
	}
	v.working.Add(1)
	v.mu.Unlock()
	defer v.working.Done()

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(v.life, func() { stop(errOver) })()
	header := http.Header{}
	if req.Extra != nil && req.Extra.Header != nil {
		header = req.Extra.Header
	}
	c := &call{
		Context: ctx, visit: v, request: header.Get(requestHeader), token: req.Params.GetProgressToken(), session: req.Session,
		Service: v.client.Service(header.Get(api.RequestIDHeader), header.Get(traceHeader)),
		image:   pictures(clientName(req)),
	}
	r, err := t.do(c, req.Params.Arguments)
	if err != nil {
		return c.failed(t, err), nil
	}
	value, err := json.Marshal(r.value)
	if err != nil {
		return c.failed(t, err), nil
	}
	content := append([]sdk.Content{&sdk.TextContent{Text: strings.TrimSuffix(r.text, "\n") + c.told()}}, r.more...)
	return &sdk.CallToolResult{Content: content, StructuredContent: json.RawMessage(value)}, nil
}

// errorMeta is where a result has its error for programs.
const errorMeta = "belljar/error"

// failed is the result of a call that could not be done: what is wrong, and what to do next.
func (c *call) failed(t *tool, err error) *sdk.CallToolResult {
	if errors.Is(context.Cause(c), errOver) || errors.Is(err, errOver) {
		err = &belljar.Error{Code: belljar.CodeCanceled, Message: "the MCP session has ended", Hint: "initialize a new one"}
	} else if c.Err() != nil && belljar.CodeOf(err) == belljar.CodeInternal {
		err = &belljar.Error{Code: belljar.CodeCanceled, Message: "the call was cancelled"}
	}
	e := api.Public(err)
	if e.Code == belljar.CodeInternal {
		c.kit.log.Error("tool failed inside", "tool", t.name, "visit", c.id, "err", err)
	}
	r := &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: explain(e)}}}
	r.Meta = sdk.Meta{errorMeta: e}
	return r
}

// explain is an error for a model.
func explain(e *belljar.Error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "error: %s (%s)", e.Message, e.Code)
	if maximum, ok := e.Details["maximum"]; ok && !strings.Contains(e.Message, fmt.Sprint(maximum)) {
		fmt.Fprintf(&b, "; the bound is %v", maximum)
	}
	hint := e.Hint
	if field, ok := e.Details["field"].(string); hint == "" && ok && e.Code == belljar.CodeInvalidRequest {
		hint = "correct " + field + ", and make the call again"
	}
	if hint == "" {
		hint = e.Code.Info().Advice
	}
	switch e.Code {
	case belljar.CodeRateLimited, belljar.CodeQuotaExceeded, belljar.CodeRuntimeUnavailable:
		if sec, ok := seconds(e.Details["retry_after_sec"]); ok {
			hint = fmt.Sprintf("wait %d seconds, then make the same call again; %s", sec, hint)
		}
	}
	fmt.Fprintf(&b, "\nwhat to do: %s", hint)
	return b.String()
}

// seconds is a number of an error's details as whole seconds.
func seconds(v any) (int, bool) {
	switch n := v.(type) {
	case int:
		return n, true
	case int64:
		return int(n), true
	case float64:
		return int(math.Ceil(n)), n >= 0 && n < 1e9
	}
	return 0, false
}
