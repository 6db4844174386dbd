package workspace

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belljar/belljar"
)

const (
	gitTime  = 10 * time.Second
	gitBytes = 8 << 20
	errBytes = 4 << 10 // of a command's stderr
)

// outcome is the result of a command.
type outcome struct {
	out       []byte
	err       string
	code      int  // -1 if it has none
	missing   bool // the program does not exist
	timedOut  bool
	truncated bool
}

// exec runs a command in the workspace. kind is for the label of its run. Clients poll, so the run of a quick command is one write.
func (c *call) exec(ctx context.Context, kind string, timeout time.Duration, env map[string]string, command ...string) (o outcome, err error) {
	ctx, stop := context.WithTimeout(ctx, timeout+5*time.Second)
	defer stop()
	runs := c.Engine.Runs()
	run, out, err := belljar.Finish(ctx, runs, belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, SessionID: c.Session, Command: command, Cwd: ".", Env: env, TimeoutSec: timeout.Seconds(), Labels: map[string]string{label: kind},
	}}, time.Hour) // ctx ends the wait
	switch {
	case err != nil:
	case out == nil || out.StdoutTruncated: // the log has more
		if err = o.read(runs.Frames(ctx, run.ID, 1)); err == nil {
			run, err = runs.Get(ctx, run.ID)
		}
	default:
		o.out, o.err = decoded(out.Stdout, out.StdoutEncoding), string(decoded(out.Stderr, out.StderrEncoding))
		o.err = o.err[:min(errBytes, len(o.err))]
	}
	if err != nil {
		// A signal must arrive even if its client has left. A client that left needs no answer of git.
		if run.ID != "" && (errors.Is(ctx.Err(), context.DeadlineExceeded) || kind == "git" && ctx.Err() != nil) {
			err = late(ctx, runs, run.ID)
		}
		return o, err
	}
	o.code, o.timedOut = -1, run.Phase == belljar.PhaseTimedOut
	if run.ExitCode != nil {
		o.code = *run.ExitCode
	}
	o.missing = run.ReasonCode == belljar.ReasonExecFailed && o.code == 127
	return o, nil
}

// read reads the output of a command from its log.
func (o *outcome) read(log iter.Seq2[belljar.Frame, error]) error {
	for f, err := range log {
		if err != nil {
			return err
		}
		switch f.Type {
		case belljar.FrameStdout:
			room := gitBytes - len(o.out)
			o.out = append(o.out, f.Output[:min(room, len(f.Output))]...)
			o.truncated = o.truncated || len(f.Output) > room
		case belljar.FrameStderr:
			o.err += string(f.Output[:min(errBytes-len(o.err), len(f.Output))])
		case belljar.FrameTruncated:
			o.truncated = true
		}
	}
	return nil
}

// decoded returns the bytes of inline output.
func decoded(text, encoding string) []byte {
	if encoding != "base64" {
		return []byte(text)
	}
	raw, _ := base64.StdEncoding.DecodeString(text) // the engine has encoded it
	return raw
}

// late cancels a command that has not ended in time, and returns the error for it. Left in its user's queue, it would delay the client's
// next polls.
func late(ctx context.Context, runs belljar.Runs, id string) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer stop()
	return cmp.Or(runs.Cancel(ctx, id), error(&belljar.Error{
		Code: belljar.CodeTimeout, Message: "the command has not ended in time; it may have waited for other programs of its user to end",
	}))
}

// run runs git in the workspace. It turns off everything by which a repository can name programs to run: hooks, a file system monitor,
// filters of submodules, external diffs, pagers, and the fetch of objects missing from a partial clone. It uses no folder that is itself a
// repository, and no configuration in the home folder, which may be the workspace: older versions of git ignore GIT_CONFIG_GLOBAL.
func (c *call) run(ctx context.Context, args ...string) (outcome, error) {
	if c.Git != nil {
		if err := c.Git(ctx); err != nil {
			return outcome{}, err
		}
	}
	o, err := c.exec(ctx, "git", min(gitTime, c.door.opts.ChatLifetime), map[string]string{
		"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1",
		"GIT_CEILING_DIRECTORIES": path.Dir(c.Root), "GIT_ATTR_NOSYSTEM": "1", "LC_ALL": "C",
		"HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent",
	}, append([]string{
		"git", "--no-optional-locks", "--literal-pathspecs", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "diff.external=",
		"-c", "core.pager=cat", "-c", "core.untrackedCache=false", "-c", "submodule.recurse=false", "-c", "protocol.allow=never",
		"-c", "safe.bareRepository=explicit",
	}, args...)...)
	if err == nil && o.timedOut {
		err = &belljar.Error{Code: belljar.CodeTimeout, Message: "git took too long"}
	}
	return o, err
}

