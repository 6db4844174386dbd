package sync

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/archive"
)

// File is the known state of a file in the sandbox.
type File struct {
	Size  int64  `json:"size"`
	Mtime int64  `json:"mtime_ns,omitempty"` // of the file on disk; 0 if its content must be read again
	SHA   string `json:"sha256"`
	Exec  bool   `json:"exec,omitempty"`
}

// Manifest is the files of a sandbox, by their paths.
type Manifest map[string]File

// Options select the files of a folder for the sandbox.
type Options struct {
	Ignore []string // more lines in the form of .gitignore, which override all other rules
	Allow  []string // in the same form: files to include despite other rules or binary content
	// Buffers are texts that an editor has not saved, by path. They replace the files.
	Buffers map[string]string
	Must    []string // paths to include in any case, such as the program to run
	Only    []string // if it is not empty, only these paths are included

	MaxFile  int64 // bytes of one file; larger ones are skipped
	MaxTotal int64 // bytes of all files; more is an error
}

// Skip is a file that was left out although no ignore file matches it.
type Skip struct{ Path, Reason string }

// Plan lists the changes that synchronize the sandbox with the folder.
type Plan struct {
	Upload  []string // sorted
	Delete  []string // sorted; folders include their contents
	Skipped []Skip
	Next    Manifest // the state after the plan

	root    *os.Root
	buffers map[string]string
	most    int64
}

// mostEntries bounds a walk.
const mostEntries = 200_000

// Scan compares a folder with the last state sent. The plan reads from root until it is done.
func Scan(ctx context.Context, root *os.Root, o Options, last Manifest) (*Plan, error) {
	w := &walk{
		ctx: ctx, fsys: root.FS(), o: o, last: last, now: time.Now(),
		plan: &Plan{root: root, buffers: o.Buffers, Next: Manifest{}, most: o.MaxFile},
		user: parseRules("", strings.Join(o.Ignore, "\n")), allow: parseRules("", strings.Join(o.Allow, "\n")),
	}
	var err error
	if len(o.Only) > 0 {
		err = w.only()
	} else {
		w.above(root.Name())
		if err = w.dir(".", false); err == nil {
			err = w.rest()
		}
	}
	if err != nil {
		return nil, err
	}
	return w.plan, w.finish()
}

// walk is one scan.
type walk struct {
	ctx   context.Context
	fsys  fs.FS
	o     Options
	last  Manifest
	now   time.Time
	plan  *Plan
	files []rules // of the folders above, then of those on the current path
	user  rules
	allow rules
	seen  int
}

// above reads the ignore files of the repository that contains the folder, and its exclude file.
func (w *walk) above(folder string) {
	at, err := filepath.Abs(folder)
	if err != nil {
		return
	}
	for below := ""; ; below, at = path.Join("..", filepath.Base(at), strings.TrimPrefix(below, "../")), filepath.Dir(at) {
		fsys := os.DirFS(at)
		if below == "" {
			fsys = w.fsys
		} else {
			w.read(fsys, ".gitignore", below)
		}
		if info, err := fs.Lstat(fsys, ".git"); err == nil {
			if info.IsDir() {
				w.read(fsys, ".git/info/exclude", below)
			}
			slices.Reverse(w.files) // the outermost folder comes first
			return
		}
		if filepath.Dir(at) == at {
			break
		}
	}
	w.files = nil // no repository
}

// mostRules is the maximum size of an ignore file, in bytes.
const mostRules = 1 << 20

