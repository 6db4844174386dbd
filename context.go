package belljar

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"time"
)

// ContextSpec is a request for a context in a session: a running interpreter whose variables persist between runs.
type ContextSpec struct {
	Language string `json:"language" minLength:"1"` // python, ipython, javascript or bash, or an alias of these
	Name     string `json:"name,omitempty"`         // letters, digits, and ._- after the first, at most 40; "" is the language's name
	Cwd      string `json:"cwd,omitempty"`          // start directory in the workspace; "" is the workspace's root
}

// ContextState is the state of a context.
type ContextState string

// The states of a context.
const (
	ContextIdle    ContextState = "idle"    // its interpreter waits for code
	ContextBusy    ContextState = "busy"    // it executes code
	ContextStopped ContextState = "stopped" // it has no interpreter: the next run starts one
)

// Context is a running interpreter of a session.
type Context struct {
	Name       string       `json:"name"`
	Language   string       `json:"language"` // python, ipython, javascript or bash
	Cwd        string       `json:"cwd,omitempty"`
	State      ContextState `json:"state"`
	Runs       int          `json:"runs"` // how many runs it has executed
	CreatedAt  time.Time    `json:"created_at"`
	LastUsedAt time.Time    `json:"last_used_at"`
}

// ContextRun describes the context of a run.
type ContextRun struct {
	Name     string `json:"name"`
	Language string `json:"language"`
	// State is kept if the variables persisted. It is replaced if the run replaced an earlier interpreter, or ended its own, and new for
	// the first run since the session was hibernated: in both cases the variables are lost. It is "" until the run has ended.
	State string `json:"state,omitempty"`
	// Replayed is how many pieces of earlier code were executed before this run's own ([RunSpec.Replay]).
	Replayed int `json:"replayed,omitempty"`
}

// ContextNew is the state of a context that runs code for the first time since its session was hibernated.
const ContextNew = "new"

// Lost reports whether the context lost its variables, and a replay did not restore them.
func (c *ContextRun) Lost() bool {
	return c != nil && (c.State == ShellReplaced || c.State == ContextNew && c.Replayed == 0)
}

// Completion lists the possible continuations of code.
type Completion struct {
	Word    string   `json:"word"`    // the end of the code, which each match replaces
	Matches []string `json:"matches"` // sorted, at most 200
}

// Contexts manages the contexts of a caller's sessions. [RunSpec.Context] executes a run in one.
type Contexts interface {
	// Create starts a context. If the name exists, it returns the existing context, or [CodeConflict] if the language or cwd differs.
	Create(ctx context.Context, sessionID string, spec ContextSpec) (Context, error)
	// List returns a session's contexts, sorted by name.
	List(ctx context.Context, sessionID string) ([]Context, error)
	// Complete returns the possible continuations of code. A busy context returns no matches.
	Complete(ctx context.Context, sessionID, name, code string) (Completion, error)
	// Restart ends a context's interpreter, its runs and all processes that they started, and starts a new interpreter.
	Restart(ctx context.Context, sessionID, name string) (Context, error)
	// Delete ends a context, its runs and all processes that they started. It is idempotent.
	Delete(ctx context.Context, sessionID, name string) error
}

// maxContextName is the length of the longest name of a context.
const maxContextName = 40

// ContextLanguage returns the canonical name of a context's language: python, ipython (Python, with the image's IPython), javascript or
// bash. It returns false for a language without contexts.
func ContextLanguage(name string) (string, bool) {
	if name == "ipython" {
		return name, true
	}
	switch l, _ := LanguageOf(name); l.Name {
	case "Python":
		return "python", true
	case "JavaScript":
		return "javascript", true
	case "shell":
		return "bash", true
	}
	return "", false
}

// Validate checks the spec.
func (s ContextSpec) Validate() error {
	if s.Language == "" {
		return invalid("language", "language must not be empty")
	}
	if err := checkContextLanguage(s.Language); err != nil {
		return err
	}
	if s.Name != "" {
		if err := CheckContextName("name", s.Name); err != nil {
			return err
		}
	}
	if s.Cwd != "" {
		if _, err := CleanPath(s.Cwd); err != nil {
			return invalid("cwd", "cwd %q: %v", s.Cwd, err)
		}
	}
	return nil
}

