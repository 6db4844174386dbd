package git

import (
	"bytes"
	"context"
	"path"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/char"
)

// settings are git's settings, which override all files. The sandbox has no such files either. The reasons are in docs/git.md#what-a-repository-cannot-do.
func settings() []string {
	return []string{
		"protocol.allow=never", "protocol.https.allow=always", "protocol.file.allow=never", "protocol.ext.allow=never",
		"core.bare=false", "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.symlinks=false", "core.protectNTFS=true", "core.protectHFS=true",
		"core.autocrlf=false", "core.attributesFile=/dev/null", "core.excludesFile=/dev/null",
		"submodule.recurse=false", "fetch.recurseSubmodules=false", "transfer.fsckObjects=true", "transfer.bundleURI=false", "fetch.bundleURI=",
		"http.followRedirects=initial", "http.sslVerify=true", "http.lowSpeedLimit=1", "http.lowSpeedTime=60", "credential.helper=", "core.askPass=",
		"gc.auto=0", "maintenance.auto=false", "advice.detachedHead=false", "init.defaultBranch=main",
	}
}

// environment returns the whole environment of git.
func environment(ca bool) []string {
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent", "LC_ALL=C", "TMPDIR=/tmp",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_ALLOW_PROTOCOL=https", "GIT_LFS_SKIP_SMUDGE=1", "GIT_PROTOCOL_FROM_USER=0", "GIT_ADVICE=0", "GIT_DEFAULT_HASH=sha1",
	}
	if ca {
		env = append(env, "GIT_SSL_CAINFO="+path.Join(belljar.WorkspaceDir, caFile), "GIT_SSL_CAPATH="+caFolder)
	}
	return env
}

// maxSaid is how much of git's messages is kept, in bytes.
const maxSaid = 64 << 10

// stream runs git and passes its output to print.
func (w *clone) stream(ctx context.Context, print func(p []byte) error, args ...string) error {
	_, err := w.start(ctx, print, args...)
	return err
}

// check runs git and discards its output.
func (w *clone) check(ctx context.Context, args ...string) error {
	_, err := w.start(ctx, nil, args...)
	return err
}

// git runs git and returns up to most bytes of its stdout, and its messages on stderr.
func (w *clone) git(ctx context.Context, most int, args ...string) (out, stderr string, err error) {
	var b bytes.Buffer
	stderr, err = w.start(ctx, func(p []byte) error {
		b.Write(p[:min(len(p), most-b.Len())])
		return nil
	}, args...)
	return b.String(), stderr, err
}

// start runs git to its end, in the tree if there is one. A failure is a [gitError].
func (w *clone) start(ctx context.Context, print func(p []byte) error, args ...string) (stderr string, err error) {
	e := wire.Exec{Argv: []string{"git"}, Env: environment(len(w.ca) > 0), Rlimits: w.place.Rlimits()}
	for _, s := range settings() {
		e.Argv = append(e.Argv, "-c", s)
	}
	e.Argv = append(e.Argv, args...)
	delete(e.Rlimits, "cpu") // the timeout bounds the clone as a whole
	if args[0] != "init" {
		e.Env = append(e.Env, "GIT_DIR="+path.Join(belljar.WorkspaceDir, repository), "GIT_WORK_TREE="+path.Join(belljar.WorkspaceDir, checkout))
	}
	if args[0] == "apply" || args[0] == "checkout" || args[0] == "reset" || args[0] == "ls-files" || args[0] == "update-index" {
		e.Cwd = path.Join(belljar.WorkspaceDir, checkout)
	}
	var errors bytes.Buffer
	var stopped error
	exit, err := w.box.Run(ctx, e, func(s wire.Stream, p []byte) {
		switch {
		case s == wire.Stderr:
			errors.Write(p[:min(len(p), maxSaid-errors.Len())])
		case print != nil && stopped == nil:
			stopped = print(p)
		}
	})
	stderr = w.conceal(strings.ToValidUTF8(errors.String(), "\ufffd"))
	switch {
	case err != nil:
		return stderr, err
	case stopped != nil:
		return stderr, stopped
	case exit.Signal != 0 || exit.Code != 0 || exit.Cause != wire.CauseExited:
		return stderr, &gitError{command: args[0], exit: exit, text: stderr}
	}
	return stderr, nil
}

// conceal redacts the clone's secret from git's messages. The gate does this as well, but git may join parts that the server
// sent separately. It applies [plain] first, because removed characters may separate two parts.
func (w *clone) conceal(text string) string {
	if w.place.Broker == nil {
		return text
	}
	return w.place.Broker.Egress.Conceal(strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return harmless(r)
	}, text))
}

// gitError is a failure of git.
type gitError struct {
	command string
	exit    wire.Exit
	text    string // its messages
}

func (e *gitError) Error() string { return "git " + e.command + ": " + e.last() }

// last returns the line of git's messages with the error.
func (e *gitError) last() string {
	var fatal, problem, any string
	for line := range strings.Lines(e.text) {
		line = plain(line)
		switch {
		case line == "" || strings.HasPrefix(line, "hint:"):
		case strings.HasPrefix(line, "fatal: "):
			fatal = strings.TrimPrefix(line, "fatal: ")
		case strings.HasPrefix(line, "error: ") && problem == "":
			problem = strings.TrimPrefix(line, "error: ")
		default:
			any = line
		}
	}
	for _, line := range []string{fatal, problem, any} {
		if line != "" {
			return line
		}
	}
	return "it failed"
}

// maxLine is how many bytes of one line of git's messages are passed on.
const maxLine = 300

// plain removes terminal control characters from a line, because the server or the repository controls a part of it.
func plain(line string) string {
	return strings.TrimSpace(char.Short(strings.Map(harmless, line), maxLine))
}

// harmless returns -1 for a character that controls a terminal, and else the character.
func harmless(r rune) rune {
	if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029' || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' {
		return -1
	}
	return r
}
