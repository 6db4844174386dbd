package mcp

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// The inputs and outputs of docs/compatibility.md#tools, with additions.
type (
	// inSandbox is in the inputs of tools that need [call.authorize] before they begin.
	inSandbox struct {
		SandboxID string `json:"sandbox_id" about:"From sandbox_open"`
	}
	// ofExec names an exec, which [call.findExec] finds.
	ofExec struct {
		SandboxID string `json:"sandbox_id" about:"From sandbox_open"`
		ExecID    string `json:"exec_id" about:"From sandbox_exec"`
	}
	openInput struct {
		SessionKey string `json:"session_key,omitempty" about:"The name of another sandbox of the same conversation or workflow; omit it for the default one"`
	}
	openOutput struct {
		SandboxID string `json:"sandbox_id" about:"From sandbox_open"`
		Image     string `json:"image" about:"Its root file system"`
		Workdir   string `json:"workdir" about:"Working directory of commands, and folder of the files"`
		Created   bool   `json:"created" about:"Whether this call made it"`
	}
	execInput struct {
		inSandbox
		Cmd            []string          `json:"cmd" about:"The program and its arguments: [\"python3\", \"main.py\"]"`
		Cwd            string            `json:"cwd,omitempty" about:"Working directory; default /workspace"`
		Env            map[string]string `json:"env,omitempty" about:"Environment variables"`
		TimeoutSeconds int64             `json:"timeout_seconds,omitempty" minimum:"1" about:"Time limit in seconds"`
		Stream         bool              `json:"stream,omitempty" about:"Answer at once; read its output with sandbox_exec_read"`
	}
	execOutput struct {
		ExecID string `json:"exec_id" about:"From sandbox_exec"`
		Status string `json:"status" enum:"completed,running" about:"completed once it has ended, whatever the outcome"`
		ended
		*output
		DurationMs *int64 `json:"duration_ms,omitempty" about:"Milliseconds from its start to its end"`
	}
	readInput struct {
		ofExec
		SinceSeq  uint64 `json:"since_seq,omitempty" about:"next_seq of the previous answer"`
		MaxChunks uint64 `json:"max_chunks,omitempty" about:"Most chunks in the answer; default 100, at most 1000"`
	}
	readOutput struct {
		Chunks    []chunk `json:"chunks"`
		Done      bool    `json:"done" about:"Whether the command has ended and all output was read"`
		NextSeq   uint64  `json:"next_seq" about:"since_seq of the next request"`
		Truncated bool    `json:"truncated,omitempty" about:"Whether output is missing because it is no longer kept"`
		ended
	}
	chunk struct {
		Seq      uint64 `json:"seq" about:"Its position"`
		Stream   string `json:"stream" about:"stdout or stderr"`
		Text     string `json:"text" about:"The output"`
		Encoding string `json:"encoding,omitempty" about:"base64 if the content is not text"`
	}
	waitInput struct {
		ofExec
		TimeoutSeconds *uint64 `json:"timeout_seconds,omitempty" about:"Longest wait in seconds; the answer may come earlier, with done false"`
	}
	waitOutput struct {
		Done bool `json:"done" about:"Whether it has ended"`
		ended
		shownOutput
		Artifacts []artifact `json:"artifacts,omitempty"`
	}
	closeInput struct {
		inSandbox
		DeleteWorkspace bool `json:"delete_workspace,omitempty" about:"The files are deleted with the sandbox in any case"`
	}
	okOutput struct {
		OK bool `json:"ok" about:"true"`
	}
)

// Limits of one answer of sandbox_exec_read.
const (
	defaultChunks = 100
	maxChunks     = 1000
	readBytes     = 64 << 10
	readWait      = 2 * time.Second // for the first output: another call costs a model more
)

