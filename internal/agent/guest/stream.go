//go:build linux

package guest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
)

// stream is one request's conversation with the host.
type stream struct {
	a    *Agent
	conn net.Conn
	r    *wire.Reader
	w    *wire.Writer
}

// features are what this agent can do beyond the protocol's first version.
func features() []string {
	return []string{string(wire.OpMerge), wire.FeatureForget, wire.FeatureShell, wire.FeatureCPUTime}
}

func newStream(a *Agent, conn net.Conn) *stream {
	return &stream{a: a, conn: conn, r: wire.NewReader(conn), w: wire.NewWriter(&greeter{a: a, w: conn})}
}

// greeter sends our hello together with the first frame, so that a request is one read and one write.
type greeter struct {
	a       *Agent
	w       io.Writer
	greeted bool
}

func (g *greeter) Write(b []byte) (int, error) {
	if g.greeted {
		return g.w.Write(b)
	}
	g.greeted = true
	var buf bytes.Buffer
	hello := wire.Hello{
		Protocol: wire.Protocol, Version: wire.Version, Build: g.a.cfg.Build, BootID: g.a.bootID, Features: features(),
	}
	if err := wire.NewWriter(&buf).JSON(wire.KindHello, hello); err != nil {
		return 0, err
	}
	buf.Write(b)
	if _, err := g.w.Write(buf.Bytes()); err != nil {
		return 0, err
	}
	return len(b), nil
}

// read returns the next frame, which renews the lease.
func (s *stream) read() (wire.Frame, error) {
	f, err := s.r.Read()
	switch {
	case err == nil:
		s.a.lease.contact()
	case !errors.Is(err, wire.ErrFrame):
		err = errDisconnected
	}
	return f, err
}

func (s *stream) reply(r wire.Reply) error { return s.w.JSON(wire.KindReply, r) }

// converse serves a stream from hello to end.
func (a *Agent) converse(s *stream) {
	a.lease.contact()
	req, err := s.open()
	// Every time: whoever was saved by one kernel may have been restored by another.
	if fence := a.cfg.fence(); fence != nil {
		s.refuse(fence)
		go a.Close() // and with it all that was restored
		return
	}
	if err == nil {
		err = s.serve(req)
	}
	if err != nil {
		s.refuse(err)
	}
}

// open reads what a stream begins with.
func (s *stream) open() (wire.Request, error) {
	var hello wire.Hello
	var req wire.Request
	if err := s.expect(wire.KindHello, &hello); err != nil {
		return req, err
	}
	if err := s.expect(wire.KindRequest, &req); err != nil {
		return req, err
	}
	if hello.Protocol != wire.Protocol {
		return req, protocol("host greets as %q, not as %q", hello.Protocol, wire.Protocol)
	}
	if hello.Version != wire.Version && hello.Version != wire.Version-1 {
		return req, failure(wire.CodeVersion, "agent speaks versions %d and %d, host speaks %d", wire.Version-1, wire.Version, hello.Version)
	}
	return req, nil
}

func (s *stream) expect(kind wire.Kind, v any) error {
	f, err := s.read()
	if err != nil {
		return err
	}
	if f.Kind != kind {
		return protocol("frame of kind %d instead of %d", f.Kind, kind)
	}
	return f.JSON(v)
}

// refuse says why the stream ends. Whatever the host is still sending is read meanwhile: it may be in the midst of
// data and listen only behind it.
func (s *stream) refuse(err error) {
	if errors.Is(err, errDisconnected) {
		return
	}
	go io.Copy(io.Discard, s.conn) // ends with the connection, which our caller closes
	_ = s.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_ = s.reply(wire.Reply{Error: asFailure(err)}) // a host that does not listen misses it
}

// serve carries out a request. Its error is for the host.
func (s *stream) serve(req wire.Request) error {
	switch req.Op {
	case wire.OpPing:
		return s.reply(wire.Reply{Info: s.a.info()})
	case wire.OpExec:
		if req.Exec == nil {
			return invalid("exec without a command")
		}
		return s.exec(*req.Exec)
	case wire.OpAttach:
		return s.attach(req.ID, req.From)
	case wire.OpSignal:
		if req.Kill == nil {
			return invalid("signal without a signal")
		}
		return s.done(s.a.signal(req.ID, *req.Kill))
	case wire.OpList:
		return s.list()
	case wire.OpForget:
		return s.done(s.a.forget(req.ID))
	case wire.OpLease:
		const most = int64(1<<63-1) / int64(time.Millisecond)
		if req.Lease < 0 || req.Lease > most {
			return invalid("lease of %d ms", req.Lease)
		}
		s.a.lease.set(time.Duration(req.Lease) * time.Millisecond)
		return s.done(nil)
	case wire.OpRelay, wire.OpConnect:
		return failure(wire.CodeUnsupported, "%s is reserved", req.Op)
	case wire.OpRead, wire.OpWrite, wire.OpStat, wire.OpReadDir, wire.OpWalk, wire.OpMkdir, wire.OpRename, wire.OpDelete,
		wire.OpTarIn, wire.OpTarOut, wire.OpMerge, wire.OpMergeNew, wire.OpScan, wire.OpSpace:
		if req.File == nil {
			return invalid("%s without a file", req.Op)
		}
		return s.file(req.Op, *req.File)
	}
	return protocol("unknown operation %q", req.Op)
}

// done answers a request that returns nothing but its success.
func (s *stream) done(err error) error {
	if err != nil {
		return err
	}
	return s.reply(wire.Reply{Done: true})
}

// contents reads Data frames up to EOF.
type contents struct {
	s    *stream
	rest []byte
	end  error
}

// failed says that the stream ended without EOF.
func (c *contents) failed() bool { return c.end != nil && !errors.Is(c.end, io.EOF) }

func (c *contents) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		if c.end != nil {
			return 0, c.end
		}
		f, err := c.s.read()
		switch {
		case err != nil:
			c.end = err
		case f.Kind == wire.KindData:
			c.rest = f.Payload
		case f.Kind == wire.KindEOF:
			c.end = io.EOF
		default:
			c.end = protocol("frame of kind %d in the midst of data", f.Kind)
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// WriteTo gives w the frames' contents as they lie, without a copy between.
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

// dataWriter sends what is written to it as Data frames.
type dataWriter struct{ s *stream }

func (d dataWriter) Write(b []byte) (int, error) {
	if err := d.s.w.Data(b); err != nil {
		return 0, errDisconnected
	}
	return len(b), nil
}
