package trace

import (
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"
)

// Options configures how a trace's paths are resolved to files below a root.
type Options struct {
	// Cwd is the working directory of the program, absolute or relative to the workspace; "" is the workspace. Relative paths start
	// there.
	Cwd string
	// Artifacts are captured files of the run that the root may lack, by their paths in the workspace. Compiled JavaScript and its
	// source maps are read from there, too. nil is none.
	Artifacts fs.FS
}

// Location is the resolved location of a frame.
type Location struct {
	Frame Frame // as in the trace, with the reason if it was skipped
	// File is a slash-separated path below the root; "" if the frame was skipped.
	File string
	Line int // from 1
	// Column and EndColumn are from 1 in bytes of Text, EndColumn being the first one after the range; 0 is unknown.
	Column, EndColumn int
	Text              string // the line without its end, at most 8 KiB; "" if the file has no such line
}

const (
	mostPlaces = 100      // resolved frames of a trace; for First, only those that may be the program's own
	mostFiles  = 20_000   // files of a root in which Java files are searched
	mostSource = 32 << 20 // size of a file to read
)

// Resolver resolves the places of traces below a root. It caches source maps and the paths of Java files, so use one for the traces of
// one program. It is not safe for concurrent use.
type Resolver struct {
	root    fs.FS
	options Options
	maps    map[string]*sourceMap // by compiled file; nil for none
	module  string                // of go.mod, with a slash; "" before the search
	folder  string                // of go.mod
	classes map[string][]string   // Java files by name; nil before the search

	last, lastText string // the last file read
}

// NewResolver returns a resolver. A root from [os.Root.FS] keeps links inside.
func NewResolver(root fs.FS, o Options) *Resolver {
	return &Resolver{root: root, options: o, maps: map[string]*sourceMap{}}
}

// First returns the first place of a trace that is below the root: first the frames from the failure outwards, then those of related
// traces. If there is none, File is "" and Frame is the most useful one: the first with a file, runtime or not.
func (r *Resolver) First(t Trace) Location {
	var first Location
	for _, one := range t.All() {
		own := 0
		for _, f := range one.Frames {
			if f.Skipped == "" {
				if own++; own > mostPlaces {
					break
				}
			}
			l := r.locate(f)
			if l.File != "" {
				return l
			}
			if first.Frame.File == "" {
				first = l
			}
		}
	}
	return first
}

// Places returns the first 100 frames of a trace, without related ones, in order. Unresolved frames have the reason in Frame.Skipped.
func (r *Resolver) Places(t Trace) (list []Location) {
	for _, f := range t.Frames[:min(len(t.Frames), mostPlaces)] {
		list = append(list, r.locate(f))
	}
	return list
}

func (r *Resolver) locate(f Frame) Location {
	l := Location{Frame: f}
	if f.Skipped != "" {
		return l
	}
	for _, file := range r.candidates(f.File) {
		if mapped, ok := r.mapped(file, f); ok {
			return mapped
		}
		if text, ok := r.text(file); ok {
			return at(l, file, text)
		}
	}
	if file, ok := r.java(f.File); ok {
		text, _ := r.text(file)
		return at(l, file, text)
	}
	l.Frame.Skipped = SkippedElsewhere
	return l
}

// candidates returns the paths below the root to which a trace's path may refer, the likeliest first.
func (r *Resolver) candidates(file string) (list []string) {
	add := func(p string) {
		if p = path.Clean(p); fs.ValidPath(p) && p != "." {
			list = append(list, p)
		}
	}
	file = strings.ReplaceAll(file, `\`, "/")
	if path.IsAbs(file) {
		if below, ok := inWorkspace(file); ok {
			add(below)
		}
		return list
	}
	cwd := r.options.Cwd
	if path.IsAbs(cwd) {
		var ok bool
		if cwd, ok = inWorkspace(cwd); !ok {
			cwd = ".."
		}
	}
	add(path.Join(cwd, file))
	switch path.Ext(file) {
	case ".go":
		if below, ok := strings.CutPrefix(file, r.goModule(cwd)); ok {
			add(path.Join(r.folder, below))
		}
	case ".rs": // rustc prints paths relative to Cargo's workspace, in a folder of which the program runs
		for _, dir := range upwards(cwd)[1:] {
			add(path.Join(dir, file))
		}
	}
	return list
}

// upwards returns a directory below the root and its parents; only the root for one outside.
func upwards(dir string) (list []string) {
	for dir = path.Clean(dir); dir != "." && fs.ValidPath(dir); dir = path.Dir(dir) {
		list = append(list, dir)
	}
	return append(list, ".")
}

// inWorkspace converts an absolute path in a sandbox to one relative to its workspace; "" is the workspace.
func inWorkspace(name string) (string, bool) {
	below, ok := strings.CutPrefix(path.Clean(name)+"/", "/workspace/")
	return strings.TrimSuffix(below, "/"), ok
}

// goModule returns the module path of go.mod in the program's working directory or the nearest parent; "\x00" if there is none.
func (r *Resolver) goModule(cwd string) string {
	if r.module == "" {
		for _, r.folder = range upwards(cwd) {
			if r.module = moduleOf(r.root, path.Join(r.folder, "go.mod")); r.module != "\x00" {
				break
			}
		}
	}
	return r.module
}

func moduleOf(root fs.FS, name string) string {
	text, err := load(root, name, 64<<10)
	if err != nil {
		return "\x00"
	}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "module"); ok && rest != strings.TrimSpace(rest) {
			name, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			return strings.Trim(name, "\"`") + "/"
		}
	}
	return "\x00"
}