func sandboxTools() []*tool {
	return []*tool{
		newTool[openInput, openOutput]("sandbox_open", "Open the sandbox", adds(true), open,
			"Opens the Linux sandbox of this conversation or workflow, or makes it, and answers with its sandbox_id, which the other tools need. "+
				"Opening it again returns the same sandbox, with its files. "+noNetwork),
		newTool[execInput, execOutput]("sandbox_exec", "Run a command in the sandbox", executes(true), exec,
			"Runs a command and answers with its exit code and what it printed. No shell is involved: for one, give [\"bash\", \"-c\", \"…\"]. "+
				"Each command starts in /workspace, or in cwd. A long command, or one with stream set, answers with status running and continues."),
		newTool[readInput, readOutput]("sandbox_exec_read", "Read a command's output", reads(), readExec,
			"Reads what a command printed after since_seq; 0 is its beginning. Continue with next_seq until done is true."),
		newTool[waitInput, waitOutput]("sandbox_exec_wait", "Wait for a command", reads(), waitExec,
			"Waits for the end of a command or of code, for a time, and answers whether it has ended, and how. The answer about code has its value and pictures, "+
				"that about a run of sandbox.run the files that it left."),
		newTool[closeInput, okOutput]("sandbox_close", "Close the sandbox", destroys(), closeSandbox,
			"Ends the sandbox: kills its commands and deletes its files. It also ends when the conversation or workflow does."),
	}
}

func (in inSandbox) sandbox() string { return in.SandboxID }

func open(c *call, in openInput) (*reply, error) {
	key, err := fixed("session_key", in.SessionKey, c.session.terms.Session)
	if err != nil {
		return nil, err
	}
	s, created, err := c.openSandbox(key)
	if err != nil {
		return nil, api.Renamed(err, map[string]string{"scope.key": "session_key"})
	}
	state := "already existed, with its files"
	if created {
		state = "is new"
	}
	more := " unless it asks for another time"
	if c.session.terms.TimeoutSec > 0 {
		more = " at most"
	}
	text := fmt.Sprintf("sandbox_id %s %s. Image %s, files in %s, %s; a command may take %v seconds%s.%s",
		s.ID, state, s.BaseImage, belljar.WorkspaceDir, c.session.terms.reach("no network", "network: "), s.Limits.TimeoutSec, more, c.session.terms.secrets())
	return &reply{text, nil, openOutput{s.ID, s.BaseImage, belljar.WorkspaceDir, created}}, nil
}

// openSandbox finds or makes the sandbox with a name, and reports whether it is new.
func (c *call) openSandbox(key string) (belljar.Session, bool, error) {
	spec := c.session.terms.session(c.session.scope(key))
	spec.Labels = map[string]string{label: c.session.id}
	// A cancelled call must not lose a new sandbox. It ends with the client session.
	ctx, stop := context.WithTimeout(context.WithoutCancel(c), openTime)
	defer stop()
	s, created, err := c.service.Sessions().Open(ctx, belljar.SessionRequest{SessionSpec: spec})
	if err == nil {
		c.remember(s)
		s, err = c.approved(s)
	}
	return s, created, err
}

// approved waits for an operator's approval of a sandbox, and notifies the client.
func (c *call) approved(s belljar.Session) (belljar.Session, error) {
	if s.Approval != nil && s.State == belljar.SessionStarting && c.token != nil {
		defer c.startProgress("sandbox "+s.ID+" is "+awaitsApproval, true).close()
	}
	return belljar.Approved(c, c.service.Sessions(), s)
}

// openTime bounds how long a new sandbox may take; the server may have to pull the image first.
const openTime = 15 * time.Minute

// remember adds sandboxes to those of the client session.
func (c *call) remember(sandboxes ...belljar.Session) {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	for _, s := range sandboxes {
		c.session.sandboxes[s.ID] = s.ScopeKey
	}
}

// authorize refuses a sandbox that belongs neither to the client session nor to its workflow. With unscoped it allows the user's
// sessions without an agent, workflow or thread, too. It reports any other as missing.
func (c *call) authorize(id string, unscoped bool) error {
	c.session.mu.Lock()
	_, known := c.session.sandboxes[id]
	c.session.mu.Unlock()
	if known {
		return nil
	}
	none := &belljar.Error{
		Code: belljar.CodeNotFound, Message: fmt.Sprintf("sandbox %.80q does not exist", id),
		Details: map[string]any{"field": "sandbox_id"}, Hint: "call sandbox_open, and use the sandbox_id that it answers with",
	}
	if c.session.terms.InMode() != belljar.ToolsCode {
		none.Hint = "give base_image in place of session_id, for a fresh sandbox"
	}
	if !belljar.ValidID(id) {
		return none
	}
	s, err := c.service.Sessions().Get(c, id)
	if belljar.CodeOf(err) == belljar.CodeNotFound {
		return none
	}
	if err != nil {
		return err
	}
	user, err := c.session.userID(c, c.service)
	if err != nil {
		return err
	}
	own := strings.HasPrefix(s.ScopeKey, c.session.scope("").Prefix()) || s.Labels[label] == c.session.id
	unscoped = unscoped && s.ScopeKey == "" && s.Labels[label] == ""
	if s.UserID != user || !own && !unscoped {
		return none
	}
	if own { // an unscoped session of the user is only for runs and their output
		c.remember(s)
	}
	return nil
}

