package transfer

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
)

// out copies out of workspaces. Their contents are untrusted: out refuses names that lead outside the destination, and skips
// symbolic links.
func (c *Copy) out(ctx context.Context, sources []string, to string) (Copied, error) {
	info, err := os.Stat(to)
	into := len(sources) > 1 || strings.HasSuffix(to, "/") || err == nil && info.IsDir()
	result := Copied{To: to}
	if err == nil && !into && !info.Mode().IsRegular() { // as /dev/null, which would be replaced
		return result, mistake.New("name a file or a folder", "%s: is neither a file nor a folder", to)
	}
	for _, source := range sources {
		from, remote := placeOf(source)
		if !remote {
			return result, mistake.New("name one side as SESSION:PATH", "neither %s nor %s is in a session", source, to)
		}
		id, err := c.Session(ctx, from.session)
		if err != nil {
			return result, err
		}
		result.SessionID = id
		clean, err := belljar.CleanPath(orRoot(from.path))
		if err != nil {
			return result, mistake.New("name a path in "+belljar.WorkspaceDir, "%s: %v", source, err)
		}
		entry, err := c.Service.Files().Stat(ctx, id, clean)
		if err != nil {
			return result, mistake.In(source, err)
		}
		place := to
		if into {
			place = filepath.Join(to, nameOf(clean))
		}
		f := fetch{c: c, session: id, result: &result}
		switch entry.Type {
		case "dir":
			err = f.folder(ctx, clean, place)
		case "file":
			err = f.file(ctx, entry, clean, place)
		default:
			hint := ""
			if entry.Type == "symlink" {
				hint = "copy what it leads to: " + entry.Target
			}
			err = mistake.New(hint, "%s: is neither a file nor a folder", source)
		}
		if err != nil {
			return result, err
		}
	}
	return result, nil
}

func orRoot(name string) string {
	if name == "" {
		return "."
	}
	return name
}

// nameOf returns the local name for a path in a workspace.
func nameOf(clean string) string {
	if clean == "." {
		return filepath.Base(belljar.WorkspaceDir)
	}
	return path.Base(clean)
}

// fetch copies one entry out of a workspace.
type fetch struct {
	c       *Copy
	session string
	result  *Copied
}

// file copies a file to a local path.
func (f *fetch) file(ctx context.Context, entry belljar.FileEntry, clean, place string) error {
	out, err := f.open(filepath.Dir(place))
	if err != nil {
		return err
	}
	defer out.Close()
	_, content, err := f.c.Service.Files().Read(ctx, f.session, clean, 0, 0)
	if err != nil {
		return err
	}
	defer content.Close()
	shown := show.NewProgress(f.c.Notice, "copying "+clean, entry.Size)
	defer shown.Stop()
	mode, _ := strconv.ParseUint(entry.Mode, 8, 32) // an invalid mode counts as the default
	return f.save(out, filepath.Base(place), uint32(mode), time.Unix(entry.MtimeUnix, 0), shown.Of(content))
}

// folder copies the contents of a folder to a local path.
func (f *fetch) folder(ctx context.Context, clean, place string) error {
	out, err := f.open(place)
	if err != nil {
		return err
	}
	defer out.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := f.c.Service.Files().Archive(ctx, f.session, clean, belljar.UploadTar, w)
		w.CloseWithError(err)
		packed <- err
	}()
	shown := show.NewProgress(f.c.Notice, "copying "+clean, 0)
	err = f.unpack(tar.NewReader(shown.Of(r)), out)
	shown.Stop()
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	cancel()
	r.CloseWithError(err)
	if failed := <-packed; err == nil {
		err = failed
	}
	return err
}

// unpack extracts an archive into a local folder.
func (f *fetch) unpack(archive *tar.Reader, out *OutDir) error {
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(header.Name)
		switch {
		case name == ".":
		case !filepath.IsLocal(name):
			return fmt.Errorf("%q has no place in %s", header.Name, out.Name)
		case header.Typeflag == tar.TypeDir:
			err = out.folder(name)
		case header.Typeflag == tar.TypeReg:
			err = f.save(out, name, uint32(header.Mode), header.ModTime, archive)
		default:
			f.c.Notice.Note("%s is a link or a device and was left out", name)
		}
		if err != nil {
			return err
		}
	}
}

// save writes one file, with its time.
func (f *fetch) save(out *OutDir, name string, mode uint32, modified time.Time, content io.Reader) error {
	var size counter
	if err := out.Save(belljar.Artifact{Path: name, Mode: mode}, io.TeeReader(content, &size)); err != nil {
		return err
	}
	_ = out.root.Chtimes(name, modified, modified) // not every file system can have every time
	f.result.Files++
	f.result.Bytes += int64(size)
	return nil
}

// counter counts the bytes written to it.
type counter int64

func (n *counter) Write(b []byte) (int, error) {
	*n += counter(len(b))
	return len(b), nil
}

// open creates a local folder.
func (f *fetch) open(dir string) (*OutDir, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, mistake.New("", "%s: %s", dir, mistake.Reason(err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, mistake.New("", "%s: %s", dir, mistake.Reason(err))
	}
	return &OutDir{Name: dir, root: root}, nil
}
