package git

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
)

// Error is a fault of a repository, its ref or its patch.
type Error struct {
	Reason belljar.Reason // of the failed run
	Err    *belljar.Error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error for the caller.
func (e *Error) Unwrap() error { return e.Err }

// failed returns the error of a clone. field may be "".
func failed(code belljar.Code, field, hint, format string, args ...any) *Error {
	e := &belljar.Error{Code: code, Message: fmt.Sprintf(format, args...), Hint: hint, Details: map[string]any{}}
	if field != "" {
		e.Details["field"] = field
	}
	return &Error{Reason: belljar.ReasonCloneFailed, Err: e}
}

// tooLarge is the error for a repository that does not fit.
func tooLarge(bytes int64, files int) *Error {
	return failed(belljar.CodeTooLarge, "git", "use a larger workspace_mb (--workspace), or a larger workspace.mb (--disk) of one on disk",
		"the repository does not fit into the workspace of %d MiB and %d files", bytes>>20, files)
}

func badIgnore(err error) *Error {
	return failed(belljar.CodeInvalidRequest, "git", "keep_ignored (--keep-ignored) does without it", "the repository's %s cannot be used: %v", ignoreFile, err)
}

// explain converts a failure to terms of the request.
func explain(err error, o Order, report *belljar.EgressReport, limit time.Duration) error {
	var own *Error
	var git *gitError
	var refused *wire.Error
	var exit *box.SideExitError
	limits := o.Placement.Limits
	if e := box.AtHardLimit(o.Placement.InForce(), err); e != nil {
		return &Error{Reason: belljar.ReasonCloneFailed, Err: e}
	}
	full := tooLarge(int64(limits.WorkspaceMB)<<20, limits.Inodes)
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, box.ErrSideTime):
		return failed(belljar.CodeTimeout, "git.url", "allow more with startup_timeout_sec (--startup-timeout)", "cloning took longer than %s", fault.Seconds(math.Ceil(limit.Seconds())))
	case errors.As(err, &git):
		return o.explainGit(git, report, full)
	case errors.As(err, &refused) && refused.Code == wire.CodeExecFailed && (refused.Errno == wire.ENOENT || refused.Errno == wire.ENOTDIR):
		hint := "take an image that has git, or upload the files"
		if o.Placement.Image.Ref == runtime.HostRef {
			hint = "an operator installs git on this machine"
		}
		return failed(belljar.CodeRuntimeUnavailable, "git", hint, "image %s, which makes the clone, has no git", o.Placement.Image.Ref)
	case errors.As(err, &refused) && refused.Code == wire.CodeNoSpace:
		return full
	case errors.As(err, &refused) && refused.Code == wire.CodeTooLarge:
		return full
	case fault.Full(err), belljar.CodeOf(err) == belljar.CodeDiskFull:
		return failed(belljar.CodeDiskFull, "git", "free space on the host", "the server's disk has no room for the repository")
	case errors.As(err, &exit) && exit.Exit.Reason == runtime.ExitOOM:
		return outOfMemory(limits)
	}
	return err
}

func outOfMemory(l belljar.Limits) *Error {
	return failed(belljar.CodeTooLarge, "git", "allow more with memory_mb (--memory)", "git ran out of memory (limit %d MiB)", l.MemoryMB)
}

// own returns git's own message: without the address of the repository, and without text of the server.
func (e *gitError) own(address string) string {
	var message strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(e.text, address, "")) {
		if !strings.HasPrefix(line, "remote:") {
			message.WriteString(line)
		}
	}
	return message.String()
}