func exec(c *call, in execInput) (*reply, error) {
	timeout, err := c.session.terms.timeout("timeout_seconds", float64(in.TimeoutSeconds))
	if err != nil {
		return nil, err
	}
	if len(in.Cmd) == 0 {
		return nil, api.Refuse("cmd", "cmd must not be empty")
	}
	spec := belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, SessionID: in.SandboxID, Command: in.Cmd, Env: in.Env, TimeoutSec: timeout,
		Cwd: cmp.Or(in.Cwd, "."), // the workspace, not the image's WORKDIR
	}
	wait := c.session.terms.Wait
	if in.Stream {
		wait = 0
	}
	run, out, err := c.finish(spec, wait)
	if err != nil {
		return nil, sandboxError(api.Renamed(err, map[string]string{"command": "cmd", "timeout_sec": "timeout_seconds"}))
	}
	o, text := c.executed(run, out, wait)
	return &reply{text, nil, o}, nil
}

// executed returns the answer about a run in a sandbox, and its text. Without output the run continues.
func (c *call) executed(run belljar.Run, out *belljar.Output, wait time.Duration) (execOutput, string) {
	o := execOutput{ExecID: run.ID, Status: "running"}
	if out == nil {
		after := ""
		if wait > 0 {
			after = fmt.Sprintf(" after %v", wait)
		}
		return o, unfinished(run, fmt.Sprintf("status running%s: exec_id %s continues. Read its output with sandbox_exec_read (since_seq 0 is the beginning), "+
			"or wait for its end with sandbox_exec_wait.", after, run.ID))
	}
	text, printed := report(run, out, c.session.terms.MaxOutput,
		fmt.Sprintf("Read it from the beginning with sandbox_exec_read, exec_id %s; or write to a file, and read that in parts.", run.ID))
	o.Status, o.ended, o.output = "completed", endOf(run), &printed
	if ms, ok := run.Took(); ok {
		o.DurationMs = &ms
	}
	return o, text
}

// sandboxError gives the error about an ended sandbox or a missing file a hint in the terms of the tools.
func sandboxError(err error) error {
	return rewritten(err, func(e *belljar.Error) bool {
		switch {
		case e.Code == belljar.CodeDiskFull && e.Details["scope"] == "workspace":
			e.Hint = "delete unneeded files; only the operator can make the workspace larger"
		case e.Code != belljar.CodeNotFound && e.Code != belljar.CodeConflict:
			return false
		case e.Code == belljar.CodeNotFound && e.Details["path"] != nil, e.Details["rule"] == "not_a_folder":
			e.Hint = "sandbox_fs_list lists the files"
		case e.Details["rule"] == "not_a_file":
			e.Hint = "only files are read and written; sandbox_fs_list lists a folder"
		case api.SessionEnded(e):
			e.Hint = "call sandbox_open for a new one; the files of the old one are deleted"
		default:
			return false
		}
		return true
	})
}

// findExec returns the run with an exec_id. A one-shot run's id is its sandbox_id, too.
func (c *call) findExec(sandbox, id string) (belljar.Run, error) {
	none := &belljar.Error{
		Code: belljar.CodeNotFound, Message: fmt.Sprintf("sandbox %.80q has no exec %.80q", sandbox, id),
		Details: map[string]any{"field": "exec_id"}, Hint: "exec_id and sandbox_id are those of sandbox_exec's answer",
	}
	if sandbox != id {
		if err := c.authorize(sandbox, true); err != nil {
			return belljar.Run{}, err
		}
	}
	if !belljar.ValidID(id) {
		return belljar.Run{}, none
	}
	run, err := c.ownRun(id, none)
	if err == nil && cmp.Or(run.SessionID, run.ID) != sandbox {
		err = none
	}
	return run, err
}

