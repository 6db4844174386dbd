package shelf

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// ErrTooLarge means that a layer has more bytes or files than one may have.
var ErrTooLarge = errors.New("the packages are too large")

// ErrBad means that a tar stream has what no package may bring.
var ErrBad = errors.New("the packages cannot be kept")

// unpack makes files, folders and links of a tar stream, which a sandbox has made, and returns their size. Nothing is made outside dir,
// nothing has more rights than to be read and executed, and no link leads out.
func unpack(files io.Reader, dir string, most int64, links bool) (total int64, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	r := tar.NewReader(files)
	for range maxEntries {
		head, err := r.Next()
		if err == io.EOF {
			_, err = io.Copy(io.Discard, files) // what reads it may find at the end that it is damaged
			return total, err
		}
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrBad, err)
		}
		name := path.Clean(head.Name)
		if name == "." {
			continue
		}
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return 0, fmt.Errorf("%w: %.200q leads out of their folder", ErrBad, head.Name)
		}
		if total += head.Size; total > most || head.Size < 0 {
			return 0, ErrTooLarge
		}
		if err := place(root, name, head, r, links); err != nil {
			return 0, err
		}
	}
	return 0, ErrTooLarge
}

func place(root *os.Root, name string, head *tar.Header, from io.Reader, links bool) error {
	if head.Typeflag != tar.TypeDir {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
	}
	switch head.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		target := head.Linkname
		if links {
			return root.Symlink(target, name)
		}
		if path.IsAbs(target) || strings.ContainsRune(target, '\\') || !filepath.IsLocal(filepath.FromSlash(path.Join(path.Dir(name), target))) {
			return fmt.Errorf("%w: the link %.200q leads out of their folder", ErrBad, head.Name)
		}
		return root.Symlink(target, name)
	case tar.TypeReg:
	case tar.TypeLink:
		if !links || !filepath.IsLocal(filepath.FromSlash(head.Linkname)) {
			return fmt.Errorf("%w: %.200q is a hard link", ErrBad, head.Name)
		}
		return root.Link(head.Linkname, name)
	default:
		return fmt.Errorf("%w: %.200q is neither a file, a folder nor a link", ErrBad, head.Name)
	}
	mode := os.FileMode(0o644)
	if head.Mode&0o111 != 0 {
		mode = 0o755
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return root.Chtimes(name, head.ModTime, head.ModTime) // Python compares it with what it has compiled
}
