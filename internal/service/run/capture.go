package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/char"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/session"
)

// Bounds of how many files one run may leave, and of the bytes of their names, which go on record. Names above freeNames count as bytes of
// artifacts: a run of a second can leave 4 MiB of them, which stay as long as its record.
const (
	maxArtifacts = 10_000
	maxFolders   = 10_000 // that the stored files imply: each uses a block of the disk, and no quota
	maxNames     = 4 << 20
	freeNames    = 64 << 10
)

// matchTime bounds the time to match the patterns of a run with names. Usual patterns take milliseconds. Hundreds of long ones with braces
// and stars could take hours.
const matchTime = 5 * time.Second

// errPatterns is the error of patterns that exceed matchTime.
var errPatterns = errors.New("capture_patterns take too long to compare with so many names")

// The reasons why the bytes of an artifact were not kept.
const (
	skippedCap        = "artifact_cap_exceeded"
	skippedQuota      = "artifact_quota_exceeded"
	skippedUnreadable = "unreadable"
	skippedName       = "name_not_utf8"
	skippedChanged    = "changed" // it grew while it was read
	skippedFull       = "disk_full"
	skippedFailed     = "capture_failed" // error in Belljar, or timeout
	// SkippedExpired is the reason for swept bytes.
	SkippedExpired = "expired"
)

// capture copies the files that match the run's patterns, as far as the cap and its owner's quota permit. A failure is a warning: it does
// not make the run fail.
func (s *runner) capture(r *Run, p *plan, b *box.Box) (*captured, []string) {
	if len(p.patterns) == 0 {
		return nil, nil
	}
	r.sendEnd.Do(func() { close(r.endSent) }) // a cancellation does not wait for the copy
	ctx, stop := context.WithCancelCause(context.Background())
	defer context.AfterFunc(s.work.Closing(), func() { stop(fault.ErrShutdown) })()
	defer context.AfterFunc(r.ctx, func() {
		if why := context.Cause(r.ctx); !errors.Is(why, fault.ErrCanceled) { // the command has ended: its caller's cancellation is late
			stop(why)
		}
	})()
	if p.session != nil { // its end waits for the copy, and stops its runs with the same cause as a cancellation
		life := session.Life(p.session)
		defer context.AfterFunc(life, func() { stop(context.Cause(life)) })()
	}
	ctx, cancel := context.WithTimeout(ctx, captureTime)
	defer cancel()
	found, warnings, err := find(ctx, b, p.patterns, matchTime)
	var w *admission.Allowance
	if err == nil {
		w, err = s.accounts.AllowArtifacts(ctx, r.owner)
	}
	if err != nil {
		s.log.Warn("artifacts cannot be captured", "run_id", r.id, "err", err)
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case errors.Is(err, errPatterns):
			err = errPatterns
		}
		return nil, append(warnings, "artifacts could not be captured: "+err.Error())
	}
	c := &captured{room: int64(p.Limits.ArtifactMB) << 20, allowance: w}
	for i, f := range found {
		if !c.name(f) {
			warnings = append(warnings, fmt.Sprintf("%d artifacts were not captured: their owner's quota of artifact bytes is used up", len(found)-i))
			break
		}
		s.keep(ctx, r, b, c, f)
	}
	if c.size > 0 {
		if err := s.blobs.Sync(ctx, r.owner, r.id); err != nil {
			s.log.Error("artifacts may not survive a loss of power", "run_id", r.id, "err", err)
			warnings = append(warnings, "artifacts may not survive a loss of power of the server")
		}
	}
	return c, append(warnings, c.warnings(p.Limits)...)
}

// find returns the files that match patterns, sorted by path, with warnings for patterns without a match. most bounds the time to match.
func find(ctx context.Context, b *box.Box, patterns []string, most time.Duration) (found []wire.FileInfo, warnings []string, err error) {
	sel := selection{patterns: patterns, left: most, hits: make([]int, len(patterns)), folders: make([]bool, len(patterns)), implied: map[string]bool{}}
	names, beyond := 0, 0
	cut, err := b.Agent.Walk(ctx, b.File("."), func(f wire.FileInfo) error {
		if wanted, err := sel.includes(f); err != nil || !wanted {
			return err
		}
		if names += len(f.Path) + len(f.Target); len(found) == maxArtifacts || names > maxNames || !sel.imply(f) {
			beyond++
			return nil
		}
		found = append(found, f)
		return nil
	})
	if beyond > 0 {
		warnings = append(warnings, fmt.Sprintf("%d artifacts beyond the first %d were not captured", beyond, len(found)))
	}
	if cut {
		warnings = append(warnings, "the workspace has more files than are searched for artifacts")
	}
	slices.SortFunc(found, func(x, y wire.FileInfo) int { return strings.Compare(x.Path, y.Path) })
	return found, append(warnings, sel.warnings()...), err
}

// selection selects the files that match patterns, and remembers which patterns matched.
type selection struct {
	patterns []string
	left     time.Duration // time left to match
	hits     []int
	folders  []bool          // a pattern matched a directory
	implied  map[string]bool // folders of the files that are stored
}

