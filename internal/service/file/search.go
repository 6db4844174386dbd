package file

import (
	"archive/tar"
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
	"github.com/belljar/belljar/internal/service/queue"
)

// Bounds of a search.
const (
	searchTime  = 5 * time.Second
	searchFile  = 8 << 20   // per file
	searchBytes = 256 << 20 // in all files
	searchPaths = 16 << 20  // of the paths of all files
	searchBatch = 500       // files per request
	batchBytes  = 512 << 10 // of their paths
	searchStep  = 16 << 10  // bytes of lines between two checks of the time: an expression can take 0.2 s for them

	matchBytes = 512 // of the path of a match, on average: doors reserve memory for as many matches as a request allows

	searches        = 3 // concurrent searches on the node
	searchesOfOne   = 2 // concurrent searches of one user: other users can search meanwhile
	searchesWaiting = 64
)

// errSearchTime ends a search, which then returns the results so far.
var errSearchTime = errors.New("the time for a search is over")

// Search finds files and lines. The agent reads with the rights of the user. The host matches.
func (v view) Search(ctx context.Context, id string, q belljar.FileSearch) (belljar.FileMatches, error) {
	none := belljar.FileMatches{}
	s, err := newSearch(q)
	if err != nil {
		return none, err
	}
	u, err := v.beginIf(ctx, id, q.Ready)
	if err != nil {
		return none, err
	}
	defer u.end()
	turn, err := v.searching(u.ctx)
	if err != nil {
		return none, u.fault(s.dir, err)
	}
	defer turn.Leave()
	ctx, cancel := context.WithTimeoutCause(u.ctx, searchTime, errSearchTime)
	defer cancel()
	err = s.run(ctx, u)
	due, _ := ctx.Deadline()
	switch {
	case errors.Is(context.Cause(ctx), errSearchTime), err != nil && !time.Now().Before(due): // the connection may detect it first
		s.found.Truncated = true
	case errors.Is(err, errEnough):
	case err != nil:
		return none, u.fault(s.dir, err)
	}
	slices.SortFunc(s.found.Matches, func(a, b belljar.FileMatch) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
	return s.found, nil
}

// searching waits until this search may begin: a node runs only a few at the same time, and users take turns.
func (v view) searching(ctx context.Context) (*queue.Ticket, error) {
	return v.turn(ctx, v.searches, searchesOfOne, searchTime, "searches")
}

// search is one running search.
type search struct {
	dir   string
	name  string
	line  matcher // nil searches only names
	most  int
	found belljar.FileMatches
	bytes int64
	left  int // bytes of paths that matches may still have
}

func newSearch(q belljar.FileSearch) (*search, error) {
	dir, err := folderPath("path", q.Path)
	if err != nil {
		return nil, err
	}
	bad := func(field, format string, args ...any) (*search, error) {
		return nil, &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf(format, args...), Details: map[string]any{"field": field}}
	}
	s := &search{dir: dir, name: q.Name, most: q.MaxResults, found: belljar.FileMatches{Matches: []belljar.FileMatch{}}}
	switch {
	case q.Name == "" && q.Content == "":
		return bad("content", "a search needs a name, content, or both")
	case len(q.Name) > maxPatternBytes:
		return bad("name", "name is longer than %d bytes", maxPatternBytes)
	case q.Name != "" && !doublestar.ValidatePattern(q.Name):
		return bad("name", "name %.100q is not a valid glob", q.Name)
	case Alternatives(q.Name) > MaxAlternatives:
		return bad("name", "name %.100q has more than %d alternatives in braces", q.Name, MaxAlternatives)
	case q.Content == "" && (q.Regexp || q.IgnoreCase):
		return bad("content", "regexp and ignore_case need content")
	case q.MaxResults < 0 || q.MaxResults > maxMatches:
		return bad("max_results", "max_results must be between 1 and %d, got %d", maxMatches, q.MaxResults)
	case q.MaxResults == 0:
		s.most = defaultMatches
	}
	s.left = max(s.most, defaultMatches) * matchBytes
	if q.Content != "" {
		if s.line, err = newMatcher(q); err != nil {
			return bad("content", "content: %v", err)
		}
	}
	return s, nil
}

// MaxAlternatives bounds the number of patterns that the braces of one pattern expand to: matching tries each.
const MaxAlternatives = 64

// Alternatives returns an upper bound of how many plain patterns the braces of p expand to.
func Alternatives(p string) int {
	n := 1
	for _, group := range strings.Split(p, "{")[1:] {
		n = min(n*(1+strings.Count(group, ",")), MaxAlternatives+1)
	}
	return n
}

