package service

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

// Archive writes a directory, or a file, to w. The archive is made anew of what the agent sends, so that nothing in a
// workspace can put into it what an archive must not have.
func (v files) Archive(ctx context.Context, id, path string, format belljar.UploadFormat, w io.Writer) error {
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
	body, err := u.Agent.OpenTar(u.ctx, u.File(clean))
	if err != nil {
		return u.fault(clean, err)
	}
	defer body.Close()
	out := &outward{w: w, x: u.x}
	p := &repacker{root: clean, left: 2 * int64(u.x.plan.limits.WorkspaceMB) << 20, seen: map[string]string{}, used: map[string]bool{}}
	buffer := bufio.NewWriterSize(out, 64<<10)
	p.out = newPacking(format, buffer)
	if err = p.repack(body); err == nil {
		err = buffer.Flush()
	}
	switch {
	case out.err != nil:
		return &belljar.Error{Code: belljar.CodeCanceled, Message: "nobody takes the archive any more", Err: out.err}
	case err != nil:
		return u.fault(clean, err)
	}
	return nil
}

// outward is where an archive goes.
type outward struct {
	w    io.Writer
	x    *session
	err  error
	stir time.Time
}

func (o *outward) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err != nil {
		o.err = err
	}
	o.stir = o.x.flows(o.stir)
	return n, err
}

// Bounds of an archive. The agent has the same, but may be somebody else by now.
const (
	archiveEntries = 200_000
	archiveNames   = 64 << 20 // bytes of all names
)

// repacker makes an archive of another.
type repacker struct {
	out   packing
	root  string            // the folder that is packed, relative to the workspace
	left  int64             // bytes that files may still hold
	seen  map[string]string // folders by name, with what they are called in the archive; "" for what is no folder
	used  map[string]bool   // names in the archive
	names int               // bytes of them
}

// repack packs what comes.
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
	e := packed{name: name, mode: head.Mode & 0o777, time: archiveTime(head.ModTime)}
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

// name checks an entry's name and returns what it is called in the archive.
func (p *repacker) name(head *tar.Header) (string, error) {
	name := strings.TrimSuffix(head.Name, "/")
	isDir := head.Typeflag == tar.TypeDir
	bad := name == "" || name == "." || name == ".." || path.Clean(name) != name || path.IsAbs(name) || strings.HasPrefix(name, "../") || strings.ContainsRune(name, 0)
	bad = bad || !isDir && head.Typeflag != tar.TypeReg && head.Typeflag != tar.TypeSymlink
	if _, again := p.seen[name]; bad || again || isDir != strings.HasSuffix(head.Name, "/") {
		return "", fmt.Errorf("the agent packs %.100q of type %q, which no workspace has", head.Name, head.Typeflag)
	}
	if p.names += len(name); len(p.seen) == archiveEntries || p.names > archiveNames {
		return "", errors.New("the agent packs more than it says that it does")
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

// unused is a name that no entry has yet.
func (p *repacker) unused(name string) string {
	for n, base := 2, name; p.used[name]; n++ {
		name = fmt.Sprintf("%s~%d", base, n)
	}
	return name
}

// target is where a link may lead: down or up within the packed folder. Up only at its beginning: behind a name, which
// may be a link itself, .. could lead anywhere.
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

// archiveTime is a time that every archive can hold.
func archiveTime(t time.Time) time.Time {
	first, last := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2107, 12, 31, 0, 0, 0, 0, time.UTC)
	switch {
	case t.Before(first):
		return first
	case t.After(last):
		return last
	}
	return t.Truncate(time.Second)
}
