package debian

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/flock"
)

// Options describe the image to make.
type Options struct {
	Name string // one of [Names]
	// Packages are Debian packages in addition to those of the recipe.
	Packages []string
	// Suite is Debian's name of a release. The default is this machine's release, or bookworm if this machine does not run Debian.
	Suite string
	// Mirror is the source of the packages; default the machine's own sources of the suite.
	Mirror string
	// Dir is where a temporary folder for the build is made, which is removed in the end; default os.TempDir.
	Dir string
	// Log receives the progress, a line at a time; nil discards.
	Log func(line string)
}

var (
	packagePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]{1,99}$`) })

	suitePattern  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9-]{0,40}$`) })
	mirrorPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(https?|file|copy)://?[^\s\[\]"']+$`) })
)

// check returns the recipe and the sources.
func (o *Options) check() (recipe, []source, error) {
	r, ok := find(o.Name)
	if !ok {
		return recipe{}, nil, invalid("can be made: "+strings.Join(Names(), ", "), "no recipe for %q", o.Name)
	}
	for _, name := range o.Packages {
		if !packagePattern().MatchString(name) {
			return recipe{}, nil, invalid("such as git or libxml2", "%q is not the name of a Debian package", name)
		}
	}
	r.packages = slices.Concat(r.packages, o.Packages)
	if o.Suite == "" {
		o.Suite = ownSuite("/")
	}
	if !suitePattern().MatchString(o.Suite) {
		return recipe{}, nil, invalid("such as bookworm or trixie", "%q is not the name of a suite", o.Suite)
	}
	if o.Mirror == "" {
		own := ownSources("/", o.Suite)
		if len(own) == 0 {
			return recipe{}, nil, invalid("name where its packages are, as --mirror https://mirror.example/debian, or another release with --suite",
				"this machine has no package sources of Debian's %s in /etc/apt", o.Suite)
		}
		return r, own, nil
	}
	if !mirrorPattern().MatchString(o.Mirror) {
		return recipe{}, nil, invalid("such as https://mirror.example/debian", "%q is not the address of a mirror", o.Mirror)
	}
	return r, []source{{uri: o.Mirror, suite: o.Suite, components: []string{"main"}}}, nil
}

// Digest returns a hash, in hexadecimal, of everything that determines an image before it is made. Two images with the same digest differ
// at most in the versions of their packages.
func Digest(o Options) (string, error) {
	r, sources, err := o.check()
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q %q", r.name, r.all(), r.finish, sources, unwanted(), []string{prepare, tidy, slim}))
	return hex.EncodeToString(h[:]), nil
}

func invalid(hint, format string, args ...any) error {
	return &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// Build writes the tar of a root file system to w. It leaves nothing when it returns, also if ctx ends it. If it could not remove a file,
// it returns an error with [belljar.CodeInternal] that names the file. It fails with [belljar.CodeRuntimeUnavailable] if this machine
// cannot build the image; the hint names what is missing.
func Build(ctx context.Context, o Options, w io.Writer) (err error) {
	r, sources, err := o.check()
	if err != nil {
		return err
	}
	t, err := pick("")
	if err != nil {
		return err
	}
	sweep(cmp.Or(o.Dir, os.TempDir()))
	dir, err := os.MkdirTemp(o.Dir, folderName)
	if err != nil {
		return fmt.Errorf("build image %s: %w", o.Name, err)
	}
	if f, err := os.Open(dir); err == nil {
		defer f.Close()
		_ = flock.Try(f, true) // without locks, sweep removes no folder
	}
	defer func() {
		if left := os.RemoveAll(dir); left != nil {
			err = errors.Join(err, &belljar.Error{
				Code: belljar.CodeInternal, Message: fmt.Sprintf("files of image %s are left in %s", o.Name, dir), Err: left, Hint: "remove that folder",
			})
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil { // the tools unpack as another user
		return fmt.Errorf("build image %s: %w", o.Name, err)
	}
	if err := keyrings(dir, sources); err != nil {
		return fmt.Errorf("build image %s: %w", o.Name, err)
	}
	log := newJournal(o.Log)
	out := &reader{w: w}
	if err := t.build(ctx, &job{recipe: r, suite: o.Suite, sources: sources, dir: dir, log: log, out: out}); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("build image %s: %w", o.Name, context.Cause(ctx))
		}
		if out.err != nil {
			return fmt.Errorf("build image %s: %w", o.Name, out.err)
		}
		e := &belljar.Error{
			Code: belljar.CodeImageUnavailable, Message: fmt.Sprintf("%s could not build image %s", t.name(), o.Name), Err: err,
			Details: map[string]any{"log": log.last()}, Hint: "the error's details have the end of its log: belljar image build --json",
		}
		if reason := log.reason(); reason != "" {
			e.Message += ": " + reason
		}
		return e
	}
	return nil
}

// folderName begins the names of temporary folders. The process that uses a folder locks it.
const folderName = "belljar-image-"

// job is a build in progress.
type job struct {
	recipe  recipe
	suite   string
	sources []source
	dir     string // used by this job only
	log     *journal
	out     io.Writer
}

// tool is one of Debian's build tools.
type tool interface {
	name() string
	build(ctx context.Context, j *job) error
}

// reader receives the tar, and keeps the reason why it stopped.
type reader struct {
	w   io.Writer
	err error
}

// Write implements [io.Writer].
func (r *reader) Write(b []byte) (int, error) {
	n, err := r.w.Write(b)
	if err != nil {
		r.err = err
	}
	return n, err
}

// journal keeps the last lines of a tool's output and logs all of them.
type journal struct {
	report func(string)
	part   []byte
	lines  []string
}

// Limits of the output that is kept.
const (
	keptLines = 20
	longLine  = 400
)

func newJournal(report func(string)) *journal { return &journal{report: report} }

// Write implements [io.Writer]. A line that is overwritten repeatedly is logged once, in its last form.
func (l *journal) Write(b []byte) (int, error) {
	for _, c := range b {
		switch {
		case c == '\n':
			l.end()
		case c == '\r':
			l.part = l.part[:0]
		case len(l.part) < longLine:
			l.part = append(l.part, c)
		}
	}
	return len(b), nil
}

func (l *journal) end() {
	line := strings.TrimSpace(string(l.part))
	l.part = l.part[:0]
	if line == "" {
		return
	}
	if l.lines = append(l.lines, line); len(l.lines) > keptLines {
		l.lines = slices.Delete(l.lines, 0, 1)
	}
	if l.report != nil {
		l.report(line)
	}
}

// last returns the last lines of the output.
func (l *journal) last() []string { return slices.Clone(l.lines) }

// reason returns the first kept line that states an error: later lines only report that something failed.
func (l *journal) reason() string {
	for _, line := range l.lines {
		if text, ok := strings.CutPrefix(line, "E: "); ok {
			return text
		}
	}
	if len(l.lines) > 0 {
		return l.lines[len(l.lines)-1]
	}
	return ""
}
