package mcp

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// runInput is the input of sandbox_run (docs/compatibility.md#tools).
type runInput struct {
	Runtime        string            `json:"runtime,omitempty" about:"The language of code; python unless the operator set another one"`
	Code           string            `json:"code" about:"The program's source"`
	Args           []string          `json:"args,omitempty"`
	Env            map[string]string `json:"env,omitempty" about:"Environment variables"`
	Files          map[string]string `json:"files,omitempty" about:"Files for the program: text by path, relative to /workspace"`
	TimeoutSeconds int64             `json:"timeout_seconds,omitempty" minimum:"1" about:"Time limit in seconds"`
}

// runOutput is the output of sandbox_run, with additions.
type runOutput struct {
	OK         bool   `json:"ok" about:"Whether it ended with exit code 0"`
	Runtime    string `json:"runtime" about:"The language"`
	ExitCode   int    `json:"exit_code" about:"128+n if a signal ended it, 125 if it never started"`
	DurationMs int64  `json:"duration_ms" about:"Milliseconds from its start to its end"`
	output
	Error     string     `json:"error,omitempty" about:"What went wrong, if its exit code is not the reason"`
	RunID     string     `json:"run_id" about:"Names its resources"`
	TimedOut  bool       `json:"timed_out,omitempty" about:"Whether it was ended by its timeout"`
	Signal    string     `json:"signal,omitempty" about:"The signal that ended it"`
	Artifacts []artifact `json:"artifacts,omitempty"`

	Failure *belljar.RunFailure `json:"failure,omitempty" about:"The exception, failed test or compiler message that its output ends with, with its stack from the failure outwards"`
}

// languages returns the names of languages: the API's three, then all others.
func languages() []string {
	names := []string{"python", "node", "bash"}
	for _, l := range belljar.Languages() {
		for _, alias := range l.Aliases {
			if !slices.Contains(names, alias) {
				names = append(names, alias)
			}
		}
	}
	return names
}

func computeTool() *tool {
	t := newTool[runInput, runOutput]("sandbox_run", "Run code", executes(false), runCode,
		"Runs a program once in a fresh, isolated Linux sandbox "+withoutNetwork+" and answers with what it printed and its exit code. "+
			"Nothing stays: send every file that it needs in files. Results to keep go to /workspace/artifacts; they, and pictures "+
			"(png, jpeg, gif; svg as text) written anywhere in /workspace, come back with the result.")
	t.input["properties"].(map[string]schema)["runtime"]["enum"] = languages()
	return t
}

func runCode(c *call, in runInput) (*reply, error) {
	name := cmp.Or(in.Runtime, c.session.terms.Language, "python")
	l, known := belljar.LanguageOf(name)
	if !known {
		e := api.Refuse("runtime", "runtime %.40q is not known", name)
		e.Hint = "it is the language of code: one of " + strings.Join(languages(), ", ")
		return nil, e
	}
	if in.Code == "" {
		return nil, api.Refuse("code", "code must not be empty")
	}
	timeout, err := c.session.terms.timeout("timeout_seconds", float64(in.TimeoutSeconds))
	if err != nil {
		return nil, err
	}
	image := c.session.terms.Image
	if !c.session.terms.setsImage() {
		image = c.session.kit.opts.Image
	}
	spec := c.oneShot(image)
	file := l.FileOf(in.Code)
	spec.Env, spec.TimeoutSec, spec.Language, spec.Command = in.Env, timeout, l.Aliases[0], append([]string{file}, in.Args...)
	spec.WorkspaceExec = true
	spec.Files = append(spec.Files, belljar.InlineFile{Path: file, Content: []byte(in.Code)})
	names := map[string]string{"command": "args", "timeout_sec": "timeout_seconds"}
	for _, path := range slices.Sorted(maps.Keys(in.Files)) {
		if clean, err := belljar.CleanPath(path); err == nil && clean == file {
			return nil, api.Refuse("files", "files: %.80q is where code goes", path)
		}
		names[fmt.Sprintf("files[%d].path", len(spec.Files))] = "files"
		spec.Files = append(spec.Files, belljar.InlineFile{Path: path, Content: []byte(in.Files[path])})
	}
	run, out, err := c.finish(spec, forever)
	if err != nil {
		return nil, api.Renamed(err, names)
	}
	ms, _ := run.Took()
	text, printed := report(run, out, c.session.terms.MaxOutput, "All that is kept of it is the resource "+outputURI(run.ID)+
		"; or let the program print less, or write to /workspace/artifacts.")
	found, left, more := c.collect(run, spec.Files)
	o := runOutput{
		OK: run.Phase == belljar.PhaseCompleted && run.ExitStatus() == 0, Runtime: name, ExitCode: run.ExitStatus(), DurationMs: ms,
		output: printed, RunID: run.ID, TimedOut: run.Phase == belljar.PhaseTimedOut, Signal: run.Signal, Artifacts: found, Failure: run.Failure,
	}
	if run.ReasonCode != "" && run.ReasonCode != belljar.ReasonNonZeroExit {
		o.Error = strings.TrimSpace(cmp.Or(run.Message, string(run.ReasonCode)) + "\n" + advice(run))
	}
	return &reply{text + left, more, o}, nil
}

