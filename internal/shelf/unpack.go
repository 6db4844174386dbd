package shelf

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrTooLarge means that a layer exceeds the maximum of bytes or files.
var ErrTooLarge = errors.New("the packages are too large")

// ErrBad means that a tar stream has an entry that is forbidden in packages.
var ErrBad = errors.New("the packages cannot be kept")

// unpack creates the files, folders and links of a tar stream, which a sandbox has made, and returns their size and number. It creates
// nothing outside dir, gives no permissions besides read and execute, and no link leads out.
func unpack(files io.Reader, dir string, most int64, links bool) (room, entries int64, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, 0, err
	}
	defer root.Close()
	r, buf, total := tar.NewReader(files), make([]byte, 64<<10), int64(0)
	folders, made := map[string]time.Time{}, tally{folders: map[string]bool{}}
	for range maxEntries {
		head, err := r.Next()
		if err == io.EOF {
			_, err = io.Copy(io.Discard, files) // the reader may detect damage only at the end
			for name := range made.folders {
				err = errors.Join(err, root.Chmod(name, 0o755)) // overrides the umask
			}
			for name, at := range folders { // creating entries in them has changed their times
				err = errors.Join(err, root.Chtimes(name, at, at))
			}
			return room, int64(made.entries), err
		}
		if err != nil {
			return 0, 0, fmt.Errorf("%w: %w", ErrBad, err)
		}
		name := path.Clean(head.Name)
		if name == "." {
			continue
		}
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return 0, 0, fmt.Errorf("%w: %.200q leads out of their folder", ErrBad, head.Name)
		}
		if err := made.add(name, head.Typeflag == tar.TypeDir); err != nil {
			return 0, 0, err
		}
		if head.Size < 0 || head.Size > most-total { // the sum could overflow 64 bits
			return 0, 0, ErrTooLarge
		}
		total += head.Size
		if head.Typeflag == tar.TypeDir {
			folders[name] = head.ModTime
		}
		n, err := place(root, name, head, r, buf, links)
		if err != nil {
			return 0, 0, err
		}
		room += n
	}
	return 0, 0, ErrTooLarge
}

// Bounds of the names in one layer. The names of a workspace never exceed them.
const (
	maxPath  = 4096     // bytes
	maxDepth = 256      // elements
	maxNames = 64 << 20 // bytes in total
)

// tally counts the entries of a stream before they are created. One name can imply very many folders.
type tally struct {
	folders map[string]bool
	entries int // including folders that only names imply
	names   int // bytes
}

func (t *tally) add(name string, folder bool) error {
	if len(name) > maxPath || strings.Count(name, "/") >= maxDepth {
		return fmt.Errorf("%w: the name %.200q is too long", ErrBad, name)
	}
	t.names += len(name)
	if !folder {
		t.entries++
		name = path.Dir(name)
	}
	for ; name != "." && !t.folders[name]; name = path.Dir(name) {
		t.folders[name] = true
		t.entries++
	}
	if t.entries > maxEntries || t.names > maxNames {
		return ErrTooLarge
	}
	return nil
}

func place(root *os.Root, name string, head *tar.Header, from io.Reader, buf []byte, links bool) (room int64, err error) {
	if head.Typeflag != tar.TypeDir {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return 0, err
		}
	}
	switch head.Typeflag {
	case tar.TypeDir:
		return 0, root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		target := head.Linkname
		if !links && (path.IsAbs(target) || strings.ContainsRune(target, '\\') || !filepath.IsLocal(filepath.FromSlash(path.Join(path.Dir(name), target)))) {
			return 0, fmt.Errorf("%w: the link %.200q leads out of their folder", ErrBad, head.Name)
		}
		if err := root.Symlink(target, name); err != nil {
			return 0, err
		}
		return 0, setLinkTime(root, name, head.ModTime)
	case tar.TypeReg:
	case tar.TypeLink:
		if !links || !filepath.IsLocal(filepath.FromSlash(head.Linkname)) {
			return 0, fmt.Errorf("%w: %.200q is a hard link", ErrBad, head.Name)
		}
		return 0, root.Link(head.Linkname, name)
	default:
		return 0, fmt.Errorf("%w: %.200q is neither a file, a folder nor a link", ErrBad, head.Name)
	}
	mode := os.FileMode(0o644)
	if head.Mode&0o111 != 0 {
		mode = 0o755
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return 0, err
	}
	room, err = fill(f, from, head.Size, buf)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return 0, err
	}
	return room, root.Chtimes(name, head.ModTime, head.ModTime) // Python compares it with the time in its compiled files
}

// fill writes a file of size bytes, with holes for blocks of zeros, and returns how many bytes it has written.
func fill(f *os.File, from io.Reader, size int64, buf []byte) (written int64, err error) {
	for at := int64(0); at < size; {
		n, err := io.ReadFull(from, buf[:min(int64(len(buf)), size-at)])
		if err != nil {
			return 0, err
		}
		if slices.ContainsFunc(buf[:n], func(b byte) bool { return b != 0 }) {
			if _, err := f.WriteAt(buf[:n], at); err != nil {
				return 0, err
			}
			written += int64(n)
		}
		at += int64(n)
	}
	return written, f.Truncate(size)
}