// status is the answer of GET /api/git/status. Without a repository, files is an empty list.
type status struct {
	Repo      bool  `json:"is_repo"`
	Available *bool `json:"available,omitempty"`
	Files     any   `json:"files"`
	Truncated bool  `json:"truncated,omitempty"`
}

func (c *call) gitStatus() (any, error) {
	return c.shared("status", func(ctx context.Context) (any, error) {
		g, err := c.run(ctx, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignore-submodules=dirty", "--no-renames")
		yes, no := true, false
		switch {
		case err != nil:
			return nil, err
		case g.missing:
			return status{Available: &no, Files: []string{}}, nil
		case g.code != 0 && g.printed(noRepository):
			return status{Files: []string{}}, nil
		case g.code != 0:
			return nil, g.failure()
		case g.truncated:
			g.out = g.out[:bytes.LastIndexByte(g.out, 0)+1] // without a part of an entry
		}
		return status{Repo: true, Available: &yes, Files: statusOf(g.out), Truncated: g.truncated}, nil
	})
}

// statusOf reads the output of git status -z: the state of each file, C (conflict), D, A, M or U (untracked). Files whose names are
// not UTF-8 have replacement characters in them.
func statusOf(out []byte) map[string]string {
	files := map[string]string{}
	fields := bytes.Split(out, []byte{0})
	for i := 0; i < len(fields); i++ {
		f := fields[i]
		if len(f) < 4 || f[2] != ' ' {
			continue
		}
		xy, name := string(f[:2]), strings.ToValidUTF8(string(f[3:]), "\uFFFD")
		if strings.ContainsAny(xy, "RC") {
			i++ // the next entry is the former name
		}
		files[name] = stateOf(xy)
	}
	return files
}

func stateOf(xy string) string {
	switch {
	case strings.Contains(xy, "U"), xy == "AA", xy == "DD":
		return "C"
	case strings.Contains(xy, "D"):
		return "D"
	case strings.Contains(xy, "A"):
		return "A"
	case xy == "??":
		return "U"
	}
	return "M"
}

// diff is the answer of GET /api/git/diff.
type diff struct {
	Diff      string `json:"diff"`
	Path      string `json:"path"`
	Error     string `json:"error,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
}

func (c *call) gitDiff(p string) (any, error) {
	return c.shared("diff "+p, func(ctx context.Context) (any, error) {
		g, err := c.run(ctx, "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty", "HEAD", "--", p)
		if err != nil {
			return nil, err
		}
		switch {
		case g.code == 1: // outside a repository, git compares files named HEAD and p
			return diff{Path: p, Error: "Not a git repository"}, nil
		case g.code != 0:
			why, err := g.why()
			return diff{Path: p, Error: why}, err
		}
		return diff{Diff: strings.ToValidUTF8(string(g.out), "\uFFFD"), Path: p, Truncated: g.truncated}, nil
	})
}

// Parts of git's messages, in lower case. Newer and older versions differ.
var (
	noRepository = []string{"not a git repository", "could not access 'head'", "run in a work tree", "use bare repository", "dubious ownership"}
	notInHEAD    = []string{"in 'head'", "object name", "bad revision", "unknown revision", ": bad file"}
)

// printed reports whether git's messages contain one of texts.
func (o outcome) printed(texts []string) bool {
	stderr := strings.ToLower(o.err)
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(stderr, text) })
}

// why returns the answer for a git command that failed, or an error if it failed for a reason of its own, such as too little memory. It
// omits git's own text, which may name places outside.
func (o outcome) why() (string, error) {
	switch {
	case o.missing:
		return "git is not available", nil
	case o.code != 1 && o.code != 128: // git's own exit codes
	case o.printed(noRepository):
		return "Not a git repository", nil
	case o.printed(notInHEAD):
		return "Not in HEAD", nil
	}
	return "", o.failure()
}

// failure returns the error for a git command that failed for a reason of its own.
func (o outcome) failure() error {
	return &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: fmt.Sprintf("git failed in the workspace (exit code %d)", o.code)}
}

func (c *call) gitShow(p string) (any, error) {
	return c.shared("show "+p, func(ctx context.Context) (any, error) {
		g, err := c.run(ctx, "cat-file", "blob", "HEAD:./"+p)
		if err != nil {
			return nil, err
		}
		if g.code != 0 {
			why, err := g.why()
			return content{Path: p, Error: why}, err
		}
		size := int64(len(g.out))
		text := g.out[:min(size, c.door.maxFile)]
		if g.truncated {
			whole, err := c.run(ctx, "cat-file", "-s", "HEAD:./"+p)
			if err != nil {
				return nil, err
			}
			if whole.code != 0 {
				why, err := whole.why()
				return content{Path: p, Error: why}, err
			}
			size, _ = strconv.ParseInt(strings.TrimSpace(string(whole.out)), 10, 64) // git prints a number
		}
		return contentOf(p, text, size), nil
	})
}