// oneShot returns a one-shot run on the operator's terms.
func (c *call) oneShot(image string) belljar.RunSpec {
	t := c.session.terms
	return belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: image, Runtime: t.Runtime, Isolation: t.Isolation, TrustLevel: t.TrustLevel,
		Resources: t.Resources, CapturePatterns: append(DefaultCapture(), t.Capture...), NetworkPolicy: t.policy(), Egress: t.Egress,
		Secrets: t.Secrets, Packages: t.Packages, Git: t.Git, Template: t.Template,
	}
}

// commandInput is the input of sandbox.run (docs/compatibility.md#the-tool-sandboxrun).
type commandInput struct {
	Runtime   string   `json:"runtime,omitempty"`
	SessionID string   `json:"session_id,omitempty"`
	BaseImage string   `json:"base_image,omitempty"`
	Command   []string `json:"command,omitempty"`
	Files     []struct {
		Path    string  `json:"path,omitempty"`
		Content *string `json:"content_b64,omitempty"`
	} `json:"files,omitempty"`
	TimeoutSec int64             `json:"timeout_sec,omitempty" minimum:"1"`
	Env        map[string]string `json:"env,omitempty"`
}

// commandOutput is the output of sandbox.run, with additions.
type commandOutput struct {
	RunID        string        `json:"run_id" about:"The run's id"`
	SessionID    string        `json:"session_id,omitempty" about:"Its session's"`
	Phase        belljar.Phase `json:"phase" about:"completed, failed, killed or timed_out; running if it has not ended"`
	LogStreamURL string        `json:"log_stream_url,omitempty" about:"URL of its log over a WebSocket"`
	PolicyHash   string        `json:"policy_hash,omitempty" about:"Of the policy in force"`
	ImageDigest  string        `json:"image_digest,omitempty" about:"Of its image"`
	Runtime      string        `json:"runtime,omitempty" about:"Its isolation"`
	ended
	output
	Artifacts []artifact `json:"artifacts,omitempty"`
}

