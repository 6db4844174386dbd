package cli

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
)

// source is one thing to put into the workspace.
type source struct {
	dst     string      // where, relative to the workspace
	path    string      // the file here; "" for content
	content []byte      // of a file that is not here
	info    fs.FileInfo // of path, as checked
	link    string      // target of a symbolic link
	root    *os.Root    // of --dir: path is inside it and opened through it
}

func (s source) size() int64 {
	switch {
	case s.path == "":
		return int64(len(s.content))
	case s.info.Mode().IsRegular():
		return s.info.Size()
	}
	return 0
}

// upload is everything that goes into the workspace before the command starts, checked and in order.
type upload struct {
	sources []source
	taken   map[string]source
	roots   []*os.Root
}

// add puts one source at its destination. The same file twice is one file; two files in one place are a mistake.
func (u *upload) add(s source) error {
	if u.taken == nil {
		u.taken = make(map[string]source)
	}
	if other, ok := u.taken[s.dst]; ok {
		same := s.info != nil && other.info != nil && os.SameFile(s.info, other.info)
		if same || s.info != nil && other.info != nil && s.info.IsDir() && other.info.IsDir() {
			return nil
		}
		return mistake("", "%s would be both %s and %s", path.Join(belljar.WorkspaceDir, s.dst), other.origin(), s.origin())
	}
	u.taken[s.dst] = s
	u.sources = append(u.sources, s)
	return nil
}

func (s source) origin() string {
	if s.path == "" {
		return "standard input"
	}
	return s.path
}

// addFile adds a --file flag, SRC[:DST].
func (u *upload) addFile(flag string) error {
	src, dst := flag, ""
	// The colon splits only where the whole is not itself a file's name.
	if i := strings.LastIndexByte(flag, ':'); i > 0 {
		if _, err := os.Stat(flag); err != nil {
			src, dst = flag[:i], flag[i+1:]
			if dst == "" {
				return mistake("--file SRC[:DST]", "--file %s: no destination after the colon", flag)
			}
		}
	}
	info, err := os.Stat(src)
	switch {
	case err != nil:
		return mistake("", "--file %s: %s", src, reason(err))
	case info.IsDir():
		return mistake("send its contents with --dir "+src, "--file %s: is a directory", src)
	case !info.Mode().IsRegular():
		return mistake("", "--file %s: is not a regular file", src)
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
		return mistake("the destination is a path inside "+belljar.WorkspaceDir, "--file %s: destination %s: %v", src, dst, err)
	}
	if err := readable(src); err != nil {
		return mistake("", "--file %s: %s", src, reason(err))
	}
	return u.add(source{dst: clean, path: src, info: info})
}

// addDir adds the contents of a folder. Symbolic links stay links where they lead to a place inside the folder.
func (u *upload) addDir(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return mistake("", "--dir %s: %s", dir, reason(err))
	}
	u.roots = append(u.roots, root)
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		shown := filepath.Join(dir, name)
		if err != nil {
			return mistake("", "--dir %s: %s", shown, reason(err))
		}
		if name == "." {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return mistake("", "--dir %s: %s", shown, reason(err))
		}
		s := source{dst: name, path: name, info: info, root: root}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			s.link, err = root.Readlink(name)
			if err != nil {
				return mistake("", "--dir %s: %s", shown, reason(err))
			}
			if path.IsAbs(s.link) || !filepath.IsLocal(path.Join(path.Dir(name), s.link)) {
				return mistake("remove the link, or put what it names into the folder",
					"--dir %s: is a link to %s, outside the folder", shown, s.link)
			}
		case info.IsDir():
		case info.Mode().IsRegular():
			f, err := root.Open(name)
			if err != nil {
				return mistake("", "--dir %s: %s", shown, reason(err))
			}
			f.Close()
		default:
			return mistake("", "--dir %s: is neither a file, a folder nor a link", shown)
		}
		return u.add(s)
	})
}

// fits checks the upload against the size of the workspace.
func (u *upload) fits(workspaceMB int) error {
	var total int64
	for _, s := range u.sources {
		total += s.size()
	}
	if total <= int64(workspaceMB)<<20 {
		return nil
	}
	need := (total + 1<<20 - 1) >> 20
	return mistake(fmt.Sprintf("--workspace %dm makes room", need+need/4),
		"the files need %d MiB and the workspace has %d MiB", need, workspaceMB)
}

// reader returns the upload as a tar stream, nil if there is nothing to upload. The caller closes it.
func (u *upload) reader() io.ReadCloser {
	if len(u.sources) == 0 {
		return nil
	}
	r, w := io.Pipe()
	go func() {
		w.CloseWithError(u.write(w))
	}()
	return r
}

// close lets go of the folders.
func (u *upload) close() {
	for _, root := range u.roots {
		root.Close()
	}
}

// write writes the upload as a tar stream.
func (u *upload) write(w io.Writer) error {
	tw := tar.NewWriter(w)
	for _, s := range u.sources {
		if err := s.write(tw); err != nil {
			return fmt.Errorf("uploading %s: %w", s.origin(), err)
		}
	}
	return tw.Close()
}

func (s source) write(tw *tar.Writer) error {
	header := &tar.Header{Name: s.dst, Mode: 0o644, Size: s.size(), ModTime: time.Now(), Format: tar.FormatPAX}
	if s.info != nil {
		header.Mode = int64(s.info.Mode().Perm())
		header.ModTime = s.info.ModTime()
	}
	switch {
	case s.link != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, s.link
		return tw.WriteHeader(header)
	case s.info != nil && s.info.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, s.dst+"/"
		return tw.WriteHeader(header)
	}
	header.Typeflag = tar.TypeReg
	if s.path == "" {
		if err := tw.WriteHeader(header); err != nil {
			return err
		}
		_, err := io.Copy(tw, bytes.NewReader(s.content))
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

func (s source) open() (*os.File, error) {
	if s.root != nil {
		return s.root.Open(s.path)
	}
	return os.Open(s.path)
}

func readable(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return f.Close()
}
