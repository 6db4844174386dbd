package transfer

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
)

// Source is one thing to put into the workspace.
type Source struct {
	Dst     string      // where, relative to the workspace
	Path    string      // local file; "" for content
	Content []byte      // of a file that does not exist locally, or instead of what Path has
	Info    fs.FileInfo // of Path, as checked
	link    string      // target of a symbolic link
	root    *os.Root    // of --dir: Path is inside it and opened through it
}

func (s Source) size() int64 {
	switch {
	case s.given():
		return int64(len(s.Content))
	case s.Info.Mode().IsRegular():
		return s.Info.Size()
	}
	return 0
}

// given reports whether Content has the bytes of the file.
func (s Source) given() bool { return s.Path == "" || s.Content != nil }

// Upload is everything to put into the workspace before the command starts, validated and in order.
type Upload struct {
	sources []Source
	taken   map[string]Source
	roots   []*os.Root
	linked  int // entries of folders that links led to
}

// Add adds one source at its destination. It ignores a repeated source, and refuses two sources for one destination.
func (u *Upload) Add(s Source) error {
	if u.taken == nil {
		u.taken = make(map[string]Source)
	}
	if other, ok := u.taken[s.Dst]; ok {
		same := s.Info != nil && other.Info != nil && os.SameFile(s.target(), other.target())
		if same || s.Info != nil && other.Info != nil && s.Info.IsDir() && other.Info.IsDir() {
			return nil
		}
		return mistake.New("", "%s would be both %s and %s", path.Join(belljar.WorkspaceDir, s.Dst), other.origin(), s.origin())
	}
	u.taken[s.Dst] = s
	u.sources = append(u.sources, s)
	return nil
}

// target returns the file itself, for a link that of which it leads to.
func (s Source) target() fs.FileInfo {
	if s.link != "" && s.root != nil {
		if info, err := s.root.Stat(s.Path); err == nil {
			return info
		}
	}
	return s.Info
}

func (s Source) origin() string {
	if s.Path == "" {
		return "standard input"
	}
	return s.Path
}

// AddFile adds a --file flag, SRC[:DST].
func (u *Upload) AddFile(file string) error { return u.addFile("--file ", file) }

// AddArgument adds a file that the command line names without a flag, SRC[:DST].
func (u *Upload) AddArgument(file string) error { return u.addFile("", file) }

func (u *Upload) addFile(flag, file string) error {
	src, dst := file, ""
	// Split at the colon unless the whole text names a file.
	if i := strings.LastIndexByte(file, ':'); i > 0 {
		if _, err := os.Stat(file); err != nil {
			src, dst = file[:i], file[i+1:]
			if dst == "" {
				return mistake.New(flag+"SRC[:DST]", "%s%s: no destination after the colon", flag, file)
			}
		}
	}
	info, err := os.Stat(src)
	switch {
	case err != nil:
		return mistake.New("", "%s%s: %s", flag, src, mistake.Reason(err))
	case info.IsDir():
		return mistake.New("send its contents with --dir "+show.Word(src), "%s%s: is a directory", flag, src)
	case !info.Mode().IsRegular():
		return mistake.New("", "%s%s: is not a regular file", flag, src)
	}
	base := filepath.Base(src)
	switch {
	case dst == "":
		dst = base
	case strings.HasSuffix(dst, "/"):
		dst += base
	}
	clean, err := belljar.CleanPath(dst)
	if err == nil && clean == "." {
		clean = base
	}
	if err != nil {
		return mistake.New("the destination is a path inside "+belljar.WorkspaceDir, "%s%s: destination %s: %v", flag, src, dst, err)
	}
	if err := readable(src); err != nil {
		return mistake.New("", "%s%s: %s", flag, src, mistake.Reason(err))
	}
	return u.Add(Source{Dst: clean, Path: src, Info: info})
}

// AddDir adds the contents of a folder. Symbolic links must lead inside the folder. They stay links, except for a server: its uploads have
// no links, and the workspace gets what they lead to, or scripts that execute it in its place.
func (u *Upload) AddDir(dir string, server bool) error {
	if server {
		return u.copyDir("--dir ", dir, ".")
	}
	return u.addDir("--dir ", dir)
}