// commandTool returns sandbox.run: its fixed schema, with the runtimes of this server.
func commandTool(runtimes []string) *tool {
	names := []string{"docker", "firecracker"}
	for _, name := range runtimes {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	t := newTool[commandInput, commandOutput](runTool, "Run a command", executes(true), func(c *call, in commandInput) (*reply, error) {
		if in.Runtime != "" && !slices.Contains(names, in.Runtime) {
			return nil, api.Refuse("runtime", "runtime must be one of %s, got %.40q", strings.Join(names, ", "), in.Runtime)
		}
		return runCommand(c, in)
	}, "Runs a command once and answers with what it printed: in a fresh sandbox made of base_image (host is this server's own programs), or in a session. "+
		"command is the program and its arguments, without a shell. files are written to /workspace first. "+noNetwork)
	delete(t.input, "additionalProperties")
	t.input["oneOf"] = []schema{{"required": []string{"session_id", "command"}}, {"required": []string{"base_image", "command"}}}
	t.input.set("runtime", schema{"enum": names})
	t.input.set("timeout_sec", schema{"type": "integer"})
	t.input.set("env", schema{"type": "object"})
	return t
}

// checkForm refuses arguments that do not name a command and exactly one place. The place is known if the operator sets the image.
func (in *commandInput) checkForm(operators bool) error {
	message := "give command, and either session_id or base_image"
	switch {
	case in.SessionID != "" && in.BaseImage != "":
		message = "session_id and base_image exclude each other: a session has its image"
	case len(in.Command) > 0 && (in.SessionID != "" || in.BaseImage != "" || operators):
		return nil
	case operators:
		message = "give command"
	}
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: message, Details: map[string]any{"fields": []string{"session_id", "base_image", "command"}},
	}
}

func runCommand(c *call, in commandInput) (*reply, error) {
	if err := in.checkForm(c.session.terms.setsImage()); err != nil {
		return nil, err
	}
	timeout, err := c.session.terms.timeout("timeout_sec", float64(in.TimeoutSec))
	if err != nil {
		return nil, err
	}
	var spec belljar.RunSpec
	if in.SessionID != "" {
		if err := c.authorize(in.SessionID, true); err != nil {
			return nil, err
		}
		spec = belljar.RunSpec{SpecVersion: belljar.SpecVersion, SessionID: in.SessionID, Runtime: in.Runtime}
	} else {
		image, err := fixed("base_image", in.BaseImage, c.session.terms.Image)
		if err != nil {
			return nil, err
		}
		spec = c.oneShot(image)
		if spec.Runtime, err = fixed("runtime", in.Runtime, c.session.terms.Runtime); err != nil {
			return nil, err
		}
	}
	spec.Command, spec.Env, spec.TimeoutSec = in.Command, in.Env, timeout
	for i, f := range in.Files {
		if f.Content == nil {
			e := api.Refuse(fmt.Sprintf("files[%d].content_b64", i), "files[%d].content_b64 is required", i)
			e.Hint = `"content_b64": "" makes an empty file`
			return nil, e
		}
		data, err := base64.StdEncoding.DecodeString(*f.Content)
		if err != nil {
			return nil, api.Refuse(fmt.Sprintf("files[%d].content_b64", i), "files[%d].content_b64 is not base64", i)
		}
		spec.Files = append(spec.Files, belljar.InlineFile{Path: f.Path, Content: data})
	}
	wait := forever
	if c.session.terms.InMode() == belljar.ToolsCode {
		wait = c.session.terms.Wait // this mode has tools that read the rest
	}
	run, out, err := c.finish(spec, wait)
	if err != nil {
		return nil, err
	}
	o := commandOutput{
		RunID: run.ID, SessionID: run.SessionID, Phase: run.Phase, PolicyHash: run.PolicyHash, ImageDigest: run.ImageDigest,
		Runtime: run.Runtime, ended: endOf(run),
	}
	if c.session.client.StreamURL != nil {
		o.LogStreamURL = c.session.client.StreamURL(run)
	}
	if out == nil {
		place := cmp.Or(run.SessionID, run.ID)
		text := fmt.Sprintf("run %s is still running (%s). Read its output with sandbox_exec_read, or wait with sandbox_exec_wait: sandbox_id %s, exec_id %s.",
			run.ID, run.Phase, place, run.ID)
		return &reply{unfinished(run, text), nil, o}, nil
	}
	text, printed := report(run, out, c.session.terms.MaxOutput, "All that is kept of it is the resource "+outputURI(run.ID)+".")
	o.output = printed
	var left string
	var more []sdk.Content
	if run.SessionID == "" {
		o.Artifacts, left, more = c.collect(run, spec.Files)
	}
	return &reply{text + left, more, o}, nil
}