// CheckContextName checks the name of a context. field is the request's field, for the error.
func CheckContextName(field, name string) error {
	if ok, _ := regexp.MatchString(`^[A-Za-z0-9][A-Za-z0-9._-]*$`, name); ok && len(name) <= maxContextName {
		return nil
	}
	e := invalid(field, "%s %.60q is not a name: letters and digits, and ._- after the first, at most %d", field, name, maxContextName)
	e.Hint = "names look like analysis or model-2"
	return e
}

func checkContextLanguage(name string) error {
	if _, ok := ContextLanguage(name); ok {
		return nil
	}
	e := invalid("language", "language %q has no contexts", name)
	e.Details["provided"], e.Details["supported"] = name, []string{"python", "ipython", "javascript", "bash"}
	e.Hint = "use one of these, or a run without a context"
	return e
}

// checkContext checks the fields of a run in a context. The context already has a directory and an environment.
func (s *RunSpec) checkContext() error {
	for _, other := range []struct {
		name  string
		given bool
	}{{"command", len(s.Command) > 0}, {"shell", s.Shell != nil}, {"cwd", s.Cwd != ""}, {"env", len(s.Env) > 0}, {"build_cache", s.BuildCache}} {
		if other.given {
			e := invalid(other.name, "context and %s exclude each other", other.name)
			e.Hint = "say it in the code: what it changes lasts from one run to the next"
			return e
		}
	}
	if s.CPUTimeSec != 0 {
		e := invalid("cpu_time_sec", "cpu_time_sec does not go with context: what earlier runs have left uses the same clock")
		e.Hint = "bound its time with timeout_sec"
		return e
	}
	if err := CheckContextName("context", s.Context); err != nil {
		return err
	}
	if s.Language != "" {
		if err := checkContextLanguage(s.Language); err != nil {
			return err
		}
	}
	switch {
	case s.SessionID == "":
		return invalid("context", "context needs session_id: it is a session's")
	case strings.TrimSpace(s.Code) == "":
		return invalid("code", "code must not be empty")
	case len(s.Code) > maxArgBytes:
		e := invalid("code", "code is limited to %d bytes, got %d", maxArgBytes, len(s.Code))
		e.Details["provided"], e.Details["maximum"] = len(s.Code), maxArgBytes
		e.Hint = "write more of it to a file, and import that"
		return e
	case strings.ContainsRune(s.Code, 0):
		return invalid("code", "code contains a NUL byte")
	}
	return nil
}

// ResultType is the type of a result.
type ResultType string

// The types of results.
const (
	ResultValue   ResultType = "value"   // of the last expression
	ResultDisplay ResultType = "display" // what the code displayed
	ResultError   ResultType = "error"   // how the code failed
	ResultInput   ResultType = "input"   // the code asks for a line of standard input
	ResultCut     ResultType = "cut"     // further results were dropped; Text has the reason
)

// Result is a value, display or error from code in a context. The program controls it, so do not trust it: never put its HTML into a
// page, and show an SVG only as an image.
type Result struct {
	Type ResultType `json:"type"`
	// Data are the representations of a value or of what was displayed, by MIME type. JSON types are [json.RawMessage] where they are
	// read. Others are strings, in base64 unless they are text or SVG.
	Data map[string]any `json:"data,omitempty"`
	// Count is the number of the code in its context. Only values have one.
	Count int `json:"count,omitempty"`
	// Name, Value, Frames (outermost first) and Traceback describe an error.
	Name      string        `json:"name,omitempty"`
	Value     string        `json:"value,omitempty"`
	Frames    []ResultFrame `json:"frames,omitempty"`
	Traceback string        `json:"traceback,omitempty"`
	// Prompt and Password describe a request for input.
	Prompt   string `json:"prompt,omitempty"`
	Password bool   `json:"password,omitempty"` // do not echo the input
	Text     string `json:"text,omitempty"`
}