// wants reports whether the name of a file in the directory of the search matches.
func (s *search) wants(rel string) bool {
	if s.name == "" {
		return true
	}
	if !strings.Contains(s.name, "/") {
		rel = path.Base(rel)
	}
	ok, err := doublestar.Match(s.name, rel)
	return ok && err == nil
}

// run finds files, then lines in them.
func (s *search) run(ctx context.Context, u *use) error {
	var inside []string
	size := 0
	cut, err := u.Agent.Walk(ctx, u.File(s.dir), func(f wire.FileInfo) error {
		rel := f.Path
		if s.dir != "." {
			rel = strings.TrimPrefix(rel, s.dir+"/")
		}
		if s.line == nil {
			s.found.FilesSearched++
		}
		switch {
		case !s.wants(rel):
		case s.line == nil:
			return s.add(belljar.FileMatch{Path: f.Path})
		case f.Type == "file" && f.Size > 0:
			if size += len(rel); size > searchPaths {
				s.found.Truncated = true
				return errListed
			}
			s.found.Truncated = s.found.Truncated || f.Size > searchFile
			inside = append(inside, rel)
		}
		return nil
	})
	s.found.Truncated = s.found.Truncated || cut
	var refused *wire.Error
	switch {
	case errors.As(err, &refused) && refused.Errno == wire.ENOTDIR: // the path is a file: search it
		info, err := u.Agent.Stat(ctx, u.File(s.dir))
		if err != nil {
			return err
		}
		base := path.Base(s.dir)
		if s.dir = path.Dir(s.dir); !s.wants(base) {
			return nil
		}
		if s.line == nil {
			return s.add(belljar.FileMatch{Path: path.Join(s.dir, base)})
		}
		s.found.Truncated = info.Size > searchFile
		inside = []string{base}
	case err != nil && !errors.Is(err, errListed):
		return err
	}
	slices.Sort(inside)
	for len(inside) > 0 {
		n, size := 0, 0
		for n < min(len(inside), searchBatch) && (n == 0 || size+len(inside[n]) < batchBytes) {
			size += len(inside[n])
			n++
		}
		if err := s.look(ctx, u, inside[:n]); err != nil {
			return err
		}
		inside = inside[n:]
	}
	return nil
}

// add adds a match, and ends the search at one more than its maximum, or with very long paths before.
func (s *search) add(m belljar.FileMatch) error {
	if s.left -= len(m.Path); len(s.found.Matches) == s.most || s.left < 0 {
		s.found.Truncated = true
		return errEnough
	}
	s.found.Matches = append(s.found.Matches, m)
	return nil
}

// look searches lines in sorted files.
func (s *search) look(ctx context.Context, u *use, names []string) error {
	req := u.File(s.dir)
	req.Paths, req.Limit = names, searchFile
	body, err := u.Agent.Scan(ctx, req)
	if err != nil {
		return err
	}
	defer body.Close()
	r := tar.NewReader(body)
	lines := newLines(s.line.reach())
	for last := 0; ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return drain(body)
		}
		if err != nil {
			return err
		}
		at, ok := slices.BinarySearch(names[last:], head.Name)
		if !ok || head.Size > searchFile {
			return fmt.Errorf("the agent scans %.100q, of %d bytes", head.Name, head.Size)
		}
		last += at + 1
		if s.bytes += head.Size; s.bytes > searchBytes {
			s.found.Truncated = true
			return errEnough
		}
		s.found.FilesSearched++
		if err := s.file(ctx, lines, path.Join(s.dir, head.Name), r); err != nil {
			return err
		}
	}
}

// file searches one file.
func (s *search) file(ctx context.Context, lines *lines, name string, r io.Reader) error {
	lines.reset(r)
	for looked := 0; ; {
		line, cut, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.found.Truncated = s.found.Truncated || cut
		if from, to, ok := s.line.find(line); ok {
			if err := s.add(belljar.FileMatch{Path: name, Line: lines.number, Text: around(line, from, to)}); err != nil {
				return err
			}
		}
		if looked += len(line); (looked >= searchStep || lines.number%256 == 0) && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		looked %= searchStep
	}
}

// drain reads the rest of a stream, where the agent reports its own failure.
func drain(r io.Reader) error {
	n, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20))
	if err == nil && n == 1<<20 {
		err = errors.New("the agent sends data after an archive's end")
	}
	return err
}
