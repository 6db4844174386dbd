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
)

// usualLanguage is that of code that does not say.
const usualLanguage = "python"

// runInput is the input of sandbox_run (docs/compatibility.md#tools).
type runInput struct {
	Runtime        string            `json:"runtime"`
	Code           string            `json:"code"`
	Args           []string          `json:"args"`
	Env            map[string]string `json:"env"`
	Files          map[string]string `json:"files"`
	TimeoutSeconds float64           `json:"timeout_seconds"`
}

// runOutput is its result, and what else there is to know.
type runOutput struct {
	OK         bool   `json:"ok"`
	Runtime    string `json:"runtime"`
	ExitCode   int    `json:"exit_code"`
	DurationMs int64  `json:"duration_ms"`
	output
	Error     string     `json:"error,omitempty"`
	RunID     string     `json:"run_id"`
	TimedOut  bool       `json:"timed_out,omitempty"`
	Signal    string     `json:"signal,omitempty"`
	Artifacts []artifact `json:"artifacts,omitempty"`
}

// languages are the names that sandbox_run takes: the API's three, and every other.
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

func computeTools() []*tool {
	kinds := slices.Clone(languages())
	return []*tool{{
		name: "sandbox_run", title: "Run code",
		about: "Runs a program once in a fresh, isolated Linux sandbox without network and answers with what it printed and its exit code. " +
			"Nothing stays: send every file that it needs in files. Results to keep go to /workspace/artifacts; they, and pictures " +
			"(png, jpeg, gif, svg) written anywhere in /workspace, come back with the result.",
		hints: adds(false),
		input: takes(map[string]schema{
			"runtime":         {"type": "string", "enum": kinds, "description": "The language of code; " + usualLanguage + " unless the operator set another one"},
			"code":            aText("The program's text"),
			"args":            aList(aText("")),
			"env":             aTable("Environment variables"),
			"files":           aTable("Files for the program: text by path, relative to /workspace"),
			"timeout_seconds": aWhole("How long it may take").atLeast(1),
		}, "code"),
		output: gives(outputFields(map[string]schema{
			"ok": aFlag("Whether it ended with exit code 0"), "runtime": aText("The language"),
			"exit_code": aWhole("128+n if a signal ended it, 125 if it never began"), "duration_ms": aWhole("From its start to its end"),
			"error": aText("What went wrong, if something did besides its exit code"), "run_id": aText("Names its resources"),
			"timed_out": aFlag("Whether its time was over"), "signal": aText("The signal that ended it"), "artifacts": artifactFields(),
		}), "ok", "runtime", "exit_code", "duration_ms", "stdout", "stderr"),
		do: decoded(runCode),
	}}
}