// addDir is AddDir for a folder that the command line names after this flag, or without one.
func (u *Upload) addDir(flag, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return mistake.New("", "%s%s: %s", flag, dir, mistake.Reason(err))
	}
	u.roots = append(u.roots, root)
	return u.walk(flag, dir, root, ".")
}

// walk adds the contents of a folder in root, which is dir. The folder may be a link; it is added itself then, and its links are not checked.
func (u *Upload) walk(flag, dir string, root *os.Root, folder string) error {
	return fs.WalkDir(root.FS(), folder, func(name string, entry fs.DirEntry, err error) error {
		shown := filepath.Join(dir, name)
		if err != nil {
			return mistake.New("", "%s%s: %s", flag, shown, mistake.Reason(err))
		}
		if name == "." {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return mistake.New("", "%s%s: %s", flag, shown, mistake.Reason(err))
		}
		s := Source{Dst: name, Path: name, Info: info, root: root}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			s.link, err = root.Readlink(name)
			if err != nil {
				return mistake.New("", "%s%s: %s", flag, shown, mistake.Reason(err))
			}
			if folder == "." && (path.IsAbs(s.link) || !filepath.IsLocal(path.Join(path.Dir(name), s.link))) {
				return mistake.New("remove the link, or put what it names into the folder",
					"%s%s: is a link to %s, outside the folder", flag, shown, s.link)
			}
		case info.IsDir():
		case info.Mode().IsRegular():
			f, err := root.Open(name)
			if err != nil {
				return mistake.New("", "%s%s: %s", flag, shown, mistake.Reason(err))
			}
			f.Close()
		default:
			return mistake.New("", "%s%s: is neither a file, a folder nor a link", flag, shown)
		}
		return u.Add(s)
	})
}

// Empty reports whether there is nothing to upload.
func (u *Upload) Empty() bool { return len(u.sources) == 0 }

// Fits checks the upload against the size of the workspace.
func (u *Upload) Fits(workspaceMB int) error {
	var total int64
	for _, s := range u.sources {
		total += s.size()
	}
	if total <= int64(workspaceMB)<<20 {
		return nil
	}
	need := (total + 1<<20 - 1) >> 20
	return mistake.New(fmt.Sprintf("--workspace %dm makes room", need+need/4),
		"the files need %d MiB and the workspace has %d MiB", need, workspaceMB)
}

// Reader returns the upload as a tar stream, nil if there is nothing to upload. The caller closes it.
func (u *Upload) Reader() io.ReadCloser {
	if len(u.sources) == 0 {
		return nil
	}
	r, w := io.Pipe()
	go func() {
		w.CloseWithError(u.write(w))
	}()
	return r
}

// Close closes the folders.
func (u *Upload) Close() {
	for _, root := range u.roots {
		root.Close()
	}
}

// write writes the upload as a tar stream.
func (u *Upload) write(w io.Writer) error {
	tw := tar.NewWriter(w)
	for _, s := range u.sources {
		if err := s.write(tw); err != nil {
			return fmt.Errorf("uploading %s: %w", s.origin(), err)
		}
	}
	return tw.Close()
}

func (s Source) write(tw *tar.Writer) error {
	header := &tar.Header{Name: s.Dst, Mode: 0o644, Size: s.size(), ModTime: time.Now(), Format: tar.FormatPAX}
	if s.Info != nil {
		header.Mode = int64(s.Info.Mode().Perm())
		header.ModTime = s.Info.ModTime()
	}
	switch {
	case s.link != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, s.link
		return tw.WriteHeader(header)
	case s.Info != nil && s.Info.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, s.Dst+"/"
		return tw.WriteHeader(header)
	}
	header.Typeflag = tar.TypeReg
	if s.given() {
		if err := tw.WriteHeader(header); err != nil {
			return err
		}
		_, err := io.Copy(tw, bytes.NewReader(s.Content))
		return err
	}
	f, err := s.open()
	if err != nil {
		return err
	}
	defer f.Close()
	if err := tw.WriteHeader(header); err != nil {
		return err
	}
	n, err := io.CopyN(tw, f, header.Size)
	if err == io.EOF {
		return fmt.Errorf("it shrank from %d to %d bytes while being read", header.Size, n)
	}
	return err
}

func (s Source) open() (*os.File, error) {
	if s.root != nil {
		return s.root.Open(s.Path)
	}
	return os.Open(s.Path)
}

