//go:build linux

package lsp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/textproto"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/lsp"
	"github.com/belljar/belljar/test/apitest"
)

// patience bounds every wait of a test.
const patience = 2 * time.Minute

// message is a message of the server.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Data    map[string]any `json:"data"`
	} `json:"error"`
}

// object reads the parameters or the result.
func (m message) object(t *testing.T) map[string]any {
	t.Helper()
	raw := m.Params
	if m.Method == "" {
		raw = m.Result
	}
	var out map[string]any
	if m.Error != nil {
		t.Fatalf("the request failed: %+v", m.Error)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return out
}

// editor is a client of the server under test.
type editor struct {
	t     *testing.T
	out   io.WriteCloser
	in    *bufio.Reader
	pipe  *os.File
	last  int
	queue []message // messages that no call has waited for
	done  chan error
	once  sync.Once
	err   error
	// answers are the editor's answers to requests of the server; null to all others.
	answers map[string]any
	asked   []message
}

// service is the real service on the fake runtime.
func service(t *testing.T) belljar.Service {
	w := apitest.NewWorld(t, []string{"memory"})
	return placed{w.Service.As(belljar.Caller{ID: "ann", Role: belljar.RoleUser})}
}

// placed is a service whose programs name their workspace /workspace, as programs in real sandboxes do.
type placed struct{ belljar.Service }

// Runs gives access to runs.
func (s placed) Runs() belljar.Runs { return placedRuns{s.Service.Runs()} }

type placedRuns struct{ belljar.Runs }

// Frames yields the log of a run.
func (r placedRuns) Frames(ctx context.Context, id string, from uint64) iter.Seq2[belljar.Frame, error] {
	place := regexp.MustCompile(`/[^" ]*/belljar-fake-[^/]*/workspace`)
	return func(yield func(belljar.Frame, error) bool) {
		for f, err := range r.Runs.Frames(ctx, id, from) {
			f.Output = place.ReplaceAll(f.Output, []byte("/workspace"))
			if !yield(f, err) {
				return
			}
		}
	}
}

// start serves an editor.
func start(t *testing.T, o lsp.Options) *editor {
	t.Helper()
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	mine, yours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if o.Config == "" {
		o.Config = filepath.Join(t.TempDir(), "config")
	}
	o.Version = "test"
	e := &editor{t: t, out: ours, in: bufio.NewReader(mine), pipe: mine, done: make(chan error, 1), answers: map[string]any{}}
	go func() {
		err := lsp.Serve(context.Background(), o, theirs, yours)
		yours.Close()
		theirs.Close()
		e.done <- err
	}()
	t.Cleanup(func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// with serves an editor over a service.
func with(s belljar.Service) lsp.Options {
	return lsp.Options{URL: "http://belljar.test", Open: func(context.Context) (belljar.Service, func() error, error) {
		return s, func() error { return nil }, nil
	}}
}

// close closes the input and waits for the end.
func (e *editor) close() error {
	e.once.Do(func() {
		e.out.Close()
		go func() {
			_, _ = io.Copy(io.Discard, e.in) // the remaining output
			e.pipe.Close()
		}()
		select {
		case e.err = <-e.done:
		case <-time.After(patience):
			e.err = fmt.Errorf("the server does not end")
		}
	})
	return e.err
}

func (e *editor) raw(body string) {
	e.t.Helper()
	if _, err := fmt.Fprintf(e.out, "Content-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		e.t.Fatal(err)
	}
}

func (e *editor) send(m map[string]any) {
	e.t.Helper()
	m["jsonrpc"] = "2.0"
	raw, err := json.Marshal(m)
	if err != nil {
		e.t.Fatal(err)
	}
	e.raw(string(raw))
}

func (e *editor) notify(method string, params any) {
	e.t.Helper()
	e.send(map[string]any{"method": method, "params": params})
}

// read reads one message.
func (e *editor) read() message {
	e.t.Helper()
	if err := e.pipe.SetReadDeadline(time.Now().Add(patience)); err != nil {
		e.t.Fatal(err)
	}
	head, err := textproto.NewReader(e.in).ReadMIMEHeader()
	if err != nil {
		e.t.Fatalf("the server ended, or does not answer: %v", err)
	}
	size, err := strconv.Atoi(head.Get("Content-Length"))
	if err != nil {
		e.t.Fatal(err)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(e.in, body); err != nil {
		e.t.Fatal(err)
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		e.t.Fatalf("%v in %s", err, body)
	}
	return m
}

// wait returns the first message that matches. Meanwhile the editor answers the server's requests.
func (e *editor) wait(is func(message) bool) message {
	e.t.Helper()
	if i := slices.IndexFunc(e.queue, is); i >= 0 {
		m := e.queue[i]
		e.queue = slices.Delete(e.queue, i, i+1)
		return m
	}
	for {
		m := e.read()
		if m.Method != "" && len(m.ID) > 0 {
			e.asked = append(e.asked, m)
			e.send(map[string]any{"id": m.ID, "result": e.answers[m.Method]})
		}
		if is(m) {
			return m
		}
		e.queue = append(e.queue, m)
	}
}

// next waits for a notification, or a request, of a method.
func (e *editor) next(method string) map[string]any {
	e.t.Helper()
	return e.wait(func(m message) bool { return m.Method == method }).object(e.t)
}

// ask sends a request and returns its id.
func (e *editor) ask(method string, params any) int {
	e.t.Helper()
	e.last++
	e.send(map[string]any{"id": e.last, "method": method, "params": params})
	return e.last
}

// answer waits for the answer to a request.
func (e *editor) answer(id int) message {
	e.t.Helper()
	return e.wait(func(m message) bool { return m.Method == "" && string(m.ID) == strconv.Itoa(id) })
}

func (e *editor) call(method string, params any) message {
	e.t.Helper()
	return e.answer(e.ask(method, params))
}

// initialize initializes an editor that supports Belljar's notifications.
func (e *editor) initialize(folders []string, options map[string]any) map[string]any {
	e.t.Helper()
	list := []any{}
	for _, dir := range folders {
		list = append(list, map[string]any{"uri": "file://" + dir, "name": filepath.Base(dir)})
	}
	if options == nil {
		options = map[string]any{"notifications": true}
	}
	m := e.call("initialize", map[string]any{
		"processId": os.Getpid(), "workspaceFolders": list, "initializationOptions": options,
		"capabilities": map[string]any{
			"window": map[string]any{"workDoneProgress": true, "showDocument": map[string]any{"support": true}},
			"workspace": map[string]any{
				"codeLens":               map[string]any{"refreshSupport": true},
				"didChangeConfiguration": map[string]any{"dynamicRegistration": true}, "didChangeWatchedFiles": map[string]any{"dynamicRegistration": true},
			},
			"textDocument": map[string]any{"publishDiagnostics": map[string]any{"relatedInformation": true, "codeDescriptionSupport": true}},
		},
	})
	e.notify("initialized", map[string]any{})
	return m.object(e.t)
}

// command executes a command.
func (e *editor) command(name string, argument any) message {
	e.t.Helper()
	return e.call("workspace/executeCommand", map[string]any{"command": name, "arguments": []any{argument}})
}

// run runs a program and waits for its end.
func (e *editor) run(argument map[string]any) map[string]any {
	e.t.Helper()
	argument["wait"] = true
	return e.command("tldw.sandbox.run", argument).object(e.t)
}

// refused checks that a command fails with a code and a text.
func (e *editor) refused(name string, argument any, code int, words string) {
	e.t.Helper()
	m := e.command(name, argument)
	if m.Error == nil {
		e.t.Errorf("%s %v goes through: %s", name, argument, m.Result)
	} else if m.Error.Code != code || !strings.Contains(m.Error.Message, words) {
		e.t.Errorf("%s %v: %d %s, want %d %s", name, argument, m.Error.Code, m.Error.Message, code, words)
	}
}

func (e *editor) open(uri, language, text string) {
	e.t.Helper()
	e.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": uri, "languageId": language, "version": 1, "text": text}})
}

// change replaces a part of a text, or all of it without a range.
func (e *editor) change(uri string, version int, at []int, text string) {
	e.t.Helper()
	c := map[string]any{"text": text}
	if len(at) == 4 {
		c["range"] = map[string]any{"start": map[string]any{"line": at[0], "character": at[1]}, "end": map[string]any{"line": at[2], "character": at[3]}}
	}
	e.notify("textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": uri, "version": version}, "contentChanges": []any{c}})
}

// diagnostics waits for the next diagnostics of a file.
func (e *editor) diagnostics(uri string) []map[string]any {
	e.t.Helper()
	m := e.wait(func(m message) bool {
		return m.Method == "textDocument/publishDiagnostics" && m.object(e.t)["uri"] == uri
	})
	var out []map[string]any
	for _, d := range m.object(e.t)["diagnostics"].([]any) {
		out = append(out, d.(map[string]any))
	}
	return out
}

// where returns the range of a diagnostic or lens as line:character-line:character.
func where(d map[string]any) string {
	r := d["range"].(map[string]any)
	at := func(name string) string {
		p := r[name].(map[string]any)
		return fmt.Sprintf("%v:%v", p["line"], p["character"])
	}
	return at("start") + "-" + at("end")
}

// printed returns the text of a stream in the belljar/log notifications of a run, which must already
// have arrived.
func (e *editor) printed(id any, stream string) (text string) {
	for _, m := range e.queue {
		if m.Method == "belljar/log" {
			if p := m.object(e.t); p["run_id"] == id && p["stream"] == stream {
				text += p["data"].(string)
			}
		}
	}
	return text
}

// folder makes a folder with files, in a place without links.
func makeFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
