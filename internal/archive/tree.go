package archive

import (
	"archive/tar"
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/belljar/belljar"
)

// Tree describes the contents of a whole workspace's tar stream.
type Tree struct {
	Bytes int64 // of the files, each counted once
	Files int   // files and symbolic links, including hard links
}

// Limits of an entry of a tree.
const (
	maxTreePath   = 4096
	maxTreeDepth  = 256
	maxAttributes = 64 << 10 // bytes of the extended attributes of one file
)

// temporary is the workspace's folder for temporary files, which trees omit.
const temporary = ".tmp"

// attribute begins the names of the extended attributes that a tree may have.
const attribute = "SCHILY.xattr.user."

// CopyTree copies a tar stream of a whole workspace, from an agent or a client, and returns its description. The same entries result in
// the same bytes. The copy is safe to unpack: names are relative without "..", unique and below a folder, modes have only permission
// bits, and there are no owners. Unlike an upload, a tree may have symbolic links to any target, hard links to earlier files, user
// attributes, and names of any bytes. Devices, FIFOs and sockets are refused, as are streams above the limits; Depth and Ratio are not
// used. The error for an unreadable stream is [belljar.CodeInvalidRequest], unless its reader's error is a [belljar.Error].
func CopyTree(ctx context.Context, w io.Writer, r io.Reader, l Limits) (Tree, error) {
	c := &treeCopy{limits: l.orDefault(), kinds: map[string]byte{".": implied}}
	tail := &tailReader{r: r}
	err := c.copy(ctx, w, tail)
	var own *belljar.Error
	switch {
	case err == nil:
		return c.tree, nil
	case ctx.Err() != nil:
		return c.tree, context.Cause(ctx)
	case errors.As(err, &own), errors.Is(err, errTreeWrite):
		return c.tree, err
	}
	return c.tree, malformed(belljar.UploadTar, "", err)
}

// errTreeWrite marks an error of the copy's destination.
var errTreeWrite = errors.New("the copy of the tree cannot be written")

// implied is the kind of a folder without an entry so far.
const implied = 0

type treeCopy struct {
	limits Limits
	tree   Tree
	kinds  map[string]byte // kinds of the entries so far, by path
	names  int             // bytes of the paths
}

// treeNames limits the bytes of all paths of a tree, which are held in memory.
const treeNames = 64 << 20

func (c *treeCopy) copy(ctx context.Context, w io.Writer, tail *tailReader) error {
	buffer := bufio.NewWriterSize(w, 64<<10)
	in, out, chunk := tar.NewReader(tail), tar.NewWriter(buffer), make([]byte, 64<<10)
	for {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if head.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		clean, err := c.entry(head)
		if err != nil {
			return err
		}
		if clean == nil {
			continue
		}
		if err := out.WriteHeader(clean); err != nil {
			return fmt.Errorf("%w: %w", errTreeWrite, err)
		}
		if clean.Typeflag != tar.TypeReg {
			continue
		}
		if _, err := io.CopyBuffer(&treeWriter{out}, in, chunk); err != nil {
			return err
		}
	}
	if err := tail.finish(); err != nil {
		return err
	}
	if err := errors.Join(out.Close(), buffer.Flush()); err != nil {
		return fmt.Errorf("%w: %w", errTreeWrite, err)
	}
	return nil
}

// treeWriter marks its errors.
type treeWriter struct{ w io.Writer }

func (t *treeWriter) Write(b []byte) (int, error) {
	n, err := t.w.Write(b)
	if err != nil {
		err = fmt.Errorf("%w: %w", errTreeWrite, err)
	}
	return n, err
}

