//go:build linux

package file

import (
	"errors"
	"io"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/wire"
)

// Stream is the stream of a request for files.
type Stream struct {
	Read func() (wire.Frame, error) // the host's next frame
	W    *wire.Writer
}

func (s Stream) reply(r wire.Reply) error { return s.W.JSON(wire.KindReply, r) }

// done replies success, or the error err.
func (s Stream) done(err error) error {
	if err != nil {
		return err
	}
	return s.reply(wire.Reply{Done: true})
}

// contents reads Data frames up to EOF.
type contents struct {
	s    Stream
	rest []byte
	end  error
}

// failed reports whether the stream ended without EOF.
func (c *contents) failed() bool { return c.end != nil && !errors.Is(c.end, io.EOF) }

func (c *contents) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		if c.end != nil {
			return 0, c.end
		}
		f, err := c.s.Read()
		switch {
		case err != nil:
			c.end = err
		case f.Kind == wire.KindData:
			c.rest = f.Payload
		case f.Kind == wire.KindEOF:
			c.end = io.EOF
		default:
			c.end = fault.Protocol("frame of kind %d in the midst of data", f.Kind)
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// WriteTo writes the frames' contents to w without a copy.
func (c *contents) WriteTo(w io.Writer) (written int64, err error) {
	for {
		if len(c.rest) > 0 {
			n, err := w.Write(c.rest)
			written += int64(n)
			c.rest = c.rest[n:]
			if err != nil {
				return written, err
			}
		}
		if _, err := c.Read(nil); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return written, err
		}
	}
}

// dataWriter sends its input as Data frames.
type dataWriter struct{ s Stream }

func (d dataWriter) Write(b []byte) (int, error) {
	if err := d.s.W.Data(b); err != nil {
		return 0, fault.ErrDisconnected
	}
	return len(b), nil
}
