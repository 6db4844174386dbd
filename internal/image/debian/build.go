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

// Options state what to make.
type Options struct {
	Name string // one of [Names]
	// Packages are Debian packages that the image has besides those of its recipe.
	Packages []string
	// Suite is Debian's name of a release; default the machine's own, or bookworm if that is no Debian.
	Suite string
	// Mirror is where packages are; default the machine's own sources of the suite.
	Mirror string
	// Dir is where the files lie meanwhile, in a folder that is gone in the end; default os.TempDir.
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

// Digest is a hash, in hexadecimal, of what is known of an image before it is made: two images with the same one differ by the
// versions of their packages at most.
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

// Build writes the tar of a root file system to w. Nothing of it is left when it returns, also if ctx ends it; an error with
// [belljar.CodeInternal] names what could not be removed. It fails with [belljar.CodeRuntimeUnavailable] where this machine cannot do it,
// with what is missing as the hint.
func Build(ctx context.Context, o Options, w io.Writer) (err error) {
	r, sources, err := o.check()
	if err != nil {
		return err
	}
	t, err := pick()
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
		_ = flock.Try(f, true) // where that cannot be, no folder is swept
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

// folderName begins the names of folders in which images are made. Each is locked by its process.
const folderName = "belljar-image-"

// job is one image in the making.
type job struct {
	recipe  recipe
	suite   string
	sources []source
	dir     string // ours alone
	log     *journal
	out     io.Writer
}

// tool is one of Debian's.
type tool interface {
	name() string
	build(ctx context.Context, j *job) error
}

// reader is what reads the tar, and why it stopped.
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

// journal keeps the last of what a tool prints and passes it on.
type journal struct {
	report func(string)
	part   []byte
	lines  []string
}

// How much of what a tool prints is kept.
const (
	keptLines = 20
	longLine  = 400
)

func newJournal(report func(string)) *journal { return &journal{report: report} }

// Write implements [io.Writer]. A line that is written over and over is logged once, as it ends.
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

// last is the end of the output.
func (l *journal) last() []string { return slices.Clone(l.lines) }

// reason is the first line kept that states what went wrong: those that follow only say that something did.
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
