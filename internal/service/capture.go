package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
)

// maxArtifacts bounds how many files one run may leave.
const maxArtifacts = 10_000

// Why the bytes of an artifact were not kept.
const (
	skippedCap        = "artifact_cap_exceeded"
	skippedUnreadable = "unreadable"
	skippedFailed     = "capture_failed" // on our side: a full disk, the end of the time for it
)

// capture brings home the files that the run's patterns name, as far as the cap allows. What goes wrong is a warning:
// a run that was good stays good.
func (s *Service) capture(ctx context.Context, p *plan, j *jar) (*captured, []string) {
	if len(p.patterns) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, captureTime)
	defer cancel()
	found, warnings, err := find(ctx, j, p.patterns)
	if err != nil {
		s.log.Warn("artifacts could not be listed", "sandbox", j.ID(), "err", err)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, append(warnings, "artifacts could not be captured: "+err.Error())
	}
	c := &captured{spool: &spool{dir: s.opts.SpoolDir}, room: int64(p.limits.ArtifactMB) << 20}
	for _, f := range found {
		c.add(ctx, j, f)
	}
	return c, append(warnings, c.warnings(p.limits)...)
}

// find returns the files that patterns name, sorted by path, with warnings for what was found missing.
func find(ctx context.Context, j *jar, patterns []string) (found []wire.FileInfo, warnings []string, err error) {
	sel := selection{patterns: patterns, hits: make([]int, len(patterns)), folders: make([]bool, len(patterns))}
	beyond := 0
	cut, err := j.agent.Walk(ctx, j.file("."), func(f wire.FileInfo) error {
		if !sel.wants(f) {
			return nil
		}
		if len(found) == maxArtifacts {
			beyond++
			return nil
		}
		found = append(found, f)
		return nil
	})
	if beyond > 0 {
		warnings = append(warnings, fmt.Sprintf("%d artifacts beyond the first %d were left behind", beyond, maxArtifacts))
	}
	if cut {
		warnings = append(warnings, "the workspace has more files than are searched for artifacts")
	}
	slices.SortFunc(found, func(x, y wire.FileInfo) int { return strings.Compare(x.Path, y.Path) })
	return found, append(warnings, sel.warnings()...), err
}

// selection decides which files patterns name, and remembers which patterns named any.
type selection struct {
	patterns []string
	hits     []int
	folders  []bool // a pattern named a directory
}

// wants reports whether f is to be captured: a regular file, or a symbolic link, of which only the target is noted.
func (s *selection) wants(f wire.FileInfo) bool {
	wanted := false
	for i, p := range s.patterns {
		if !matches(p, f.Path) {
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
	return wanted
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

// matches reports whether a pattern names a path. Both are relative to the workspace. Our own folder for temporary
// files has to be named.
func matches(pattern, path string) bool {
	if first, _, _ := strings.Cut(path, "/"); first == tmpDir && !strings.HasPrefix(pattern, tmpDir) {
		return false
	}
	ok, err := doublestar.Match(pattern, path)
	return ok && err == nil
}

// add keeps one file.
func (c *captured) add(ctx context.Context, j *jar, f wire.FileInfo) {
	art := belljar.Artifact{Path: f.Path, Size: f.Size, Mode: f.Mode}
	switch {
	case f.Type == "symlink":
		art.Size, art.LinkTarget = 0, f.Target
		c.put(art, 0)
		return
	case f.Size == 0:
		c.put(art, 0)
		return
	case f.Size > c.room:
		art.Skipped = skippedCap
		c.put(art, 0)
		return
	}
	offset, n, err := c.fetch(ctx, j, f.Path)
	var refused *wire.Error
	switch {
	case errors.Is(err, errTooLarge):
		art.Skipped = skippedCap
	case errors.As(err, &refused):
		art.Skipped = skippedUnreadable
	case err != nil:
		art.Skipped = skippedFailed
	default:
		art.Size = n
		c.room -= n
	}
	c.put(art, offset)
}

// errTooLarge says that a file holds more than it said.
var errTooLarge = errors.New("file is too large")

// fetch copies a file's bytes into the spool.
func (c *captured) fetch(ctx context.Context, j *jar, path string) (offset, n int64, err error) {
	req := j.file(path)
	req.NoFollow = true
	body, _, err := j.agent.ReadFile(ctx, req)
	if err != nil {
		return 0, 0, err
	}
	defer body.Close()
	offset, n, err = c.spool.append(io.LimitReader(body, c.room+1))
	if err == nil && n > c.room {
		err = errTooLarge
	}
	return offset, n, err
}

// warnings says what could not be kept.
func (c *captured) warnings(l belljar.Limits) []string {
	var list []string
	for _, art := range c.artifacts {
		switch art.Skipped {
		case skippedCap:
			list = append(list, fmt.Sprintf("artifact %s was left behind: all together are limited to %d MiB", art.Path, l.ArtifactMB))
		case skippedUnreadable:
			list = append(list, fmt.Sprintf("artifact %s could not be read", art.Path))
		case skippedFailed:
			list = append(list, fmt.Sprintf("artifact %s could not be kept", art.Path))
		}
		if len(list) == 20 {
			return append(list, "more artifacts were left behind; their list says which")
		}
	}
	return list
}
