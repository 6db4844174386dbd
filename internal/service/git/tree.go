package git

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/room"
	"github.com/belljar/belljar/internal/service/box"
)

// Tree is the files of a repository. The caller must close it.
type Tree struct {
	Commit  string
	Files   int
	Bytes   int64
	Ignored int // number of ignored files

	leaving int // number of symbolic links that lead out of the tree
	spool   *os.File
	name    string // of the spool file, "" after it was removed
}

// Unpack puts the files into a box's workspace.
func (t *Tree) Unpack(ctx context.Context, b *box.Box) error {
	if t == nil {
		return nil
	}
	if _, err := t.spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return b.Upload(ctx, t.spool, nil)
}

// Close removes the files.
func (t *Tree) Close() {
	if t == nil || t.spool == nil {
		return
	}
	_ = t.spool.Close()
	if t.name != "" {
		_ = os.Remove(t.name)
	}
	t.spool = nil
}

// Warning begins every warning of a tree.
const Warning = "git: "

// Warnings lists the differences between the tree and the repository.
func (t *Tree) Warnings() (list []string) {
	if t == nil {
		return nil
	}
	if t.Ignored > 0 {
		list = append(list, fmt.Sprintf(Warning+"%s left out, as the repository's %s says; keep_ignored (--keep-ignored) keeps them",
			several(t.Ignored, "1 file was", "%d files were"), ignoreFile))
	}
	if t.leaving > 0 {
		list = append(list, Warning+several(t.leaving, "1 symbolic link leads out of the repository, and is a file with its target",
			"%d symbolic links lead out of the repository, and are files with their targets"))
	}
	return list
}

// several returns one for n = 1, and else more, which has a verb for the number.
func several(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf(more, n)
}

// sorter filters a tree's tar stream: it removes ignored files, and restores the symbolic links that git has checked out as files.
type sorter struct {
	tree   *Tree
	links  map[string]bool // by path in the repository
	below  string          // the folder of the repository to pack
	ignore *ignore         // nil ignores nothing
	git    bool            // .git is included
	bytes  int64           // maximum of the files
	files  int
	room   func() error // of the server's disk; may be nil

	entries int // so far, with folders
	names   int // total bytes of names
}

// maxNames bounds the bytes of all names in a tree.
const maxNames = 64 << 20

func (s *sorter) spool(ctx context.Context, r io.Reader, dir string) error {
	f, err := os.CreateTemp(dir, "belljar-git-")
	if err != nil {
		return err
	}
	s.tree.spool, s.tree.name = f, f.Name()
	if os.Remove(f.Name()) == nil { // only Unix can remove an open file
		s.tree.name = ""
	}
	r = room.Reader(r, s.room)
	buffer := bufio.NewWriterSize(f, wire.MaxData)
	out, in := tar.NewWriter(buffer), tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = s.entry(h, in, out)
		}
		if err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, r); err != nil { // an error of the sandbox arrives at the end
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return buffer.Flush()
}

// entry copies one entry, unless it is ignored. It takes only the header fields that a workspace supports: the others have no bound, and
// could have a mebibyte each.
func (s *sorter) entry(h *tar.Header, r io.Reader, w *tar.Writer) error {
	h = &tar.Header{Typeflag: h.Typeflag, Name: h.Name, Linkname: h.Linkname, Size: h.Size, Mode: h.Mode, ModTime: h.ModTime}
	name := strings.TrimSuffix(h.Name, "/")
	s.entries++
	s.names += len(h.Name) + len(h.Linkname)
	if s.entries > 2*s.files || s.names > maxNames {
		return tooLarge(s.bytes, s.files)
	}
	own := s.git && (name == ".git" || strings.HasPrefix(name, ".git/"))
	if !own {
		out, err := s.ignore.ignored(name)
		if err != nil {
			return badIgnore(err)
		}
		if out {
			if h.Typeflag != tar.TypeDir {
				s.tree.Ignored++
			}
			return nil
		}
	}
	if h.Size > s.bytes-s.tree.Bytes { // the sum could overflow 64 bits
		return tooLarge(s.bytes, s.files)
	}
	s.tree.Bytes += h.Size
	if h.Typeflag != tar.TypeDir {
		if s.tree.Files++; s.tree.Files > s.files {
			return tooLarge(s.bytes, s.files)
		}
	}
	if h.Typeflag == tar.TypeReg && !own && s.links[path.Join(s.below, name)] && h.Size <= mostTarget {
		target, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if stays(name, string(target)) {
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: h.Name, Linkname: string(target), Mode: 0o777, ModTime: h.ModTime})
		}
		s.tree.leaving++
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err = w.Write(target)
		return err
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(w, r)
	return err
}

// mostTarget is the longest target of a symbolic link, in bytes.
const mostTarget = 4095

// stays reports whether a symbolic link's target, as written, is inside its tree.
func stays(name, target string) bool {
	if target == "" || path.IsAbs(target) || strings.ContainsRune(target, 0) {
		return false
	}
	to := path.Join(path.Dir(name), target)
	return to != ".." && !strings.HasPrefix(to, "../")
}
