package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

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

// Rename moves Path to To, replacing what is there unless NoReplace is set.
func (c *Client) Rename(ctx context.Context, req wire.FileRequest) error {
	return c.change(ctx, "rename", wire.OpRename, req)
}

// Delete removes a file or an empty directory, with Recursive also a full one.
func (c *Client) Delete(ctx context.Context, req wire.FileRequest) error {
	return c.change(ctx, "delete", wire.OpDelete, req)
}

// ReadDir lists a directory. cut tells that there are more entries than Limit, or than the agent lists.
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

// Walk calls visit for everything below a directory, parents first, and returns its error if there is one. cut tells
// that the walk ended at a bound.
func (c *Client) Walk(ctx context.Context, req wire.FileRequest, visit func(wire.FileInfo) error) (cut bool, err error) {
	cut, err = c.list(ctx, wire.OpWalk, req, visit)
	if err != nil {
		return false, fmt.Errorf("walk %s: %w", req.Path, err)
	}
	return cut, nil
}

// ReadFile opens a file, or Limit bytes of it from Offset. The caller closes the reader; ctx's end closes it too. A
// read of a file that cannot be read on ends with an error, never with a short io.EOF.
func (c *Client) ReadFile(ctx context.Context, req wire.FileRequest) (io.ReadCloser, wire.FileInfo, error) {
	s, err := c.open(ctx, wire.Request{Op: wire.OpRead, File: &req})
	if err != nil {
		return nil, wire.FileInfo{}, fmt.Errorf("read %s: %w", req.Path, err)
	}
	reply, err := s.reply()
	if err == nil && reply.File == nil {
		err = fmt.Errorf("%w: answer without file", ErrProtocol)
	}
	if err != nil {
		s.close()
		return nil, wire.FileInfo{}, fmt.Errorf("read %s: %w", req.Path, err)
	}
	return &body{s: s, what: "read " + req.Path}, *reply.File, nil
}

// WriteFile replaces a file with what r holds, at once and as a whole: nobody sees a part of it, and when r fails
// nothing has changed.
func (c *Client) WriteFile(ctx context.Context, req wire.FileRequest, r io.Reader) (wire.FileInfo, error) {
	reply, err := c.send(ctx, wire.Request{Op: wire.OpWrite, File: &req}, r)
	if err == nil && reply.File == nil {
		err = fmt.Errorf("%w: answer without file", ErrProtocol)
	}
	if err != nil {
		return wire.FileInfo{}, fmt.Errorf("write %s: %w", req.Path, err)
	}
	return *reply.File, nil
}

// TarIn unpacks a tar stream below a directory and returns how many bytes of file contents it held. An entry that
// must not be unpacked ends it; the entries before remain.
func (c *Client) TarIn(ctx context.Context, req wire.FileRequest, r io.Reader) (int64, error) {
	reply, err := c.send(ctx, wire.Request{Op: wire.OpTarIn, File: &req}, r)
	if err != nil {
		return 0, fmt.Errorf("unpack into %s: %w", req.Path, err)
	}
	return reply.Bytes, nil
}

// Merge is TarIn for all or nothing: after an error the workspace is as before. It takes no symbolic links. A file where
// a directory is, or the reverse, is [wire.CodeExists].
func (c *Client) Merge(ctx context.Context, req wire.FileRequest, r io.Reader) (int64, error) {
	reply, err := c.send(ctx, wire.Request{Op: wire.OpMerge, File: &req}, r)
	if err != nil {
		return 0, fmt.Errorf("merge into %s: %w", req.Path, err)
	}
	return reply.Bytes, nil
}

// TarOut writes a directory, or Paths below it, to w as a tar stream. After an error w holds an unfinished one.
func (c *Client) TarOut(ctx context.Context, req wire.FileRequest, w io.Writer) error {
	s, err := c.open(ctx, wire.Request{Op: wire.OpTarOut, File: &req})
	if err != nil {
		return fmt.Errorf("pack %s: %w", req.Path, err)
	}
	b := &body{s: s, what: "pack " + req.Path}
	defer b.Close()
	_, err = io.Copy(w, b)
	return err
}

func (c *Client) askInfo(ctx context.Context, op wire.Op, req wire.FileRequest) (wire.FileInfo, error) {
	reply, err := c.ask(ctx, wire.Request{Op: op, File: &req})
	if err != nil {
		return wire.FileInfo{}, err
	}
	if reply.File == nil {
		return wire.FileInfo{}, fmt.Errorf("%w: answer without file", ErrProtocol)
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
	for {
		reply, err := s.reply()
		if err != nil {
			return false, err
		}
		for _, f := range reply.Files {
			if err := visit(f); err != nil {
				return false, err
			}
		}
		if !reply.More {
			return reply.Cut, nil
		}
	}
}

// send makes a request with contents. The agent may refuse in the midst of them: its reason then counts, not the
// broken connection.
func (c *Client) send(ctx context.Context, req wire.Request, r io.Reader) (wire.Reply, error) {
	s, err := c.open(ctx, req)
	if err != nil {
		return wire.Reply{}, err
	}
	defer s.close()
	w := bufio.NewWriterSize(dataWriter{s.w}, wire.MaxData)
	var refused *refusedError
	if _, err := io.Copy(w, r); err != nil && !errors.As(err, &refused) {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return wire.Reply{}, err // without EOF: the agent drops what it has
	} else if err == nil {
		if err := w.Flush(); err == nil {
			_ = s.w.EOF() // the answer below tells whether it arrived
		}
	}
	return s.reply()
}

// dataWriter sends what is written to it as Data frames.
type dataWriter struct{ w *wire.Writer }

func (d dataWriter) Write(b []byte) (int, error) {
	if err := d.w.Data(b); err != nil {
		return 0, &refusedError{err}
	}
	return len(b), nil
}

// refusedError tells a failure to write to the agent from one of the contents' reader.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }

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

func (b *body) Close() error {
	b.s.close()
	return nil
}