// explainGit explains a failure of git.
func (o Order) explainGit(e *gitError, report *belljar.EgressReport, full *Error) error {
	address, host := e.own(o.Spec.URL), o.Placement.Limits
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(address, part) })
	}
	url := func(code belljar.Code, hint, format string, args ...any) error {
		return failed(code, "git.url", hint, format, args...)
	}
	switch {
	case e.exit.Signal == int(syscall.SIGKILL) || has("Out of memory", "out of memory", "Cannot allocate memory", "signal 9"):
		return outOfMemory(host)
	case has("No space left on device", "File too large", "File size limit"):
		return full
	case e.command != "fetch":
		return url(belljar.CodeInvalidRequest, "", "the repository cannot be checked out: %s", e.last())
	case has("couldn't find remote ref"):
		return failed(belljar.CodeInvalidRequest, "git.ref", "name a branch, a tag, or a commit by its whole hash", "the repository has no branch or tag %s", plain(refName(o.Spec.Ref)))
	case has("not our ref", "unadvertised object", "no such remote ref"):
		return failed(belljar.CodeInvalidRequest, "git.ref", "name a branch or tag that has the commit", "the repository's server does not give the commit %s", plain(o.Spec.Ref))
	case has("mismatched algorithms"):
		return failed(belljar.CodeInvalidRequest, "git.ref", "name a commit by its whole hash of 64 digits", "the repository uses SHA-256")
	case has("could not read Username", "could not read Password", "terminal prompts disabled", "Authentication failed", "' not found", "Repository not found", "returned error: 403", "returned error: 404"):
		if o.Spec.Secret != "" {
			return failed(belljar.CodeInvalidRequest, "git.secret", "check the address, and the secret's value and rights", "the repository was not found, or authentication with %s failed: %s", o.Spec.Secret, e.last())
		}
		return url(belljar.CodeInvalidRequest, "check the address; a private repository needs git.secret (--git-secret)", "the repository was not found, or is not public: %s", e.last())
	case elsewhere(report, o) != "":
		return url(belljar.CodeInvalidRequest, "use the repository's own address", "the server of the repository sends clients to %s, which a clone does not follow", elsewhere(report, o))
	case has("unable to update url base from redirection"):
		return url(belljar.CodeInvalidRequest, "use the repository's own address", "the server of the repository sends clients to another address, which is no repository")
	case strings.HasPrefix(denied(report), "certificate_"): // with a secret, Belljar checks the certificate, and git reports nothing about it
		return url(belljar.CodeInvalidRequest, "an operator makes an authority of their own known with SANDBOX_EGRESS_CA_FILE", "the certificate of the repository's server is not trusted (%s)", denied(report))
	case denied(report) == string(egress.Limit): // git reports that the connection ended
		return url(belljar.CodeTooLarge, "clone less history with depth (--depth), or upload the files", "a clone may receive at most %d MiB, and the repository's server sent more", egress.UsualBytes>>20)
	case has("certificate", "Certificate", "Cert verify failed"):
		return url(belljar.CodeInvalidRequest, "an operator makes an authority of their own known with SANDBOX_EGRESS_CA_FILE", "the certificate of the repository's server is not trusted: %s", e.last())
	case denied(report) == "private_address": // git reports that it could not resolve the host
		return url(belljar.CodePolicyDenied, "list its address in egress.ips (--allow), or an operator in SANDBOX_EGRESS_ALLOW; the server needs SANDBOX_EGRESS_PRIVATE",
			"the repository's host has no public address")
	case denied(report) == "dns_failed" || has("Could not resolve host"):
		return url(belljar.CodeInvalidRequest, "check the host's name", "the repository's host has no address")
	case has("fsck error", "fsck"):
		return url(belljar.CodeInvalidRequest, "", "the repository is damaged or not safe: %s", e.last())
	}
	return url(belljar.CodeInvalidRequest, "", "the repository cannot be cloned: %s", e.last())
}

func refName(ref string) string {
	if ref == "" {
		return "HEAD: it is empty"
	}
	return ref
}

// denied returns why the repository's host was denied, "" if it was not.
func denied(report *belljar.EgressReport) string {
	if report != nil {
		for _, h := range report.Hosts {
			if h.Denied > 0 {
				return h.Reason
			}
		}
	}
	return ""
}

// elsewhere returns another host that git tried to reach, for example after a redirect; "" for none.
func elsewhere(report *belljar.EgressReport, o Order) string {
	host, _, _ := o.Spec.Host()
	if report != nil {
		for _, h := range report.Hosts {
			if h.Denied > 0 && h.Host != host {
				return plain(h.Host)
			}
		}
	}
	return ""
}