// imply records the folders of a file that is stored; false if there are too many.
func (s *selection) imply(f wire.FileInfo) bool {
	if f.Type != "file" || f.Size == 0 {
		return true
	}
	n := 0
	for dir := path.Dir(f.Path); dir != "." && !s.implied[dir]; dir = path.Dir(dir) {
		n++
	}
	if len(s.implied)+n > maxFolders {
		return false
	}
	for dir := f.Path; n > 0; n-- {
		dir = path.Dir(dir)
		s.implied[dir] = true
	}
	return true
}

// includes reports whether to capture f: a regular file, or a symbolic link, of which only the target is recorded.
func (s *selection) includes(f wire.FileInfo) (wanted bool, err error) {
	last := time.Now()
	for i, p := range s.patterns {
		hit, now := matches(p, f.Path), time.Now()
		if s.left, last = s.left-now.Sub(last), now; s.left < 0 {
			return false, errPatterns
		}
		if !hit {
			continue
		}
		switch f.Type {
		case "file", "symlink":
			s.hits[i]++
			wanted = true
		case "dir":
			s.folders[i] = true
		}
	}
	return wanted, nil
}

func (s *selection) warnings() []string {
	var list []string
	for i, p := range s.patterns {
		switch {
		case s.hits[i] > 0:
		case s.folders[i] && !strings.Contains(p, "**"):
			list = append(list, fmt.Sprintf("capture pattern %q names a directory; its files are %q", p, p+"/**"))
		default:
			list = append(list, fmt.Sprintf("capture pattern %q matched no file", p))
		}
	}
	return list
}

// matches reports whether a pattern matches a path. Both are relative to the workspace. The folder for temporary files matches only patterns that
// name it.
func matches(pattern, path string) bool {
	if first, _, _ := strings.Cut(path, "/"); first == placement.TmpDir && !strings.HasPrefix(pattern, placement.TmpDir) {
		return false
	}
	ok, err := doublestar.Match(pattern, path)
	return ok && err == nil
}

// keep captures one file.
func (s *runner) keep(ctx context.Context, r *Run, b *box.Box, c *captured, f wire.FileInfo) {
	art := belljar.Artifact{Path: f.Path, Size: f.Size, Mode: f.Mode}
	switch {
	case f.Lossy:
		art.Skipped = skippedName
	case f.Type == "symlink":
		art.Size, art.LinkTarget = 0, f.Target
	case f.Size == 0:
	case f.Size > c.room:
		art.Skipped = skippedCap
	case !c.allowance.Reserve(f.Size):
		art.Skipped = skippedQuota
	default:
		s.copy(ctx, r, b, c, &art)
	}
	c.put(art)
}

// copy copies a file's bytes into the blob store. Its size must already be reserved.
func (s *runner) copy(ctx context.Context, r *Run, b *box.Box, c *captured, art *belljar.Artifact) {
	info, err := s.fetch(ctx, r, b, art.Path, art.Size)
	var refused *wire.Error
	switch {
	case errors.Is(err, errTooLarge):
		art.Skipped = skippedChanged
	case errors.As(err, &refused):
		art.Skipped = skippedUnreadable
	case fault.Full(err):
		art.Skipped = skippedFull
	case err != nil:
		s.log.Warn("artifact cannot be kept", "run_id", r.id, "path", art.Path, "err", err)
		art.Skipped = skippedFailed
	default:
		c.allowance.Release(art.Size - info.Size)
		c.room -= info.Size
		art.Size, art.Digest = info.Size, info.Digest
		return
	}
	c.allowance.Release(art.Size)
}

// errTooLarge is the error of a file that has grown.
var errTooLarge = errors.New("file is too large")

// fetch copies at most size bytes of a file.
func (s *runner) fetch(ctx context.Context, r *Run, b *box.Box, path string, size int64) (blob.Info, error) {
	req := b.File(path)
	req.NoFollow = true
	body, _, err := b.Agent.ReadFile(ctx, req)
	if err != nil {
		return blob.Info{}, err
	}
	defer body.Close()
	return s.blobs.Put(ctx, blob.Key{UserID: r.owner, RunID: r.id, Path: path}, &bounded{body, size})
}

// bounded is a reader that fails if r has more than left bytes.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, errTooLarge
	}
	return n, err
}

// warnings returns warnings about files that could not be kept.
func (c *captured) warnings(l belljar.Limits) []string {
	var list []string
	for _, art := range c.artifacts {
		name := char.Quoted(char.Short(art.Path, 200)) // a program chooses it, and models read warnings
		switch art.Skipped {
		case skippedCap:
			list = append(list, fmt.Sprintf("artifact %s was not captured: all artifacts of a run are limited to %d MiB", name, l.ArtifactMB))
		case skippedQuota:
			list = append(list, fmt.Sprintf("artifact %s was not captured: its owner's quota of artifact bytes is used up", name))
		case skippedFull:
			list = append(list, fmt.Sprintf("artifact %s was not captured: the server's disk is full", name))
		case skippedName:
			list = append(list, fmt.Sprintf("artifact %s was not captured: its name is not UTF-8", name))
		case skippedUnreadable:
			list = append(list, fmt.Sprintf("artifact %s could not be read", name))
		case skippedFailed, skippedChanged:
			list = append(list, fmt.Sprintf("artifact %s could not be kept", name))
		}
		if len(list) == 20 {
			return append(list, "more artifacts were not captured; the list of artifacts has all of them")
		}
	}
	return list
}