// entry checks an entry and returns its header in the copy; nil for the workspace folder itself, and for temporary files.
func (c *treeCopy) entry(head *tar.Header) (*tar.Header, error) {
	name, err := treeName(head.Name, head.Typeflag == tar.TypeDir)
	if err != nil || name == "." || name == temporary || strings.HasPrefix(name, temporary+"/") {
		return nil, err
	}
	out := &tar.Header{Typeflag: head.Typeflag, Name: name, Mode: head.Mode & 0o777, Format: tar.FormatPAX}
	out.ModTime = time.Unix(0, 0).UTC()
	if t := head.ModTime; t.After(out.ModTime) && t.Year() <= 2200 {
		out.ModTime = t.Round(0).UTC()
	}
	switch head.Typeflag {
	case tar.TypeDir:
		out.Name += "/"
	case tar.TypeReg:
		if head.Size < 0 || head.Size > c.limits.Bytes-c.tree.Bytes { // the sum may not fit into 64 bits
			return nil, above("bytes", name, c.limits.Bytes, "the files hold more than %d MiB together", c.limits.Bytes>>20)
		}
		out.Size = head.Size
		c.tree.Bytes += head.Size
	case tar.TypeSymlink:
		if head.Linkname == "" || len(head.Linkname) >= maxTreePath || strings.ContainsRune(head.Linkname, 0) {
			return nil, refuse("symlink", name, "%s is a symbolic link without a proper target", shown(name))
		}
		out.Linkname = head.Linkname
	case tar.TypeLink:
		target, err := treeName(head.Linkname, false)
		if err != nil || c.kinds[target] != tar.TypeReg {
			return nil, refuse("hard_link", name, "%s is a further name of something that is no file before it", shown(name))
		}
		out.Linkname = target
	default:
		return nil, checkTreeType(head.Typeflag, name)
	}
	if head.Typeflag != tar.TypeDir {
		c.tree.Files++
	}
	if head.Typeflag == tar.TypeReg || head.Typeflag == tar.TypeDir {
		if out.PAXRecords, err = attributes(head, name); err != nil {
			return nil, err
		}
	}
	return out, c.add(name, head.Typeflag)
}

// checkTreeType refuses types that trees do not have.
func checkTreeType(kind byte, name string) error {
	err := checkTarType(kind, name)
	if e, is := errors.AsType[*belljar.Error](err); is && e.Hint != "" { // the hint is for uploads, which have no links
		e.Hint = "leave it out of the archive: a snapshot has files, folders and links only"
	}
	return cmp.Or(err, error(refuse("type", name, "%s is of the unknown type %q", shown(name), kind)))
}

// add records an entry and the folders above it.
func (c *treeCopy) add(name string, kind byte) error {
	for up := path.Dir(name); ; up = path.Dir(up) {
		old, known := c.kinds[up]
		if known && old != implied && old != tar.TypeDir {
			return refuse("clash", name, "%s lies below %s, which is no folder", shown(name), shown(up))
		}
		if known {
			break
		}
		if err := c.note(up, implied); err != nil {
			return err
		}
	}
	if old, known := c.kinds[name]; known && (old != implied || kind != tar.TypeDir) {
		return refuse("duplicate", name, "%s comes twice", shown(name))
	}
	return c.note(name, kind)
}

func (c *treeCopy) note(name string, kind byte) error {
	c.kinds[name] = kind
	if c.names += len(name); len(c.kinds) > c.limits.Files+1 || c.names > treeNames {
		return above("files", name, int64(c.limits.Files), "more than %d files and folders", c.limits.Files)
	}
	return nil
}

// treeName checks the name of an entry.
func treeName(name string, dir bool) (string, error) {
	if dir {
		name = strings.TrimSuffix(name, "/")
	}
	name = strings.TrimPrefix(name, "./")
	if dir && (name == "" || name == ".") {
		return ".", nil
	}
	switch {
	case name == "" || strings.ContainsRune(name, 0):
		return "", refuse("name", name, "%q is no name", shown(name))
	case len(name) > maxTreePath || strings.Count(name, "/") >= maxTreeDepth:
		return "", refuse("name", name, "the path %s is longer than %d bytes, or more than %d folders deep", shown(name), maxTreePath, maxTreeDepth)
	case path.IsAbs(name):
		return "", refuse("absolute", name, "%s is an absolute path", shown(name))
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "..":
			return "", refuse("traversal", name, "%s goes up", shown(name))
		case part == "" || part == "." || len(part) > maxPart:
			return "", refuse("name", name, "the name %s has a part that is empty or longer than %d bytes", shown(name), maxPart)
		}
	}
	return name, nil
}

// attributes returns the user attributes of an entry.
func attributes(head *tar.Header, name string) (map[string]string, error) {
	var kept map[string]string
	size := 0
	for key, value := range head.PAXRecords {
		if !strings.HasPrefix(key, attribute) {
			continue
		}
		if size += len(key) + len(value); size > maxAttributes {
			return nil, above("attributes", name, maxAttributes, "%s has more than %d bytes of extended attributes", shown(name), maxAttributes)
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = value
	}
	return kept, nil
}