// read adds the rules of an ignore file, if there is one. They apply to paths below base: a folder in the root or, beginning with
// ../, the root's path from a folder above.
func (w *walk) read(fsys fs.FS, name, base string) {
	info, err := fs.Lstat(fsys, name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > mostRules {
		return
	}
	if text, err := fs.ReadFile(fsys, name); err == nil {
		r := parseRules("", string(text))
		r.base = base
		w.files = append(w.files, r)
	}
}

// ignored reports whether the rules ignore a path: those of the user first, then from the deepest folder outwards.
func (w *walk) ignored(name string, dir bool) bool {
	switch w.user.judge(name, dir) {
	case ignored:
		return true
	case kept:
		return false
	}
	for _, r := range slices.Backward(w.files) {
		at := name
		if below, ok := strings.CutPrefix(r.base, "../"); ok {
			at, r.base = path.Join(below, name), ""
		}
		switch r.judge(at, dir) {
		case ignored:
			return true
		case kept:
			return false
		}
	}
	return false
}

// dir walks one directory. With taken, no rule applies to its entries.
func (w *walk) dir(at string, taken bool) error {
	entries, err := fs.ReadDir(w.fsys, at)
	if err != nil {
		if at == "." {
			return fmt.Errorf("the folder cannot be read: %w", err)
		}
		w.skip(at, "it cannot be read")
		return nil
	}
	mark := len(w.files)
	w.enter(at)
	defer func() { w.files = w.files[:mark] }()
	for _, entry := range entries {
		if w.seen++; w.seen > mostEntries {
			return fmt.Errorf("the folder has more than %d files: open one with less, or leave folders out with sync.ignore", mostEntries)
		}
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := w.entry(path.Join(at, entry.Name()), entry, taken); err != nil {
			return err
		}
	}
	return nil
}

// enter reads the ignore files of one directory.
func (w *walk) enter(at string) {
	base := at
	if at == "." {
		base = ""
	}
	w.read(w.fsys, path.Join(at, ".gitignore"), base)
	w.read(w.fsys, path.Join(at, ".belljarignore"), base)
}

func (w *walk) entry(name string, entry fs.DirEntry, taken bool) error {
	if control(entry.Name()) {
		return nil
	}
	dir := entry.IsDir()
	allowed := taken || w.allow.judge(name, dir) == ignored // a line of Allow that matches
	if !allowed && (dir && made(entry.Name()) || w.ignored(name, dir)) {
		return nil
	}
	switch {
	case dir:
		return w.dir(name, allowed)
	case entry.Type()&fs.ModeSymlink != 0:
		return w.link(name, allowed)
	case entry.Type().IsRegular():
		return w.file(name, allowed)
	}
	return nil // sockets, devices and pipes
}

// link includes the target file of a link, if it is in the folder. os.Root refuses all others.
func (w *walk) link(name string, allowed bool) error {
	info, err := fs.Stat(w.fsys, name)
	switch {
	case err != nil:
		w.skip(name, "it is a link that leads out of the folder, or nowhere")
	case info.IsDir():
		w.skip(name, "it is a link to a folder")
	case w.controlled(name):
		w.skip(name, "it is a link to what belongs to version control")
	case info.Mode().IsRegular():
		return w.file(name, allowed)
	}
	return nil
}

// controlled reports whether a path leads, through links, to files of version control.
func (w *walk) controlled(name string) bool {
	top, err := filepath.EvalSymlinks(w.plan.root.Name())
	if err != nil {
		return true
	}
	to, err := filepath.EvalSymlinks(filepath.Join(top, filepath.FromSlash(name)))
	if err == nil {
		to, err = filepath.Rel(top, to)
	}
	return err != nil || slices.ContainsFunc(strings.Split(filepath.ToSlash(to), "/"), control)
}

func (w *walk) skip(name, reason string) { w.plan.Skipped = append(w.plan.Skipped, Skip{name, reason}) }

// file decides about one file.
func (w *walk) file(name string, allowed bool) error {
	if err := archive.CheckName(name); err != nil {
		w.skip(name, err.Message)
		return nil
	}
	text, open := w.o.Buffers[name]
	info, err := fs.Stat(w.fsys, name)
	if err != nil {
		if open {
			w.take(name, File{Size: int64(len(text)), SHA: digest([]byte(text))})
			return nil
		}
		w.skip(name, "it cannot be read")
		return nil
	}
	f := File{Size: info.Size(), Mtime: info.ModTime().UnixNano(), Exec: info.Mode()&0o111 != 0}
	if w.now.Sub(info.ModTime()) < 2*time.Second {
		f.Mtime = 0 // it may change again within the clock's precision
	}
	if open {
		f.Size, f.Mtime, f.SHA = int64(len(text)), 0, digest([]byte(text))
		w.take(name, f)
		return nil
	}
	if !allowed && binaryName(name) {
		w.skip(name, "it is binary")
		return nil
	}
	if w.o.MaxFile > 0 && f.Size > w.o.MaxFile {
		w.skip(name, fmt.Sprintf("it has %d MiB, and one file may have %d", f.Size>>20, w.o.MaxFile>>20))
		return nil
	}
	if old, ok := w.last[name]; ok && old.Mtime != 0 && old.Mtime == f.Mtime && old.Size == f.Size && old.Exec == f.Exec {
		f.SHA = old.SHA
		w.take(name, f)
		return nil
	}
	content, err := fs.ReadFile(w.fsys, name)
	if err != nil {
		w.skip(name, "it cannot be read")
		return nil
	}
	if !allowed && binaryText(content) {
		w.skip(name, "it is binary")
		return nil
	}
	f.Size, f.SHA = int64(len(content)), digest(content)
	w.take(name, f)
	return nil
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// take includes a file in the plan.
func (w *walk) take(name string, f File) {
	if _, twice := w.plan.Next[name]; twice {
		return
	}
	w.plan.Next[name] = f
	if old, ok := w.last[name]; !ok || old.SHA != f.SHA || old.Exec != f.Exec {
		w.plan.Upload = append(w.plan.Upload, name)
	}
}

// rest includes unsaved files that are not on disk yet, and the files of Must.
func (w *walk) rest() error {
	for name := range w.o.Buffers {
		if _, err := fs.Lstat(w.fsys, name); errors.Is(err, fs.ErrNotExist) && !slices.ContainsFunc(strings.Split(name, "/"), control) && !w.left(name) {
			if err := w.file(name, true); err != nil {
				return err
			}
		}
	}
	for _, name := range w.o.Must {
		if _, ok := w.plan.Next[name]; ok {
			continue
		}
		if err := w.named(name); err != nil {
			return err
		}
	}
	return nil
}

// left reports whether a rule leaves out a file that is not on disk, or a folder above it.
func (w *walk) left(name string) bool {
	mark := len(w.files)
	defer func() { w.files = w.files[:mark] }()
	parts, at := strings.Split(name, "/"), "."
	for i, part := range parts {
		w.enter(at)
		at = path.Join(at, part)
		dir := i < len(parts)-1
		if w.allow.judge(at, dir) == ignored {
			return false
		}
		if dir && made(part) || w.ignored(at, dir) {
			return true
		}
	}
	return false
}

// only includes the named files, and keeps the files that were sent before.
func (w *walk) only() error {
	for _, name := range w.o.Only {
		if err := w.named(name); err != nil {
			return err
		}
	}
	for name, f := range w.last {
		if _, ok := w.plan.Next[name]; !ok {
			w.plan.Next[name] = f
		}
	}
	return nil
}

// named includes a file that the user has named. The file must exist, and binaries must be allowed.
func (w *walk) named(name string) error {
	if slices.ContainsFunc(strings.Split(name, "/"), control) {
		return notSent(name, "it belongs to version control")
	}
	skipped := len(w.plan.Skipped)
	_, open := w.o.Buffers[name]
	info, err := fs.Stat(w.fsys, name)
	switch {
	case open:
	case errors.Is(err, fs.ErrNotExist):
		return notSent(name, "it does not exist")
	case err != nil:
		return notSent(name, "it is a link that leads out of the folder, or cannot be read")
	case !info.Mode().IsRegular():
		return notSent(name, "it is not a file")
	case w.controlled(name):
		return notSent(name, "it belongs to version control")
	}
	if err := w.file(name, w.allow.judge(name, false) == ignored); err != nil {
		return err
	}
	if len(w.plan.Skipped) > skipped {
		return notSent(name, w.plan.Skipped[skipped].Reason)
	}
	return nil
}

// notSent returns the error for a named file that cannot be sent.
func notSent(name, reason string) error {
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: name + " cannot be sent: " + reason, Details: map[string]any{"field": "files", "path": name},
	}
}

// finish checks the total size and finds the paths to delete.
func (w *walk) finish() error {
	var total int64
	for _, f := range w.plan.Next {
		total += f.Size
	}
	if w.o.MaxTotal > 0 && total > w.o.MaxTotal {
		return tooLarge(w.plan.Next, total, w.o.MaxTotal)
	}
	w.plan.Delete = w.gone()
	slices.Sort(w.plan.Upload)
	return nil
}

// gone returns the paths that are no longer sent: files, and the outermost folders that no longer exist on disk.
func (w *walk) gone() []string {
	kept := map[string]bool{".": true} // folders of the files to keep
	for name := range w.plan.Next {
		for dir := path.Dir(name); !kept[dir]; dir = path.Dir(dir) {
			kept[dir] = true
		}
	}
	gone := map[string]bool{}
	for name := range w.last {
		if _, ok := w.plan.Next[name]; ok {
			continue
		}
		for dir := path.Dir(name); !kept[dir]; dir = path.Dir(dir) {
			if info, err := fs.Lstat(w.fsys, dir); err == nil && info.IsDir() {
				break
			}
			name = dir
		}
		gone[name] = true
	}
	return slices.Sorted(maps.Keys(gone))
}

// tooLarge returns the error for a folder that is too large for a sandbox. It names the ten largest files.
func tooLarge(files Manifest, total, most int64) error {
	names := slices.SortedFunc(maps.Keys(files), func(a, b string) int {
		return cmp.Or(cmp.Compare(files[b].Size, files[a].Size), strings.Compare(a, b))
	})
	var largest []string
	for _, name := range names[:min(len(names), 10)] {
		largest = append(largest, fmt.Sprintf("%s (%.1f MiB)", name, float64(files[name].Size)/(1<<20)))
	}
	return &belljar.Error{
		Code: belljar.CodeTooLarge, Details: map[string]any{"bytes": total, "maximum": most},
		Message: fmt.Sprintf("the folder has %d MiB to send, and the sandbox takes %d MiB; the largest files are %s", total>>20, most>>20, strings.Join(largest, ", ")),
	}
}

// Doubt returns the known state of the sandbox while the plan is applied: the state of the files that it sends or deletes is
// unknown.
func (p *Plan) Doubt() Manifest {
	m := maps.Clone(p.Next)
	for _, name := range slices.Concat(p.Upload, p.Delete) {
		m[name] = File{}
	}
	return m
}

// content reads the content to send of a file.
func (p *Plan) content(name string) ([]byte, error) {
	if text, ok := p.buffers[name]; ok {
		return []byte(text), nil
	}
	f, err := p.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file any longer", name)
	}
	if p.most <= 0 {
		return io.ReadAll(f)
	}
	content, err := io.ReadAll(io.LimitReader(f, p.most+1))
	if err == nil && int64(len(content)) > p.most {
		err = fmt.Errorf("%s has grown beyond %d MiB", name, p.most>>20)
	}
	return content, err
}
