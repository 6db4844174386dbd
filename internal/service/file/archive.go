package file

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/belljar/belljar"
)

// Archive writes a directory or a file to w. It rebuilds the archive from the agent's stream, so that no workspace can add forbidden entries.
func (v view) Archive(ctx context.Context, id, path string, format belljar.UploadFormat, w io.Writer) error {
	clean, err := folderPath("path", path)
	if err != nil {
		return err
	}
	switch format {
	case belljar.UploadTar, belljar.UploadTarGz, belljar.UploadZip:
	default:
		return &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("format %.40q is not known", format),
			Details: map[string]any{"field": "format", "supported": []belljar.UploadFormat{belljar.UploadTar, belljar.UploadTarGz, belljar.UploadZip}},
		}
	}
	u, err := v.stream(ctx, id)
	if err != nil {
		return err
	}
	defer u.end()
	turn, err := v.turn(u.ctx, v.archives, archivesOfOne, archiveWait, "archives")
	if err != nil {
		return u.fault(clean, err)
	}
	defer turn.Leave()
	body, err := u.Agent.OpenTar(u.ctx, u.File(clean))
	if err != nil {
		return u.fault(clean, err)
	}
	defer body.Close()
	out := &output{w: w, u: u}
	p := &repacker{root: clean, left: 2 * int64(u.Limits().WorkspaceMB) << 20, seen: map[string]string{}, used: map[string]bool{}, next: map[string]int{}}
	buffer := bufio.NewWriterSize(out, 64<<10)
	p.out = newFormat(format, buffer)
	if err = p.repack(body); err == nil {
		err = buffer.Flush()
	}
	switch {
	case out.err != nil:
		return &belljar.Error{Code: belljar.CodeCanceled, Message: "the client stopped reading the archive", Err: out.err}
	case err != nil:
		return u.packFault(clean, err)
	}
	return nil
}

// output is the destination of an archive.
type output struct {
	w    io.Writer
	u    *use
	err  error
	last time.Time
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err != nil {
		o.err = err
	}
	o.last = o.u.flows(o.last)
	return n, err
}

// Bounds of an archive. The agent enforces the same, but a hostile program may have replaced it.
const (
	maxEntries = 200_000
	maxNames   = 64 << 20 // bytes of all names
)

// Bounds of concurrent archives, since each holds all of its names.
const (
	archivesOfOne   = 4 // of one user
	archivesWaiting = 64
	archiveWait     = 20 * time.Second
)

// repacker rebuilds an archive.
type repacker struct {
	out   archiveFormat
	root  string            // the folder that is packed, relative to the workspace
	left  int64             // bytes that files may still have
	seen  map[string]string // the name in the archive of each folder; "" for other entries
	used  map[string]bool   // names already in the archive
	next  map[string]int    // the next number to try for a name that is taken
	names int               // total bytes of the names
}

// repack copies the entries of a tar stream.
func (p *repacker) repack(body io.Reader) error {
	in := tar.NewReader(body)
	for {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := p.entry(head, in); err != nil {
			return err
		}
	}
	if err := drain(body); err != nil {
		return err
	}
	return p.out.close()
}

func (p *repacker) entry(head *tar.Header, r io.Reader) error {
	name, err := p.name(head)
	if err != nil {
		return err
	}
	e := packed{name: name, mode: head.Mode & 0o777, time: clampTime(head.ModTime)}
	switch head.Typeflag {
	case tar.TypeDir:
		return p.out.dir(e)
	case tar.TypeSymlink:
		if target, ok := p.target(path.Clean(head.Name), head.Linkname); ok {
			return p.out.link(e, target)
		}
		return nil
	}
	if p.left -= head.Size; p.left < 0 {
		return &belljar.Error{
			Code: belljar.CodeTooLarge, Message: "the files hold more than twice what the workspace may: some are sparse, or there under several names",
			Details: map[string]any{"path": cutText(head.Name, 200), "rule": "workspace_mb"}, Hint: "take folders below it, or files one by one",
		}
	}
	return p.out.file(e, head.Size, r)
}

// name checks the name of an entry and returns its name in the archive.
func (p *repacker) name(head *tar.Header) (string, error) {
	name := strings.TrimSuffix(head.Name, "/")
	isDir := head.Typeflag == tar.TypeDir
	bad := name == "" || name == "." || name == ".." || path.Clean(name) != name || path.IsAbs(name) || strings.HasPrefix(name, "../") || strings.ContainsRune(name, 0)
	bad = bad || !isDir && head.Typeflag != tar.TypeReg && head.Typeflag != tar.TypeSymlink
	if _, again := p.seen[name]; bad || again || isDir != strings.HasSuffix(head.Name, "/") {
		return "", fmt.Errorf("the agent packs %.100q of type %q, which no workspace has", head.Name, head.Typeflag)
	}
	if p.names += len(name); len(p.seen) == maxEntries || p.names > maxNames {
		return "", errors.New("the agent packs more than it announced")
	}
	called := ""
	if dir := path.Dir(name); dir != "." {
		if called = p.seen[dir]; called == "" {
			return "", fmt.Errorf("the agent packs %.100q without the folder that it is in", head.Name)
		}
	}
	called = p.unused(path.Join(called, p.out.name(path.Base(name))))
	p.used[called] = true
	if p.seen[name] = ""; isDir {
		p.seen[name] = called
	}
	return called, nil
}

// unused makes a name unique in the archive. It remembers the last number of each name: an archive may have very many files whose names coincide in its format.
func (p *repacker) unused(name string) string {
	if !p.used[name] {
		return name
	}
	for n := max(p.next[name], 2); ; n++ {
		if numbered := fmt.Sprintf("%s~%d", name, n); !p.used[numbered] {
			p.next[name] = n + 1
			return numbered
		}
	}
}

// target returns a link's target if that is within the packed folder. It may begin with .. but not contain it later: after a name, which
// may itself be a link, .. could lead anywhere.
func (p *repacker) target(name, target string) (string, bool) {
	if len(target) > 4096 || strings.ContainsRune(target, 0) {
		return "", false
	}
	if path.IsAbs(target) {
		inside, err := belljar.CleanPath(target)
		if err != nil {
			return "", false
		}
		if p.root != "." {
			if inside == p.root {
				inside = "."
			} else if rest, ok := strings.CutPrefix(inside, p.root+"/"); ok {
				inside = rest
			} else {
				return "", false
			}
		}
		return strings.Repeat("../", strings.Count(name, "/")) + inside, true
	}
	up, down := 0, false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if up++; down {
				return "", false
			}
		default:
			down = true
		}
	}
	return target, target != "" && up <= strings.Count(name, "/")
}

// clampTime limits a time to the range of every archive format.
func clampTime(t time.Time) time.Time {
	first, last := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2107, 12, 31, 0, 0, 0, 0, time.UTC)
	switch {
	case t.Before(first):
		return first
	case t.After(last):
		return last
	}
	return t.Truncate(time.Second)
}
