package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/belljar/belljar/internal/agent/wire"
)

// Stat describes a file; of a symbolic link the link itself.
func (c *Client) Stat(ctx context.Context, req wire.FileRequest) (wire.FileInfo, error) {
	info, err := c.askInfo(ctx, wire.OpStat, req)
	if err != nil {
		return info, fmt.Errorf("stat %s: %w", req.Path, err)
	}
	return info, nil
}

// Mkdir makes a directory, with Parents also those above it.
func (c *Client) Mkdir(ctx context.Context, req wire.FileRequest) error {
	return c.change(ctx, "mkdir", wire.OpMkdir, req)
}

// Rename moves Path to To. It replaces an existing file unless NoReplace is set.
func (c *Client) Rename(ctx context.Context, req wire.FileRequest) error {
	return c.change(ctx, "rename", wire.OpRename, req)
}

// Delete removes a file or an empty directory, or with Recursive a whole tree.
func (c *Client) Delete(ctx context.Context, req wire.FileRequest) error {
	return c.change(ctx, "delete", wire.OpDelete, req)
}

// ReadDir lists a directory. cut reports that there are more entries than Limit, or than the agent lists.
func (c *Client) ReadDir(ctx context.Context, req wire.FileRequest) (list []wire.FileInfo, cut bool, err error) {
	cut, err = c.list(ctx, wire.OpReadDir, req, func(f wire.FileInfo) error {
		list = append(list, f)
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("read directory %s: %w", req.Path, err)
	}
	return list, cut, nil
}

// EachEntry calls visit for each entry of a directory, and stops at its first error. cut is as in ReadDir.
func (c *Client) EachEntry(ctx context.Context, req wire.FileRequest, visit func(wire.FileInfo) error) (cut bool, err error) {
	cut, err = c.list(ctx, wire.OpReadDir, req, visit)
	if err != nil {
		return false, fmt.Errorf("read directory %s: %w", req.Path, err)
	}
	return cut, nil
}

// Walk calls visit for everything below a directory, parents first, and stops at its first error. cut reports that the walk
// stopped at a limit.
func (c *Client) Walk(ctx context.Context, req wire.FileRequest, visit func(wire.FileInfo) error) (cut bool, err error) {
	cut, err = c.list(ctx, wire.OpWalk, req, visit)
	if err != nil {
		return false, fmt.Errorf("walk %s: %w", req.Path, err)
	}
	return cut, nil
}

// ReadFile opens a file, or Limit bytes of it from Offset. The caller closes the reader; the end of ctx closes it too. A read that
// cannot continue ends with an error, never with a premature io.EOF.
func (c *Client) ReadFile(ctx context.Context, req wire.FileRequest) (io.ReadCloser, wire.FileInfo, error) {
	s, err := c.open(ctx, wire.Request{Op: wire.OpRead, File: &req})
	if err != nil {
		return nil, wire.FileInfo{}, fmt.Errorf("read %s: %w", req.Path, err)
	}
	reply, err := s.reply()
	if err == nil {
		err = checkFile(reply.File)
	}
	if err != nil {
		s.close()
		return nil, wire.FileInfo{}, fmt.Errorf("read %s: %w", req.Path, err)
	}
	return &body{s: s, what: "read " + req.Path}, *reply.File, nil
}

// WriteFile replaces a file atomically with the contents of r: readers see the old or the new file, and an error of r changes
// nothing.
func (c *Client) WriteFile(ctx context.Context, req wire.FileRequest, r io.Reader) (wire.FileInfo, error) {
	op := wire.OpWrite
	if len(req.IfMatch) > 0 {
		op = wire.OpReplace // an older agent refuses it, and cannot ignore the condition
	}
	reply, err := c.send(ctx, wire.Request{Op: op, File: &req}, r)
	if err == nil {
		err = checkFile(reply.File)
	}
	if err != nil {
		return wire.FileInfo{}, fmt.Errorf("write %s: %w", req.Path, err)
	}
	return *reply.File, nil
}

// WriteSecret writes a secret to the file req.Path in the folder of secrets, which no other request reaches. A file of that name is
// [wire.CodeExists]. If the agent does not support secrets, the error is [errors.ErrUnsupported].
func (c *Client) WriteSecret(ctx context.Context, req wire.FileRequest, value string) error {
	return c.deliver(ctx, "write a secret", wire.Request{Op: wire.OpSecret, File: &req}, strings.NewReader(value))
}

// deliver sends contents with a request that older agents do not support; the error is then [errors.ErrUnsupported].
func (c *Client) deliver(ctx context.Context, what string, req wire.Request, contents io.Reader) error {
	s, err := c.open(ctx, req)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer s.close()
	err = s.contents(contents)
	if err == nil {
		_, err = s.reply()
	}
	if err != nil {
		if s.greet && !slices.Contains(s.hello.Features, string(req.Op)) {
			err = errors.Join(err, errors.ErrUnsupported)
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Trust makes the programs of a sandbox trust one more authority, whose certificate is PEM: see [wire.TrustDir]. It can be done
// once, as the user of req. If the agent does not support it, the error is [errors.ErrUnsupported].
func (c *Client) Trust(ctx context.Context, req wire.FileRequest, authority []byte) error {
	return c.deliver(ctx, "trust an authority", wire.Request{Op: wire.OpTrust, File: &req}, bytes.NewReader(authority))
}

// TarIn unpacks a tar stream below a directory and returns the number of bytes of file contents. A forbidden entry ends it;
// earlier entries remain.
func (c *Client) TarIn(ctx context.Context, req wire.FileRequest, r io.Reader) (int64, error) {
	reply, err := c.send(ctx, wire.Request{Op: wire.OpTarIn, File: &req}, r)
	if err != nil {
		return 0, fmt.Errorf("unpack into %s: %w", req.Path, err)
	}
	return reply.Bytes, nil
}

// Merge is an atomic TarIn: after an error the workspace is unchanged. It refuses symbolic links. A file in place of a directory,
// or the reverse, is [wire.CodeExists].
func (c *Client) Merge(ctx context.Context, req wire.FileRequest, r io.Reader) (int64, error) {
	reply, err := c.send(ctx, wire.Request{Op: wire.OpMerge, File: &req}, r)
	if err != nil {
		return 0, fmt.Errorf("merge into %s: %w", req.Path, err)
	}
	return reply.Bytes, nil
}

// MergeNew is Merge without replacement: an existing file is [wire.CodeExists].
func (c *Client) MergeNew(ctx context.Context, req wire.FileRequest, r io.Reader) (int64, error) {
	reply, err := c.send(ctx, wire.Request{Op: wire.OpMergeNew, File: &req}, r)
	if err != nil {
		return 0, fmt.Errorf("merge into %s: %w", req.Path, err)
	}
	return reply.Bytes, nil
}

// TarOut writes a directory, or Paths below it, to w as a tar stream. After an error the stream in w is incomplete.
func (c *Client) TarOut(ctx context.Context, req wire.FileRequest, w io.Writer) error {
	r, err := c.OpenTar(ctx, req)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(w, r)
	return err
}

// OpenTar is TarOut as a reader. The caller closes it; the end of ctx closes it too.
func (c *Client) OpenTar(ctx context.Context, req wire.FileRequest) (io.ReadCloser, error) {
	return c.stream(ctx, wire.OpTarOut, "pack", req)
}

// Scan returns a tar stream of the text files among Paths, at most Limit bytes of each. It omits unreadable files. The caller
// closes the reader; the end of ctx closes it too.
func (c *Client) Scan(ctx context.Context, req wire.FileRequest) (io.ReadCloser, error) {
	return c.stream(ctx, wire.OpScan, "scan", req)
}

func (c *Client) stream(ctx context.Context, op wire.Op, verb string, req wire.FileRequest) (io.ReadCloser, error) {
	s, err := c.open(ctx, wire.Request{Op: op, File: &req})
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", verb, req.Path, err)
	}
	return &body{s: s, what: verb + " " + req.Path}, nil
}

// Space returns the use and the size of the workspace's file system.
func (c *Client) Space(ctx context.Context, req wire.FileRequest) (wire.Space, error) {
	reply, err := c.ask(ctx, wire.Request{Op: wire.OpSpace, File: &req})
	if err == nil && (reply.Space == nil || min(reply.Space.Bytes, reply.Space.MaxBytes, reply.Space.Files, reply.Space.MaxFiles) < 0) {
		err = fmt.Errorf("%w: answer without space", ErrProtocol)
	}
	if err != nil {
		return wire.Space{}, fmt.Errorf("space: %w", err)
	}
	return *reply.Space, nil
}

func (c *Client) askInfo(ctx context.Context, op wire.Op, req wire.FileRequest) (wire.FileInfo, error) {
	reply, err := c.ask(ctx, wire.Request{Op: op, File: &req})
	if err != nil {
		return wire.FileInfo{}, err
	}
	if err := checkFile(reply.File); err != nil {
		return wire.FileInfo{}, err
	}
	return *reply.File, nil
}

func (c *Client) change(ctx context.Context, verb string, op wire.Op, req wire.FileRequest) error {
	if _, err := c.ask(ctx, wire.Request{Op: op, File: &req}); err != nil {
		return fmt.Errorf("%s %s: %w", verb, req.Path, err)
	}
	return nil
}

func (c *Client) list(ctx context.Context, op wire.Op, req wire.FileRequest, visit func(wire.FileInfo) error) (cut bool, err error) {
	s, err := c.open(ctx, wire.Request{Op: op, File: &req})
	if err != nil {
		return false, err
	}
	defer s.close()
	room := room{entries: mostEntries, bytes: mostListed}
	for {
		reply, err := s.part(&room)
		if err == nil {
			err = room.take(len(reply.Files), 0)
		}
		if err != nil {
			return false, err
		}
		for _, f := range reply.Files {
			if ctx.Err() != nil {
				return false, context.Cause(ctx)
			}
			if err := checkEntry(req.Path, &f); err != nil {
				return false, err
			}
			if err := visit(f); err != nil {
				return false, err
			}
		}
		if !reply.More {
			return reply.Cut, nil
		}
	}
}

// Limits on an agent's replies. A program that has taken over the agent can send anything, for as long as this host reads.
const (
	mostExecs   = 10_000    // commands in a list
	mostEntries = 200_000   // files in a listing; the agent's own limit is half of that
	mostListed  = 128 << 20 // bytes of a list, as received
	mostPath    = 128 << 10
)

// room is the remaining budget for a list.
type room struct{ entries, bytes int }

// take reserves entries and bytes, or fails if the budget is exhausted.
func (r *room) take(entries, bytes int) error {
	r.entries, r.bytes = r.entries-entries, r.bytes-bytes
	switch {
	case r.entries < 0:
		return fmt.Errorf("%w: a list with more entries than any agent has", ErrProtocol)
	case r.bytes < 0:
		return fmt.Errorf("%w: a list of more than %d MiB", ErrProtocol, mostListed>>20)
	}
	return nil
}

// checkFile validates the agent's description of a file.
func checkFile(f *wire.FileInfo) error {
	if f == nil {
		return fmt.Errorf("%w: answer without file", ErrProtocol)
	}
	known := f.Type == "file" || f.Type == "dir" || f.Type == "symlink" || f.Type == "other"
	if !known || f.Size < 0 || f.Mode > 0o7777 || len(f.Path) > mostPath || len(f.Target) > mostPath {
		return fmt.Errorf("%w: a file of type %.20q with %d bytes, mode %o", ErrProtocol, f.Type, f.Size, f.Mode)
	}
	return nil
}

// checkEntry validates an entry of a listing: it must lie below the requested directory.
func checkEntry(dir string, f *wire.FileInfo) error {
	if err := checkFile(f); err != nil {
		return err
	}
	name := f.Path
	bad := name == "" || name == "." || path.Clean(name) != name || path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../")
	if dir := strings.TrimPrefix(path.Clean(strings.TrimPrefix(dir, workspace)), "/"); dir != "." && dir != "" {
		bad = bad || !strings.HasPrefix(name, dir+"/")
	}
	if bad || strings.ContainsRune(name, 0) {
		return fmt.Errorf("%w: an entry %.100q in a listing of %.100q", ErrProtocol, name, dir)
	}
	return nil
}

// workspace is the prefix of absolute paths in requests.
const workspace = "/workspace"

// send makes a request with contents. If the agent refuses during the transfer, its error takes precedence over the broken
// connection.
func (c *Client) send(ctx context.Context, req wire.Request, r io.Reader) (wire.Reply, error) {
	s, err := c.open(ctx, req)
	if err != nil {
		return wire.Reply{}, err
	}
	defer s.close()
	if err := s.contents(r); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return wire.Reply{}, err // no EOF frame, so the agent discards the contents
	}
	reply, err := s.reply()
	if err != nil && req.Op == wire.OpReplace && s.greet && !slices.Contains(s.hello.Features, string(req.Op)) {
		err = errors.Join(err, errors.ErrUnsupported)
	}
	return reply, err
}

// firstRead is the size of the first read. Most files are not longer.
const firstRead = 8 << 10

// contents sends all of r. Its error is an error of r; the agent reports a refusal in its reply.
func (s *stream) contents(r io.Reader) error {
	buf := make([]byte, wire.DataRoom+firstRead)
	for {
		n, err := fill(r, buf[wire.DataRoom:])
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		if n > 0 && s.w.DataInPlace(buf[:wire.DataRoom+n]) != nil {
			return nil
		}
		if end {
			_ = s.w.EOF()
			return nil
		}
		if len(buf) < wire.DataRoom+wire.MaxData {
			buf = make([]byte, wire.DataRoom+wire.MaxData)
		}
	}
}

// fill reads until b is full. Unlike io.ReadFull it distinguishes the end of r from r's io.ErrUnexpectedEOF, which is a failure.
func fill(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = r.Read(b[n:])
		n += m
	}
	return n, err
}

// body reads Data frames up to EOF.
type body struct {
	s    *stream
	what string
	rest []byte
	end  error
}

func (b *body) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.end != nil {
			return 0, b.end
		}
		f, err := b.s.read()
		switch {
		case err != nil:
		case f.Kind == wire.KindData:
			b.rest = f.Payload
			continue
		case f.Kind == wire.KindEOF:
			b.end = io.EOF
			continue
		default:
			if _, err = asReply(f); err == nil {
				err = fmt.Errorf("%w: answer in the midst of data", ErrProtocol)
			}
		}
		b.end = fmt.Errorf("%s: %w", b.what, err)
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// WriteTo writes the frames' contents to w without a copy.
func (b *body) WriteTo(w io.Writer) (written int64, err error) {
	for {
		if _, err := b.Read(nil); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return written, err
		}
		n, err := w.Write(b.rest)
		written += int64(n)
		b.rest = b.rest[n:]
		if err != nil {
			return written, err
		}
	}
}

func (b *body) Close() error {
	b.s.close()
	return nil
}