// UnmarshalJSON leaves values of JSON types as they are written, and reads at most [mostFrames] frames: a program can nest values that take up
// to 60 times the memory when decoded. It drops values with more than [mostDepth] levels, which clients in other languages cannot read.
func (r *Result) UnmarshalJSON(b []byte) error {
	type plain Result
	x := struct {
		*plain
		Data   map[string]json.RawMessage `json:"data"`
		Frames resultFrames               `json:"frames"`
	}{plain: (*plain)(r)}
	if err := json.Unmarshal(b, &x); err != nil {
		return err
	}
	if r.Data, r.Frames = nil, x.Frames; x.Data != nil {
		r.Data = make(map[string]any, len(x.Data))
	}
	for mime, raw := range x.Data {
		if deeper(raw, mostDepth) {
			continue
		}
		var text string
		if r.Data[mime] = raw; raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
			r.Data[mime] = text
		}
	}
	return nil
}

// mostDepth is how many levels of lists and objects a value of a JSON type may have.
const mostDepth = 100

// deeper reports whether a valid JSON value has more levels of lists and objects.
func deeper(raw []byte, levels int) bool {
	text := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			text = !text
		case text && c == '\\':
			i++
		case text:
		case c == '[' || c == '{':
			if levels--; levels < 0 {
				return true
			}
		case c == ']' || c == '}':
			levels++
		}
	}
	return false
}

// mostFrames is how many frames of an error are read, the outermost ones. Interpreters report at most 50.
const mostFrames = 100

type resultFrames []ResultFrame

// UnmarshalJSON reads the first frames of a list.
func (list *resultFrames) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return err // null, or what is no list
	}
	for d.More() && len(*list) < mostFrames {
		var one ResultFrame
		if err := d.Decode(&one); err != nil {
			return err
		}
		*list = append(*list, one)
	}
	return nil
}

// MarshalJSON always writes the name, value and frames of an error, even if they are empty. It leaves it to the caller's encoder whether HTML,
// which results often have, is escaped: that makes it up to six times as long.
func (r Result) MarshalJSON() ([]byte, error) {
	type result Result
	var v any = result(r)
	if r.Type == ResultError {
		v = struct {
			result
			Name   string        `json:"name"`
			Value  string        `json:"value"`
			Frames []ResultFrame `json:"frames"`
		}{result(r), r.Name, r.Value, append([]ResultFrame{}, r.Frames...)}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// ResultFrame is one stack frame of an error.
type ResultFrame struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Function string `json:"function,omitempty"`
	Source   string `json:"source,omitempty"` // the line's text
}

// mostResults is how many results of a run are read. A program can print millions of tiny ones, which take much more memory than its log.
const mostResults = 10_000

// ResultReader puts results together from the frames of a log, in their order. The zero value is ready for use.
type ResultReader struct {
	line []byte
	read int
}

// Add returns the results that a frame completes. Lines that are no results are left out, and so are those after the first 10,000: one of
// type [ResultCut] stands for them.
func (r *ResultReader) Add(f Frame) (list []Result) {
	if f.Type != FrameResult {
		return nil
	}
	for b := f.Output; len(b) > 0 && r.read <= mostResults; {
		n := bytes.IndexByte(b, '\n') + 1
		if n == 0 {
			r.line = append(r.line, b...)
			return list
		}
		if r.read++; r.read > mostResults {
			r.line = nil
			return append(list, Result{Type: ResultCut, Text: fmt.Sprintf("further results were left out: at most %d of a run are read", mostResults)})
		}
		r.line = append(r.line, b[:n]...)
		b = b[n:]
		var result Result
		if json.Unmarshal(r.line, &result) == nil && result.known() {
			list = append(list, result)
		}
		r.line = r.line[:0]
	}
	return list
}

func (r Result) known() bool {
	shown := r.Type == ResultValue || r.Type == ResultDisplay
	return shown && len(r.Data) > 0 || r.Type == ResultError || r.Type == ResultInput || r.Type == ResultCut
}

// Results reads a log to its end, and returns the results of the run. cut reports that the log was truncated, so results may be missing.
func Results(log iter.Seq2[Frame, error]) (list []Result, cut bool, err error) {
	var r ResultReader
	for f, err := range log {
		if err != nil {
			return nil, false, err
		}
		list = append(list, r.Add(f)...)
		cut = cut || f.Type == FrameTruncated
	}
	return list, cut, nil
}
