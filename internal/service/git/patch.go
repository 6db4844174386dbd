package git

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
)

// mostRejects is how many rejected hunks an error lists.
const mostRejects = 50

// patch applies the whole patch to the tree: directly, or else with a three-way merge if the repository has the files that the patch was
// made for.
func (w *clone) patch(ctx context.Context) error {
	if strings.TrimSpace(w.spec.Patch) == "" {
		return nil
	}
	text := w.spec.Patch
	if !strings.HasSuffix(text, "\n") {
		text += "\n" // git reports a last line without its end as a damaged patch
	}
	if err := w.put(ctx, patchFile, []byte(text)); err != nil {
		return err
	}
	err := w.check(ctx, "apply", "--3way", "--whitespace=nowarn", "../"+patchFile)
	var git *gitError
	if err == nil || !errors.As(err, &git) || git.exit.Cause != wire.CauseExited || git.exit.Signal != 0 ||
		strings.Contains(git.text, "No space left on device") {
		return err
	}
	// Discard a partial merge. git lists everything that does not apply only if it may apply the rest.
	rejected := git.text
	if w.check(ctx, "reset", "--quiet", "--hard") == nil {
		if _, stderr, err := w.git(ctx, 0, "apply", "--reject", "--whitespace=nowarn", "../"+patchFile); err != nil && len(rejects(stderr)) > 0 {
			rejected = stderr
		}
	}
	return patchError(git, rejects(rejected))
}

// rejects returns the hunks that do not apply, as file:line.
func rejects(stderr string) (list []string) {
	for line := range strings.Lines(stderr) {
		if at, found := strings.CutPrefix(plain(line), "error: patch failed: "); found {
			list = append(list, at)
		}
	}
	return list
}

// patchError is the error for a patch that does not apply.
func patchError(e *gitError, hunks []string) *Error {
	out := failed(belljar.CodeInvalidRequest, "git.patch", "make the patch for the commit that git.ref names", "the patch does not apply: ")
	out.Reason = belljar.ReasonPatchFailed
	if len(hunks) == 0 {
		out.Err.Message += e.last()
		return out
	}
	more := ""
	if n := len(hunks) - mostRejects; n > 0 {
		hunks, more = hunks[:mostRejects], fmt.Sprintf(" and %d more", n)
	}
	out.Err.Message += "rejected at " + strings.Join(hunks, ", ") + more
	out.Err.Details["rejected"] = hunks
	return out
}
