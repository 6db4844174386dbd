package mcp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A call that sends nothing for long has a stream with comments, and its answer is an event. A call that is answered at once has
// the status of its answer.
func TestSilentCall(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for name, x := range map[string]struct {
		takes  time.Duration
		err    error
		status int
		media  string
		beats  int
		answer string
	}{
		"an answer":           {40 * time.Second, nil, 200, streamType, 2, "data: {"},
		"an error":            {40 * time.Second, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no"}, 200, streamType, 2, "event: message\ndata: {"},
		"an answer at once":   {0, nil, 200, streamType, 0, "data: {"},
		"an error at once":    {0, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no"}, 400, "application/json", 0, "{"},
		"an answer in a time": {14 * time.Second, nil, 200, streamType, 0, "data: {"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := sdk.NewServer(&sdk.Implementation{Name: "x", Version: "1"}, nil)
				server.AddTool(&sdk.Tool{Name: "wait", InputSchema: schema{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
					time.Sleep(x.takes)
					return &sdk.CallToolResult{}, x.err
				})
				hs := &httpSession{clientSession: &clientSession{server: server}, streams: streamReaders{byStream: map[string]*streamReader{}}}
				body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{},` + meta + `}}`
				r := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body))
				for key, value := range map[string]string{
					"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
					"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "wait",
				} {
					r.Header.Set(key, value)
				}
				list, err := messagesOf([]byte(body))
				if err != nil {
					t.Fatal(err)
				}
				w := httptest.NewRecorder()
				hs.handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{DisableLocalhostProtection: true, Stateless: true})
				hs.serve(w, r, list)
				got := w.Body.String()
				if w.Code != x.status || w.Header().Get("Content-Type") != x.media {
					t.Errorf("%d %s", w.Code, w.Header().Get("Content-Type"))
				}
				if buffers := w.Header().Get("X-Accel-Buffering") != "no"; buffers == (x.media == streamType) {
					t.Errorf("the header is %v", w.Header())
				}
				const comment = ": still here\n\n"
				if strings.Count(got, comment) != x.beats || !strings.Contains(strings.TrimPrefix(got, strings.Repeat(comment, x.beats)), x.answer) {
					t.Errorf("the body is %q", got)
				}
			})
		})
	}
}