func runCode(c *call, in runInput) (*reply, error) {
	name := cmp.Or(in.Runtime, c.terms.Language, usualLanguage)
	l, known := belljar.LanguageOf(name)
	if !known {
		return nil, refuse("runtime", "runtime %.40q is not known", name)
	}
	if in.Code == "" {
		return nil, refuse("code", "code must not be empty")
	}
	timeout, err := c.terms.timeout("timeout_seconds", in.TimeoutSeconds)
	if err != nil {
		return nil, err
	}
	spec := c.oneShot(cmp.Or(c.terms.Image, c.kit.opts.Image))
	file := l.FileOf(in.Code)
	spec.Env, spec.TimeoutSec, spec.Language, spec.Command = in.Env, timeout, l.Aliases[0], append([]string{file}, in.Args...)
	spec.WorkspaceExec = true
	spec.Files = append(spec.Files, belljar.InlineFile{Path: file, Content: []byte(in.Code)})
	for _, path := range slices.Sorted(maps.Keys(in.Files)) {
		if clean, err := belljar.CleanPath(path); err == nil && clean == file {
			return nil, refuse("files", "files: %.80q is where code goes", path)
		}
		spec.Files = append(spec.Files, belljar.InlineFile{Path: path, Content: []byte(in.Files[path])})
	}
	run, out, err := c.finish(spec, forever)
	if err != nil {
		return nil, inFiles(err)
	}
	ms, _ := run.Took()
	stdout, stderr := streams(out, c.terms.MaxOutput)
	found, more := c.collect(run, spec.Files)
	o := runOutput{
		OK: run.Phase == belljar.PhaseCompleted && run.ExitStatus() == 0, Runtime: name, ExitCode: run.ExitStatus(), DurationMs: ms,
		output: outputOf(stdout, stderr), RunID: run.ID, TimedOut: run.Phase == belljar.PhaseTimedOut, Signal: run.Signal, Artifacts: found,
	}
	if run.ReasonCode != "" && run.ReasonCode != belljar.ReasonNonZeroExit {
		o.Error = strings.TrimSpace(cmp.Or(run.Message, string(run.ReasonCode)) + "\n" + advice(run))
	}
	text := headline(run) + "\n" + stdout.section("stdout") + stderr.section("stderr") +
		lost(stdout, stderr, "All that is kept of it is the resource "+outputURI(run.ID)+"; or let the program print less, or write to /workspace/artifacts.") +
		listed(found)
	return &reply{text, more, o}, nil
}

// oneShot is what every one-shot run of the visit has.
func (c *call) oneShot(image string) belljar.RunSpec {
	t := c.terms
	spec := belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: image, Runtime: t.Runtime, Isolation: t.Isolation, TrustLevel: t.TrustLevel,
		Resources: t.Resources, CapturePatterns: append(Captured(), t.Capture...),
	}
	spec.NetworkPolicy = c.network()
	return spec
}

// network is what the operator wants; policies without egress refuse anything but none.
func (c *call) network() string {
	if c.terms.Network {
		return "allowlist"
	}
	return ""
}

// inFiles tells of a refused run in sandbox_run's words.
func inFiles(err error) error {
	return renamed(err, map[string]string{"command": "args", "timeout_sec": "timeout_seconds"})
}

// s0Input is the input of sandbox.run (docs/compatibility.md#the-tool-sandboxrun).
type s0Input struct {
	Runtime   string   `json:"runtime"`
	SessionID string   `json:"session_id"`
	BaseImage string   `json:"base_image"`
	Command   []string `json:"command"`
	Files     []struct {
		Path    string `json:"path"`
		Content string `json:"content_b64"`
	} `json:"files"`
	TimeoutSec float64           `json:"timeout_sec"`
	Env        map[string]string `json:"env"`
}

// s0Output is its result, and how the run stands.
type s0Output struct {
	RunID        string        `json:"run_id"`
	SessionID    string        `json:"session_id,omitempty"`
	Phase        belljar.Phase `json:"phase"`
	LogStreamURL string        `json:"log_stream_url,omitempty"`
	PolicyHash   string        `json:"policy_hash,omitempty"`
	ImageDigest  string        `json:"image_digest,omitempty"`
	Runtime      string        `json:"runtime,omitempty"`
	ended
	output
	Artifacts []artifact `json:"artifacts,omitempty"`
}

