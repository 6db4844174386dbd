//go:build linux

package guest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"path/filepath"
	"time"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/guest/file"
	"github.com/belljar/belljar/internal/agent/guest/relay"
	"github.com/belljar/belljar/internal/agent/wire"
)

// stream is the connection of one request.
type stream struct {
	a    *Agent
	conn net.Conn
	r    *wire.Reader
	w    *wire.Writer
}

// features are the additions to the first version of the protocol.
func (a *Agent) features() []string {
	list := []string{string(wire.OpMerge), string(wire.OpSecret), string(wire.OpTrust), string(wire.OpSave), string(wire.OpPrograms), string(wire.OpReplace), wire.FeatureForget, wire.FeatureShell, wire.FeatureKernel, wire.FeatureCPUTime, wire.FeatureWarm}
	if a.relay != nil {
		list = append(list, wire.FeatureRelay)
	}
	return list
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
		Protocol: wire.Protocol, Version: wire.Version, Build: g.a.cfg.Build, BootID: g.a.bootID, Features: g.a.features(),
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
		s.a.lease.Contact()
	case !errors.Is(err, wire.ErrFrame):
		err = fault.ErrDisconnected
	}
	return f, err
}

func (s *stream) reply(r wire.Reply) error { return s.w.JSON(wire.KindReply, r) }

// serveStream serves a stream from hello to end.
func (a *Agent) serveStream(s *stream) {
	a.lease.Contact()
	req, err := s.open()
	// Check every request: a saved agent may have been restored on another kernel.
	if err := fence(a.cfg); err != nil {
		s.refuse(err)
		go a.Close() // ends everything that was restored
		return
	}
	if err == nil {
		err = s.serve(req)
	}
	if err != nil {
		s.refuse(err)
	}
}

// open reads the hello and the request.
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
		return req, fault.Protocol("host greets as %q, not as %q", hello.Protocol, wire.Protocol)
	}
	if hello.Version != wire.Version && hello.Version != wire.Version-1 {
		return req, fault.New(wire.CodeVersion, "agent speaks versions %d and %d, host speaks %d", wire.Version-1, wire.Version, hello.Version)
	}
	return req, nil
}

func (s *stream) expect(kind wire.Kind, v any) error {
	f, err := s.read()
	if err != nil {
		return err
	}
	if f.Kind != kind {
		return fault.Protocol("frame of kind %d instead of %d", f.Kind, kind)
	}
	return f.JSON(v)
}

// refuse reports why the stream ends. It reads the host's remaining frames meanwhile, because a host may send all data before it
// reads.
func (s *stream) refuse(err error) {
	if errors.Is(err, fault.ErrDisconnected) {
		return
	}
	go io.Copy(io.Discard, s.conn) // ends with the connection, which our caller closes
	_ = s.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_ = s.reply(wire.Reply{Error: fault.Of(err)}) // the host may have disconnected
}

// serve performs a request. Its error is for the host.
func (s *stream) serve(req wire.Request) error {
	switch req.Op {
	case wire.OpPing:
		err := s.reply(wire.Reply{Info: s.a.info()})
		if s.a.relay != nil {
			s.a.relay.Prepare() // the host is not waiting: a pool sends this to a sandbox that it keeps ready
		}
		return err
	case wire.OpExec:
		if req.Exec == nil {
			return fault.Invalid("exec without a command")
		}
		return s.exec(*req.Exec)
	case wire.OpPark:
		if req.Exec == nil {
			return fault.Invalid("park without a command")
		}
		return s.done(s.a.park(*req.Exec))
	case wire.OpAttach:
		return s.attach(req.ID, req.From)
	case wire.OpSignal:
		if req.Kill == nil {
			return fault.Invalid("signal without a signal")
		}
		return s.done(s.a.signal(req.ID, *req.Kill))
	case wire.OpList:
		return s.list()
	case wire.OpForget:
		return s.done(s.a.forget(req.ID))
	case wire.OpLease:
		const most = int64(1<<63-1) / int64(time.Millisecond)
		if req.Lease < 0 || req.Lease > most {
			return fault.Invalid("lease of %d ms", req.Lease)
		}
		s.a.lease.Set(time.Duration(req.Lease) * time.Millisecond)
		return s.done(nil)
	case wire.OpShells:
		return s.reply(wire.Reply{Done: true, Shells: s.a.listShells()})
	case wire.OpPrograms:
		return s.reply(wire.Reply{Done: true, Programs: s.a.running()})
	case wire.OpEndShell:
		s.a.endShell(req.ID)
		return s.done(nil)
	case wire.OpRelay, wire.OpAccept, wire.OpConnect, wire.OpPorts:
		if s.a.relay == nil {
			return fault.New(wire.CodeUnsupported, "this sandbox has no relay")
		}
		return s.relay(req)
	case wire.OpRead, wire.OpWrite, wire.OpReplace, wire.OpStat, wire.OpReadDir, wire.OpWalk, wire.OpMkdir, wire.OpRename, wire.OpDelete,
		wire.OpTarIn, wire.OpTarOut, wire.OpMerge, wire.OpMergeNew, wire.OpScan, wire.OpSpace, wire.OpSave, wire.OpLoad:
		if req.File == nil {
			return fault.Invalid("%s without a file", req.Op)
		}
		if req.Op == wire.OpSave {
			return s.save(*req.File)
		}
		return s.a.files.Serve(file.Stream{Read: s.read, W: s.w}, req.Op, *req.File)
	case wire.OpSecret, wire.OpTrust:
		if req.File == nil {
			return fault.Invalid("%s without a file", req.Op)
		}
		files := file.Stream{Read: s.read, W: s.w}
		if req.Op == wire.OpTrust {
			return file.Trust(files, filepath.Join(filepath.Dir(s.a.cfg.Secrets), wire.TrustDir), s.a.own, *req.File)
		}
		return file.Secret(files, s.a.cfg.Secrets, s.a.own, *req.File)
	}
	return fault.Protocol("unknown operation %q", req.Op)
}

// relay performs a request of the relay.
func (s *stream) relay(req wire.Request) error {
	to := relay.Stream{Read: s.read, R: s.r, W: s.w, Contact: s.a.lease.Contact, Close: s.conn.Close}
	switch req.Op {
	case wire.OpAccept:
		return s.a.relay.Accept(to, req.Conn)
	case wire.OpConnect:
		return s.a.relay.Connect(to, req.Port)
	}
	if req.Op == wire.OpPorts {
		list, cut, err := relay.Ports()
		if err != nil {
			return err
		}
		return s.reply(wire.Reply{Done: true, Listeners: list, Cut: cut})
	}
	if req.Relay == nil {
		return fault.Invalid("relay without its ports")
	}
	return s.a.relay.Serve(to, *req.Relay)
}

// done replies success, or the error err.
func (s *stream) done(err error) error {
	if err != nil {
		return err
	}
	return s.reply(wire.Reply{Done: true})
}