// IsLocal reports whether a command is the relative path of a file of this machine.
func IsLocal(command string) bool {
	info, err := os.Stat(command)
	return err == nil && info.Mode().IsRegular() && !filepath.IsAbs(command) && strings.Contains(command, "/")
}

func readable(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return f.Close()
}

// AddTree adds a file or a folder under a name.
func (u *Upload) AddTree(place, name string) error {
	info, err := os.Stat(place)
	switch {
	case err != nil:
		return mistake.New("", "%s: %s", place, mistake.Reason(err))
	case !info.IsDir():
		return u.addPlain(place, name, info)
	}
	if name != "." {
		if err := u.Add(Source{Dst: name, Path: place, Info: info}); err != nil {
			return err
		}
	}
	return u.copyDir("", place, name)
}

// copyDir adds the contents of a folder under a name, with what its links lead to.
func (u *Upload) copyDir(flag, dir, name string) error {
	inner := &Upload{}
	err := inner.addDir(flag, dir)
	u.roots = append(u.roots, inner.roots...)
	if err != nil {
		return err
	}
	for _, s := range inner.sources {
		if err := u.addCopy(flag, dir, name, s); err != nil {
			return err
		}
	}
	return nil
}

// mostLinked limits the entries of folders that links lead to: links can multiply a small folder.
const mostLinked = 100_000

// addCopy adds an entry of a folder under a name. The workspace gets the target of a link.
func (u *Upload) addCopy(flag, dir, name string, s Source) error {
	if s.link == "" {
		s.Dst = path.Join(name, s.Dst)
		return u.Add(s)
	}
	shown := flag + filepath.Join(dir, s.Path)
	info, err := s.root.Stat(s.Path)
	switch {
	case err != nil || !info.IsDir() && !info.Mode().IsRegular():
		return mistake.New("remove the link, or copy what it leads to", "%s: is a link to %s, which is no file or folder in %s", shown, s.link, dir)
	case !info.IsDir():
		s.Content = launcher(s, info)
		s.link, s.Info = "", info
		return u.addCopy(flag, dir, name, s)
	}
	for up := s.Path; up != "."; {
		up = path.Dir(up)
		if above, err := s.root.Stat(up); err != nil || os.SameFile(above, info) {
			return mistake.New("remove the link", "%s: is a link to %s, a folder that contains it", shown, s.link)
		}
	}
	inner := &Upload{}
	if err := inner.walk(flag, dir, s.root, s.Path); err != nil {
		return err
	}
	if u.linked += len(inner.sources); u.linked > mostLinked {
		return mistake.New("remove links", "%s: links lead to folders with more than %d entries", flag+dir, mostLinked)
	}
	for _, s := range inner.sources {
		if err := u.addCopy(flag, dir, name, s); err != nil {
			return err
		}
	}
	return nil
}

// launcher returns a script that executes what a link in node_modules/.bin leads to, or nil for another link. A copy of the program would look
// for the files of its package in the wrong folder. It is a script of sh and of node, which is also given such links by name.
func launcher(s Source, program fs.FileInfo) []byte {
	if in := path.Dir(s.Path); path.Base(in) != ".bin" || path.Base(path.Dir(in)) != "node_modules" {
		return nil
	} else if there, err := s.root.Stat(path.Join(in, s.link)); err != nil || !os.SameFile(there, program) {
		return nil // it leads through another link, which will be a folder
	}
	return fmt.Appendf(nil, `#!/bin/sh
':' //; exec "$(dirname "$0")"/%s "$@"
process.exitCode = require('child_process').spawnSync(process.execPath,
  [...process.execArgv, require('path').join(__dirname, %q), ...process.argv.slice(2)], { stdio: 'inherit' }).status ?? 1
`, show.ShellQuote(s.link), s.link)
}

// addPlain adds one file under a name.
func (u *Upload) addPlain(file, name string, info os.FileInfo) error {
	if !info.Mode().IsRegular() {
		return mistake.New("", "%s: is neither a file nor a folder", file)
	}
	if err := readable(file); err != nil {
		return mistake.New("", "%s: %s", file, mistake.Reason(err))
	}
	return u.Add(Source{Dst: name, Path: file, Info: info})
}