// s0Tool is sandbox.run: its fixed schema, with the runtimes of this server.
func s0Tool(runtimes []string) *tool {
	names := []string{"docker", "firecracker"}
	for _, name := range runtimes {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	list := func(of schema) schema { return schema{"type": "array", "items": of} }
	plain := func() schema { return schema{"type": "string"} }
	input := func(env, timeout schema) schema {
		return schema{
			"type": "object",
			"properties": map[string]schema{
				"runtime":    {"enum": names},
				"session_id": plain(), "base_image": plain(), "command": list(plain()),
				"files":       list(schema{"type": "object", "properties": map[string]schema{"path": plain(), "content_b64": plain()}}),
				"timeout_sec": timeout, "env": env,
			},
			"oneOf": []schema{{"required": []string{"session_id", "command"}}, {"required": []string{"base_image", "command"}}},
		}
	}
	return &tool{
		name: runTool, title: "Run a command",
		about: "Runs a command once and answers with what it printed: in a fresh sandbox made of base_image (host is this server's own programs), or in a session. " +
			"command is the program and its arguments, without a shell. files are written to /workspace first. There is no network.",
		hints:  adds(false),
		input:  input(schema{"type": "object"}, schema{"type": "integer"}),
		checks: input(schema{"type": "object", "additionalProperties": schema{"type": "string"}}, schema{"type": "integer", "minimum": 1}),
		output: gives(endFields(outputFields(map[string]schema{
			"run_id": aText("The run's id"), "session_id": aText("Its session's"), "phase": aText("completed, failed, killed or timed_out; running if it goes on"),
			"log_stream_url": aText("A WebSocket that its log can be followed on"), "policy_hash": aText("Of the policy in force"),
			"image_digest": aText("Of its image"), "runtime": aText("Its isolation"), "artifacts": artifactFields(),
		})), "run_id", "phase", "stdout", "stderr"),
		do: decoded(runCommand),
	}
}

func runCommand(c *call, in s0Input) (*reply, error) {
	timeout, err := c.terms.timeout("timeout_sec", in.TimeoutSec)
	if err != nil {
		return nil, err
	}
	var spec belljar.RunSpec
	if in.SessionID != "" {
		if err := c.mayUse(in.SessionID, true); err != nil {
			return nil, err
		}
		spec = belljar.RunSpec{SpecVersion: belljar.SpecVersion, SessionID: in.SessionID, Runtime: in.Runtime}
	} else {
		image, err := fixed("base_image", in.BaseImage, c.terms.Image)
		if err != nil {
			return nil, err
		}
		spec = c.oneShot(image)
		if spec.Runtime, err = fixed("runtime", in.Runtime, c.terms.Runtime); err != nil {
			return nil, err
		}
	}
	spec.Command, spec.Env, spec.TimeoutSec = in.Command, in.Env, timeout
	for i, f := range in.Files {
		data, err := base64.StdEncoding.DecodeString(f.Content)
		if err != nil {
			return nil, refuse(fmt.Sprintf("files[%d].content_b64", i), "files[%d].content_b64 is not base64", i)
		}
		spec.Files = append(spec.Files, belljar.InlineFile{Path: f.Path, Content: data})
	}
	wait := forever
	if c.terms.InMode() == belljar.ToolsCode {
		wait = c.terms.Wait // it can be read on
	}
	run, out, err := c.finish(spec, wait)
	if err != nil {
		return nil, err
	}
	stdout, stderr := streams(out, c.terms.MaxOutput)
	o := s0Output{
		RunID: run.ID, SessionID: run.SessionID, Phase: run.Phase, PolicyHash: run.PolicyHash, ImageDigest: run.ImageDigest,
		Runtime: run.Runtime, ended: endOf(run), output: outputOf(stdout, stderr),
	}
	if c.client.StreamURL != nil {
		o.LogStreamURL = c.client.StreamURL(run)
	}
	if !run.Phase.Terminal() {
		place := cmp.Or(run.SessionID, run.ID)
		text := fmt.Sprintf("run %s goes on (%s). Read what it prints with sandbox_exec_read, or wait with sandbox_exec_wait: sandbox_id %s, exec_id %s.",
			run.ID, run.Phase, place, run.ID)
		return &reply{text, nil, o}, nil
	}
	var more []sdk.Content
	if run.SessionID == "" {
		o.Artifacts, more = c.collect(run, spec.Files)
	}
	text := headline(run) + "\n" + stdout.section("stdout") + stderr.section("stderr") +
		lost(stdout, stderr, "All that is kept of it is the resource "+outputURI(run.ID)+".") + listed(o.Artifacts)
	return &reply{text, more, o}, nil
}
