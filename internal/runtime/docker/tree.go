package docker

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// An unpacked image is untrusted, and an engine opens its files before any of Belljar's code runs. So the root that the
// engine gets has a folder at every mount point, whatever the image has there, and contains no pipes.
const (
	placeEtc    = "etc"
	placeVarTmp = "var/tmp"
)

// mountPoints are the folders of every root that are empty in the image because something is mounted there.
func mountPoints() []string {
	return []string{agentDir[1:], "dev", "proc", "run", "sys", "tmp", "workspace"}
}

// engineFiles are the files that an engine mounts its own files over.
func engineFiles() []string {
	return []string{"etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/mtab"}
}

// treeWriter writes an unpacked image as a tar: folders, files, and links of both kinds. All of them belong to root,
// without set-uid bits.
type treeWriter struct {
	ctx  context.Context
	root *os.Root
	tar  *tar.Writer
	seen map[fileID]string // files with several names; the value is the first name
	etc  bool              // the image has a folder /etc
}

// writeTree writes the image in dir.
func writeTree(ctx context.Context, w io.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	t := &treeWriter{ctx: ctx, root: root, tar: tar.NewWriter(w), seen: map[fileID]string{}}
	if err := t.folder("."); err != nil {
		return fmt.Errorf("read the unpacked image: %w", err)
	}
	for _, name := range mountPoints() {
		if err := t.empty(name); err != nil {
			return err
		}
	}
	if !t.etc {
		if err := t.empty(placeEtc); err != nil {
			return err
		}
	}
	return t.tar.Close()
}

// folder writes the contents of a folder.
func (t *treeWriter) folder(dir string) error {
	open, err := t.root.Open(dir)
	if err != nil {
		return err
	}
	entries, err := open.ReadDir(-1)
	open.Close()
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, entry := range entries {
		if t.ctx.Err() != nil {
			return context.Cause(t.ctx)
		}
		name := path.Join(dir, entry.Name())
		if slices.Contains(mountPoints(), name) || slices.Contains(engineFiles(), name) {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if name == placeEtc && !info.IsDir() || name == placeVarTmp {
			continue
		}
		if err := t.entry(name, info); err != nil {
			return err
		}
	}
	if dir == "var" || dir == "." && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "var" }) {
		return t.varTmp(dir)
	}
	return nil
}

// varTmp makes /var/tmp a link to /tmp, because the image's own would be read-only.
func (t *treeWriter) varTmp(dir string) error {
	if dir == "." {
		if err := t.empty("var"); err != nil {
			return err
		}
	}
	return t.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: placeVarTmp, Linkname: "../tmp", Mode: 0o777, ModTime: time.Unix(0, 0)})
}

func (t *treeWriter) empty(dir string) error {
	return t.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: time.Unix(0, 0)})
}

// entry writes one entry of the image, and a folder with its contents. It skips pipes, sockets and devices.
func (t *treeWriter) entry(name string, info fs.FileInfo) (err error) {
	h := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatPAX}
	switch mode := info.Mode(); {
	case mode.IsDir():
		t.etc = t.etc || name == placeEtc
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
		if mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		if err := t.tar.WriteHeader(h); err != nil {
			return err
		}
		return t.folder(name)
	case mode&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = t.root.Readlink(name); err != nil {
			return err
		}
		return t.tar.WriteHeader(h)
	case !mode.IsRegular():
		return nil
	}
	if id, ok := identify(info); ok {
		if first, again := t.seen[id]; again {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			return t.tar.WriteHeader(h)
		}
		t.seen[id] = name
	}
	return t.file(name, h, info.Size())
}

func (t *treeWriter) file(name string, h *tar.Header, size int64) error {
	h.Typeflag, h.Size = tar.TypeReg, size
	if err := t.tar.WriteHeader(h); err != nil {
		return err
	}
	file, err := t.root.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(t.tar, file)
	return err
}