// java finds package/File.java below the usual source folders, or else anywhere, if only one file has this path as its end.
func (r *Resolver) java(file string) (string, bool) {
	if !isJava(file) || !fs.ValidPath(file) {
		return "", false
	}
	if r.classes == nil {
		r.classes = javaFiles(r.root)
	}
	found := ""
	for _, name := range r.classes[path.Base(file)] {
		if name == file || strings.HasSuffix(name, "/"+file) {
			if found != "" {
				return "", false
			}
			found = name
		}
	}
	return found, found != ""
}

// javaFiles returns the Java files below a root by name, except those in package folders; none if there are too many files.
func javaFiles(root fs.FS) map[string][]string {
	found, visited := map[string][]string{}, 0
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if visited++; visited > mostFiles {
			return fs.ErrInvalid
		}
		switch {
		case err != nil, d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || skipped(name+"/x") != ""):
			return fs.SkipDir
		case d.Type().IsRegular() && isJava(name):
			found[d.Name()] = append(found[d.Name()], name)
		}
		return nil
	})
	if err != nil {
		return map[string][]string{}
	}
	return found
}

func isJava(name string) bool {
	switch path.Ext(name) {
	case ".java", ".kt", ".scala", ".groovy":
		return true
	}
	return false
}

// text reads a file below the root.
func (r *Resolver) text(file string) (string, bool) {
	if r.last != file {
		text, err := load(r.root, file, mostSource)
		if err != nil {
			return "", false
		}
		r.last, r.lastText = file, text
	}
	return r.lastText, true
}

// at sets the place and text of a location in a file.
func at(l Location, file, text string) Location {
	l.File, l.Line = file, max(l.Frame.Line, 1)
	l.Text = lineOf(text, l.Line)
	l.Column, l.EndColumn = columns(l.Frame, l.Text)
	return l
}

// columns converts a frame's columns to bytes of the line.
func columns(f Frame, text string) (from, to int) {
	if f.Column <= 0 {
		return 0, 0
	}
	start := 0
	if f.Source != "" {
		start = len(text) - len(strings.TrimLeft(text, " \t\f"))
		if !strings.HasPrefix(text[start:], f.Source) {
			return 0, 0 // the line has changed since the run
		}
	}
	offset := func(column int) int {
		n := start
		for i := 1; i < column; {
			if n >= len(text) {
				return len(text) + 1
			}
			c, size := utf8.DecodeRuneInString(text[n:])
			n += size
			if i++; c > 0xFFFF && (f.units == utf16Units || f.units == mavenUnits) {
				i++
			}
			switch {
			case f.units == byteUnits:
				i += size - 1
			case (f.units == displayUnits || f.units == mavenUnits) && c == '\t':
				i = (i+6)/8*8 + 1
			}
		}
		return n + 1
	}
	from = offset(f.Column)
	if f.EndColumn > f.Column {
		to = offset(f.EndColumn)
	}
	return from, to
}

// load reads a file of at most bound bytes.
func load(fsys fs.FS, name string, bound int64) (string, error) {
	if fsys == nil {
		return "", fs.ErrNotExist
	}
	f, err := fsys.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > bound {
		return "", fs.ErrInvalid
	}
	var b strings.Builder
	if _, err := io.Copy(&b, io.LimitReader(f, bound)); err != nil {
		return "", err
	}
	return b.String(), nil
}

// lineOf returns line n of a text, at most 8 KiB; "" if there is none.
func lineOf(text string, n int) string {
	for line := range strings.Lines(text) {
		if n--; n == 0 {
			return clip(strings.ToValidUTF8(strings.TrimRight(line, "\r\n"), "\uFFFD"), mostLine)
		}
	}
	return ""
}