func readExec(c *call, in readInput) (*reply, error) {
	if in.MaxChunks > maxChunks {
		return nil, api.Refuse("max_chunks", "max_chunks is %d at most, got %d", maxChunks, in.MaxChunks)
	}
	run, err := c.findExec(in.SandboxID, in.ExecID)
	if err != nil {
		return nil, err
	}
	part, err := api.ReadOutput(c, c.service.Runs(), run, api.OutputQuery{
		Since: in.SinceSeq, Frames: int(cmp.Or(in.MaxChunks, defaultChunks)), Bytes: readBytes, Wait: min(readWait, c.session.terms.Wait),
	})
	if err != nil {
		return nil, err
	}
	o := readOutput{Chunks: []chunk{}, Done: part.Done, NextSeq: part.Next, Truncated: part.Truncated}
	var text strings.Builder
	for _, f := range part.Frames {
		item := chunk{Seq: f.Seq, Stream: string(f.Type), Text: string(f.Output)}
		if !utf8.Valid(f.Output) {
			item.Text, item.Encoding = base64.StdEncoding.EncodeToString(f.Output), "base64"
		}
		o.Chunks = append(o.Chunks, item)
	}
	text.WriteString(transcript(part.Frames))
	if part.Truncated {
		text.WriteString("\nnote: output is missing here: the log was cut at its cap, or is no longer kept")
	}
	if part.Done {
		o.ended = endOf(part.Run)
		fmt.Fprintf(&text, "\ndone: %s", headline(part.Run))
	} else {
		next := fmt.Sprintf("the command is running, or there is more output: continue with since_seq %d", part.Next)
		if len(part.Frames) == 0 { // part.Run is from before the wait for output
			next = unfinished(part.Run, next)
		}
		text.WriteString("\n" + next)
	}
	return &reply{strings.TrimPrefix(text.String(), "\n"), nil, o}, nil
}

func waitExec(c *call, in waitInput) (*reply, error) {
	run, err := c.findExec(in.SandboxID, in.ExecID)
	if err != nil {
		return nil, err
	}
	wait := c.session.terms.Wait
	if in.TimeoutSeconds != nil {
		wait = min(wait, time.Duration(min(*in.TimeoutSeconds, uint64(MaxWait.Seconds())))*time.Second)
	}
	if !run.Phase.Terminal() {
		if c.token != nil {
			defer c.runProgress(run).close()
		}
		if run, err = api.AwaitEnd(c, c.service.Runs(), run.ID, wait); err != nil {
			return nil, err
		}
	}
	o := waitOutput{Done: run.Phase.Terminal(), ended: endOf(run)}
	if !o.Done {
		text := fmt.Sprintf("the command is still running after %v; wait again, or read its output with sandbox_exec_read.", wait)
		return &reply{unfinished(run, text), nil, o}, nil
	}
	var left string
	var more []sdk.Content
	switch {
	case run.SessionID == "":
		o.Artifacts, left, more = c.collect(run, nil)
	case run.Context != nil:
		out, err := belljar.Printed(c.service.Runs().Frames(c, run.ID, 1))
		if err != nil {
			return nil, err
		}
		o.shownOutput, left, more = c.shown(run, &out)
	}
	return &reply{"done: " + headline(run) + "\nRead what it printed with sandbox_exec_read.\n" + left, more, o}, nil
}

func closeSandbox(c *call, in closeInput) (*reply, error) {
	if err := c.service.Sessions().Delete(c, in.SandboxID); err != nil {
		return nil, err
	}
	return &reply{"the sandbox is closed, and its files are deleted", nil, okOutput{true}}, nil
}

// rewritten returns a changed copy of a [belljar.Error]. It returns err itself if err is another error, or change reports false.
func rewritten(err error, change func(e *belljar.Error) bool) error {
	var e *belljar.Error
	if !errors.As(err, &e) {
		return err
	}
	out := *e
	if !change(&out) {
		return err
	}
	return &out
}
