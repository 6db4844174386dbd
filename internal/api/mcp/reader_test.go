package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// meta is the metadata of a call with protocol version 2026-07-28.
const meta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`

// callOf returns the response to a call of a tool.
func callOf(t *testing.T, version, agent, meta string, tool sdk.ToolHandler) *httptest.ResponseRecorder {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "x", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "wait", InputSchema: schema{"type": "object"}}, tool)
	hs := &httpSession{clientSession: &clientSession{server: server}, streams: streamReaders{byStream: map[string]*streamReader{}}}
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{},"_meta":{` + meta + `}}}`
	r := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body))
	for key, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "User-Agent": agent,
		"Mcp-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": "wait",
	} {
		r.Header.Set(key, value)
	}
	list, err := messagesOf([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	options := &sdk.StreamableHTTPOptions{DisableLocalhostProtection: true, Stateless: true}
	if version < firstSessionless {
		options.EventStore = (&events{users: map[string]*userEvents{}}).of("ann")
	}
	hs.handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, options)
	w := httptest.NewRecorder()
	hs.serve(w, r, list)
	return w
}

// An answer that is larger than the Python client reads in an event is JSON. If the response is a stream, an answer to that client
// has the pictures that fit.
func TestLargeAnswer(t *testing.T) {
	const python, token = "python-httpx2/2.9", `"progressToken":1`
	const first, began = "id: ", "notifications/progress"
	for name, x := range map[string]struct {
		version, agent, meta string
		takes                time.Duration
		size                 int // of each picture
		media, begins        string
		pictures             int
	}{
		"without sessions":                {"2026-07-28", "", meta, 0, 1 << 20, "application/json", "{", 2},
		"without sessions, small":         {"2026-07-28", "", meta, 0, 1 << 10, streamType, "event: message", 2},
		"without sessions, progress":      {"2026-07-28", "", meta + "," + token, 0, 1 << 20, streamType, "event: message", 2},
		"without sessions, late":          {"2026-07-28", python, meta, 20 * time.Second, 1 << 20, streamType, ": still here", 0},
		"Python without sessions":         {"2026-07-28", python, meta, 0, 1 << 20, "application/json", "{", 2},
		"Python, progress":                {"2026-07-28", python, meta + "," + token, 0, 1 << 20, streamType, "event: message", 0},
		"Python, progress, one too large": {"2026-07-28", python, meta + "," + token, 0, 500 << 10, streamType, "event: message", 1},
		"in a session":                    {"2025-11-25", "", "", 0, 1 << 20, streamType, first, 2},
		"Python in a session":             {"2025-11-25", python, "", time.Second, 1 << 20, "application/json", "{", 2},
		"Python in a session, small":      {"2025-11-25", python, "", time.Second, 1 << 10, streamType, first, 2},
		"Python in a session, late":       {"2025-11-25", python, "", 3 * time.Second, 1 << 20, streamType, first, 0},
		"Python in a session, progress":   {"2025-11-25", python, token, 0, 1 << 20, streamType, first, 0},
		"an older session":                {"2025-06-18", "", "", 0, 1 << 20, "application/json", "{", 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := callOf(t, x.version, x.agent, x.meta, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
					if r.Params.GetProgressToken() != nil {
						if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: 1, Progress: 1}); err != nil {
							return nil, err
						}
					}
					time.Sleep(x.takes)
					picture := &sdk.ImageContent{Data: make([]byte, x.size), MIMEType: "image/png"}
					return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "its text"}, picture, picture}, StructuredContent: json.RawMessage(`{"a":1}`)}, nil
				})
				got := w.Body.String()
				if w.Header().Get("Content-Type") != x.media || !strings.HasPrefix(got, x.begins) {
					t.Errorf("%s: %.100q", w.Header(), got)
				}
				if x.begins == first && !strings.HasPrefix(got[strings.Index(got, "\n"):], "\ndata: \n\n") {
					t.Errorf("the first event: %.100q", got)
				}
				if strings.Contains(x.meta, token) != strings.Contains(got, began) {
					t.Errorf("progress: %.300q", got)
				}
				if i := strings.LastIndex(got, "data: "); i >= 0 {
					got = got[i+len("data: "):]
				}
				var answer struct {
					ID     int
					Result struct {
						Content           []struct{ Type, Text string }
						StructuredContent map[string]int
					}
				}
				if err := json.Unmarshal([]byte(got), &answer); err != nil || answer.ID != 1 || answer.Result.StructuredContent["a"] != 1 {
					t.Fatalf("%v, %.100q", err, got)
				}
				pictures := 0
				for i, c := range answer.Result.Content {
					if c.Type == "image" {
						pictures++
					} else if i > 0 && !strings.HasPrefix(c.Text, "note: a picture is left out") {
						t.Errorf("%+v", c)
					}
				}
				if len(answer.Result.Content) != 3 || pictures != x.pictures {
					t.Errorf("%d contents with %d pictures", len(answer.Result.Content), pictures)
				}
			})
		})
	}
}

// A call that sends nothing for long has a stream with comments, and its answer is an event. A call that is answered at once has
// the status of its answer.
func TestSilentCall(t *testing.T) {
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
				w := callOf(t, "2026-07-28", "", meta, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
					time.Sleep(x.takes)
					return &sdk.CallToolResult{}, x.err
				})
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
