package trace

import (
	"bufio"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"
)

// Options say how a trace's paths become files below a root.
type Options struct {
	// Workspace is the path in the sandbox that the root is a copy of; "" is /workspace.
	Workspace string
	// Cwd is where the program ran, absolute or relative to Workspace; "" is Workspace. Relative paths count from there.
	Cwd string
	// Artifacts are files of the run that the root may lack, by their paths in the workspace: captured ones. Compiled JavaScript and
	// its source maps are read from there too. nil is none.
	Artifacts fs.FS
}

// Location is where a frame stands.
type Location struct {
	Frame Frame // as the trace has it, with the reason if it was skipped
	// File is a slash-separated path below the root; "" if the frame was skipped.
	File string
	Line int // from 1
	// Column and EndColumn are from 1 in bytes of Text, EndColumn being the first one after the range; 0 is unknown.
	Column, EndColumn int
	Text              string // the line without its end, at most 8 KiB; "" if the file has no such line
	Mapped            bool   // a source map led here
}

const (
	mostPlaces = 100      // frames of a trace that are resolved
	mostSource = 32 << 20 // bytes of a file that is read
)

// Resolve is the first place of a trace that lies below the root: frames from the failure outwards, then those of related traces.
// If there is none, File is "" and Frame the one that a reader wants: the first with a file, runtime or not.
//
// A root from [os.Root.FS] keeps links inside.
func Resolve(t Trace, root fs.FS, o Options) Location {
	r := resolver{root: root, options: o, maps: map[string]*sourceMap{}}
	var first Location
	for _, one := range t.All() {
		for i, f := range one.Frames {
			if i == mostPlaces {
				break
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

// Places are all frames of a trace, without related ones, in order. Those that lead nowhere have the reason in Frame.Skipped.
func Places(t Trace, root fs.FS, o Options) []Location {
	r := resolver{root: root, options: o, maps: map[string]*sourceMap{}}
	list := make([]Location, 0, len(t.Frames))
	for i, f := range t.Frames {
		if i >= mostPlaces {
			if f.Skipped == "" {
				f.Skipped = SkippedBeyond
			}
			list = append(list, Location{Frame: f})
			continue
		}
		list = append(list, r.locate(f))
	}
	return list
}

// resolver resolves the frames of one trace.
type resolver struct {
	root    fs.FS
	options Options
	maps    map[string]*sourceMap // by the file they are of; nil for none
	module  string                // of go.mod at the root, with a slash
	read    bool                  // module is known
}

func (r *resolver) locate(f Frame) Location {
	l := Location{Frame: f}
	if f.Skipped != "" {
		return l
	}
	for _, file := range r.candidates(f.File) {
		if mapped, ok := r.mapped(file, f); ok {
			return mapped
		}
		if regular(r.root, file) {
			return r.at(l, file)
		}
	}
	if file, ok := r.java(f.File); ok {
		return r.at(l, file)
	}
	l.Frame.Skipped = SkippedElsewhere
	return l
}

// candidates are the paths below the root that a trace's path may mean, the likeliest first.
func (r *resolver) candidates(file string) (list []string) {
	add := func(p string) {
		if p = path.Clean(p); fs.ValidPath(p) && p != "." {
			list = append(list, p)
		}
	}
	workspace := path.Clean(orElse(r.options.Workspace, "/workspace"))
	file = strings.ReplaceAll(file, `\`, "/")
	if path.IsAbs(file) {
		if below, ok := strings.CutPrefix(path.Clean(file), strings.TrimSuffix(workspace, "/")+"/"); ok {
			add(below)
		}
		return list
	}
	cwd := r.options.Cwd
	if path.IsAbs(cwd) {
		below, ok := strings.CutPrefix(path.Clean(cwd)+"/", strings.TrimSuffix(workspace, "/")+"/")
		if !ok {
			cwd = ".."
		} else {
			cwd = below
		}
	}
	add(path.Join(cwd, file))
	if strings.HasSuffix(file, ".go") {
		if below, ok := strings.CutPrefix(file, r.goModule()); ok {
			add(path.Join(cwd, below))
			add(below)
		}
	}
	return list
}

// goModule is the module path of go.mod at the root or where the program ran; "\x00" if there is none.
func (r *resolver) goModule() string {
	if r.read {
		return r.module
	}
	r.read, r.module = true, "\x00"
	for _, name := range r.candidates("go.mod") {
		if r.module = moduleOf(r.root, name); r.module != "\x00" {
			return r.module
		}
	}
	r.module = moduleOf(r.root, "go.mod")
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

// java finds package/File.java below the usual folders of source, and otherwise anywhere, if only one file ends so.
func (r *resolver) java(file string) (string, bool) {
	switch path.Ext(file) {
	case ".java", ".kt", ".scala", ".groovy":
	default:
		return "", false
	}
	if path.IsAbs(file) || !fs.ValidPath(file) {
		return "", false
	}
	found, files, visited := "", 0, 0
	_ = fs.WalkDir(r.root, ".", func(name string, d fs.DirEntry, err error) error {
		if visited++; err != nil || visited > 20_000 {
			return fs.SkipDir
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || skipped(name+"/x") != "") {
			return fs.SkipDir
		}
		if d.Type().IsRegular() && (name == file || strings.HasSuffix(name, "/"+file)) {
			found, files = name, files+1
		}
		return nil
	})
	return found, files == 1 && visited <= 20_000
}

// at fills in a place in a file of the root.
func (r *resolver) at(l Location, file string) Location {
	l.File, l.Line = file, max(l.Frame.Line, 1)
	l.Text, _ = lineOf(r.root, file, l.Line)
	l.Column, l.EndColumn = columns(l.Frame, l.Text)
	return l
}

// columns are a frame's columns in bytes of the line.
func columns(f Frame, text string) (from, to int) {
	if f.Column <= 0 {
		return 0, 0
	}
	start := 0
	if f.Source != "" {
		start = len(text) - len(strings.TrimLeft(text, " \t\f"))
		if !strings.HasPrefix(text[start:], f.Source) {
			return 0, 0 // another line than the one that ran
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
			if i++; c > 0xFFFF && f.units == utf16Units {
				i++
			}
			if f.units == byteUnits {
				i += size - 1
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

func regular(fsys fs.FS, name string) bool {
	if fsys == nil {
		return false
	}
	info, err := fs.Stat(fsys, name)
	return err == nil && info.Mode().IsRegular()
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

// lineOf is line n of a file; false if it has none.
func lineOf(fsys fs.FS, name string, n int) (string, bool) {
	f, err := fsys.Open(name)
	if err != nil {
		return "", false
	}
	defer f.Close()
	r := bufio.NewReaderSize(io.LimitReader(f, mostSource), mostLine)
	for at := 1; ; at++ {
		line, prefix, err := r.ReadLine()
		if err != nil {
			return "", false
		}
		if at == n {
			return clip(strings.ToValidUTF8(string(line), "\uFFFD"), mostLine), true
		}
		for prefix {
			if _, prefix, err = r.ReadLine(); err != nil {
				return "", false
			}
		}
	}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
