// Package git clones a repository for a workspace. Git runs in a side sandbox that reaches only the repository's host, so that
// an attack by the repository or its server hits an empty sandbox. The files leave it as a tar stream.
package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/clock"
	"github.com/belljar/belljar/internal/service/placement"
)

// Paths in a side sandbox's workspace.
const (
	repository = "git"
	checkout   = "tree"
	patchFile  = "patch"
	caFile     = "ca.pem"
	caFolder   = "/etc/ssl/certs" // of the image
)

// leastTime is the minimum timeout of a clone; a longer startup timeout extends it.
const leastTime = 2 * time.Minute

// Cloner clones repositories.
type Cloner struct {
	Boxes   *box.Maker
	TempDir string                                       // holds a tree until its sandbox is made; "" is the system's
	Room    func(ctx context.Context, user string) error // refuses to use the disk while it is full
	CA      []byte                                       // additional certificates to trust, in PEM
}

// Order is an order to clone one repository.
type Order struct {
	Caller    belljar.Caller
	Spec      *belljar.GitSpec
	Placement *placement.Placement  // of the side sandbox
	Made      func(runtime.Sandbox) // receives the side sandbox
	Egress    func(egress.Event)    // receives the events of its gate
	Progress  func(belljar.Frame)   // receives frames for a log; may be nil
}

// Clone clones a repository and returns its files, which the caller must close, and the report of the side sandbox's network
// use. A fault of the repository or the patch is an [Error].
func (c *Cloner) Clone(ctx context.Context, o Order) (*Tree, *belljar.EgressReport, error) {
	say := func(state string, data map[string]any) {
		if data["state"] = state; o.Progress != nil {
			o.Progress(belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventGit, Data: data})
		}
	}
	say("cloning", map[string]any{"url": o.Spec.URL, "ref": o.Spec.Ref})
	began := time.Now()
	limit := max(leastTime, clock.Seconds(o.Placement.Limits.StartupTimeoutSec))
	var tree *Tree
	report, err := c.Boxes.Side(ctx, box.SideOrder{Caller: o.Caller, Placement: o.Placement, Made: o.Made, Egress: o.Egress, Time: limit},
		func(ctx context.Context, b *box.Box) (err error) {
			w := &clone{box: b, spec: o.Spec, place: o.Placement, ca: c.CA, room: func() error { return c.Room(ctx, o.Caller.ID) }}
			if broker := o.Placement.Broker; broker != nil { // the gate terminates git's TLS, and verifies the server
				w.ca = broker.Egress.Authority.PEM()
			}
			tree, err = w.run(ctx, c.TempDir)
			return err
		})
	if err != nil {
		tree.Close()
		return nil, report, explain(err, o, report, limit)
	}
	say("cloned", map[string]any{"commit": tree.Commit, "files": tree.Files, "bytes": tree.Bytes, "ms": time.Since(began).Milliseconds()})
	return tree, report, nil
}

// clone is one clone in its side sandbox.
type clone struct {
	box   *box.Box
	spec  *belljar.GitSpec
	place *placement.Placement
	ca    []byte
	room  func() error
}

