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
	"slices"
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
	var all []leaving
	for _, source := range sources {
		from, remote := placeOf(source)
		if !remote {
			return result, mistake.New("name one side as SESSION:PATH", "neither %s nor %s is in a session", source, to)
		}
		id, err := c.Session(ctx, from.session)
		if err != nil {
			return result, err
		}
		clean, err := belljar.CleanPath(orRoot(from.path))
		if err != nil {
			return result, mistake.New("name a path in "+belljar.WorkspaceDir, "%s: %v", source, err)
		}
		one := leaving{source: source, session: id, clean: clean, place: to}
		if into {
			one.place = filepath.Join(to, nameOf(clean))
		}
		at := slices.IndexFunc(all, func(other leaving) bool { return other.place == one.place })
		switch {
		case at < 0:
			all = append(all, one)
		case all[at].session != id || all[at].clean != clean:
			return result, mistake.New("", "%s would be both %s and %s", one.place, all[at].source, source)
		}
	}
	for _, one := range all {
		result.SessionID = one.session
		if err := c.fetch(ctx, one, &result); err != nil {
			return result, err
		}
	}
	return result, nil
}

// leaving is a file or a folder of a workspace, and its local place.
type leaving struct{ source, session, clean, place string }

// fetch copies one source.
func (c *Copy) fetch(ctx context.Context, one leaving, result *Copied) error {
	entry, err := c.Service.Files().Stat(ctx, one.session, one.clean)
	if err != nil {
		return mistake.In(one.source, err)
	}
	f := fetch{c: c, session: one.session, result: result}
	switch entry.Type {
	case "dir":
		return f.folder(ctx, one.clean, one.place)
	case "file":
		return f.file(ctx, entry, one.clean, one.place)
	}
	hint := ""
	if entry.Type == "symlink" {
		hint = "copy what it leads to: " + entry.Target
	}
	return mistake.New(hint, "%s: is neither a file nor a folder", one.source)
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