func (w *clone) run(ctx context.Context, tempDir string) (*Tree, error) {
	commit, err := w.fetch(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.box.Agent.Mkdir(ctx, w.file(checkout)); err != nil {
		return nil, err
	}
	if err := w.check(ctx, "checkout", "--quiet", "--force", "--detach", commit); err != nil {
		return nil, err
	}
	if err := w.patch(ctx); err != nil {
		return nil, err
	}
	links, err := w.links(ctx)
	if err != nil {
		return nil, err
	}
	if w.spec.KeepGit {
		if err := w.leaveOut(ctx); err != nil {
			return nil, err
		}
		if err := w.keep(ctx); err != nil {
			return nil, err
		}
	}
	return w.pack(ctx, commit, links, tempDir)
}

func (w *clone) file(name string) wire.FileRequest {
	req := w.box.File(name)
	req.Mode = 0o755
	return req
}

// put writes a file that git reads.
func (w *clone) put(ctx context.Context, name string, b []byte) error {
	req := w.box.File(name)
	req.Mode = 0o600
	_, err := w.box.Agent.WriteFile(ctx, req, bytes.NewReader(b))
	return err
}

// fetch fetches the commit of the ref, and returns its hash.
func (w *clone) fetch(ctx context.Context) (string, error) {
	if len(w.ca) > 0 {
		if err := w.put(ctx, caFile, w.ca); err != nil {
			return "", err
		}
	}
	if err := w.check(ctx, initArgs(w.spec.Ref)...); err != nil {
		return "", err
	}
	ref, depth := w.spec.Ref, max(w.spec.Depth, 1)
	if ref == "" {
		ref = "HEAD"
	}
	err := w.check(ctx, "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-gc", fmt.Sprintf("--depth=%d", depth),
		"--end-of-options", w.spec.URL, ref)
	if err != nil {
		return "", err
	}
	out, _, err := w.git(ctx, 256, "rev-parse", "--verify", "FETCH_HEAD^{commit}")
	commit := strings.TrimSpace(out)
	if err == nil && !isHash(commit) {
		err = &gitError{text: "fatal: it is not a commit"}
	}
	return commit, err
}

// initArgs returns the command that makes the repository. Without templates there are no hooks. The repository is outside the tree, so the
// tree cannot change it. git before 2.28 has no option for the format, and knows SHA-1 alone.
func initArgs(ref string) []string {
	args := []string{"init", "--quiet", "--bare", "--template="}
	if len(ref) == 64 && isHash(ref) {
		args = append(args, "--object-format=sha256")
	}
	return append(args, path.Join(belljar.WorkspaceDir, repository))
}

// isHash reports whether a text is the full hash of a commit.
func isHash(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// keep moves the repository into the tree.
func (w *clone) keep(ctx context.Context) error {
	for _, args := range [][]string{{"core.bare", "false"}, {"remote.origin.url", w.spec.URL}} {
		if err := w.check(ctx, append([]string{"config"}, args...)...); err != nil {
			return err
		}
	}
	req := w.box.File(repository)
	req.To = path.Join(checkout, ".git")
	return w.box.Agent.Rename(ctx, req)
}

// links returns the symbolic links of the tree. They are checked out as files, so that nothing is written through a link.
func (w *clone) links(ctx context.Context) (map[string]bool, error) {
	links := map[string]bool{}
	err := w.stream(ctx, linksInto(links), "ls-files", "--stage", "-z")
	if err == nil && len(links) > mostLinks {
		err = failed(belljar.CodeTooLarge, "git", "", "the repository has more than %d symbolic links", mostLinks)
	}
	return links, err
}

// linksInto parses git's list as it arrives.
func linksInto(links map[string]bool) func([]byte) error {
	return entries(func(entry []byte) error {
		if rest, found := bytes.CutPrefix(entry, []byte("120000 ")); found && len(links) <= mostLinks {
			if _, name, tab := bytes.Cut(rest, []byte("\t")); tab {
				links[string(name)] = true
			}
		}
		return nil
	})
}

// entries splits a list of files of git as it arrives.
func entries(each func(entry []byte) error) func([]byte) error {
	var rest []byte
	return func(p []byte) error {
		rest = append(rest, p...)
		for {
			i := bytes.IndexByte(rest, 0)
			if i > mostEntry || i < 0 && len(rest) > mostEntry {
				return &gitError{command: "ls-files", text: "fatal: the list of files has a name that is too long"}
			}
			if i < 0 {
				return nil
			}
			if err := each(rest[:i]); err != nil {
				return err
			}
			rest = rest[i+1:]
		}
	}
}

// mostLinks is how many symbolic links a tree may have, mostEntry the longest entry of a list of files, in bytes.
const (
	mostLinks = 10_000
	mostEntry = 8 << 10
)

// pack transfers the files out of the sandbox.
func (w *clone) pack(ctx context.Context, commit string, links map[string]bool, tempDir string) (*Tree, error) {
	root := checkout
	if w.spec.Subdir != "" {
		root = path.Join(checkout, w.spec.Subdir)
		info, err := w.box.Agent.Stat(ctx, w.box.File(root))
		if box.IsNotFound(err) || err == nil && info.Type != "dir" {
			return nil, failed(belljar.CodeInvalidRequest, "git.subdir", "name a folder of the repository as it is at that commit",
				"the repository has no folder %.200q", w.spec.Subdir)
		}
		if err != nil {
			return nil, err
		}
	}
	ignore, err := w.ignore(ctx, root)
	if err != nil {
		return nil, err
	}
	files, err := w.box.Agent.OpenTar(ctx, w.box.File(root))
	if err != nil {
		return nil, err
	}
	defer files.Close()
	t := &Tree{Commit: commit}
	s := &sorter{
		tree: t, links: links, below: strings.TrimPrefix(strings.TrimPrefix(root, checkout), "/"), ignore: ignore, git: w.spec.KeepGit,
		bytes: int64(w.place.Limits.WorkspaceMB) << 20, files: w.place.Limits.Inodes, room: w.room,
	}
	if err := s.spool(ctx, files, tempDir); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// maxIgnore is the size of the largest ignore file, in bytes.
const maxIgnore = 64 << 10

// ignore reads the ignore file of a folder; nil if there is none, or ignored files are kept.
func (w *clone) ignore(ctx context.Context, root string) (*ignore, error) {
	if w.spec.KeepIgnored {
		return nil, nil
	}
	r, info, err := w.box.Agent.ReadFile(ctx, w.box.File(path.Join(root, ignoreFile)))
	var refused *wire.Error
	switch {
	case errors.As(err, &refused) && (box.IsNotFound(err) || refused.Code == wire.CodeNotFile):
		return nil, nil
	case err != nil:
		return nil, err
	}
	defer r.Close()
	if info.Size > maxIgnore {
		return nil, badIgnore(fmt.Errorf("it is larger than %d KiB", maxIgnore>>10))
	}
	text, err := io.ReadAll(io.LimitReader(r, maxIgnore))
	if err != nil {
		return nil, err
	}
	list, err := parseIgnore(string(text))
	if err != nil {
		return nil, badIgnore(err)
	}
	return list, nil
}
