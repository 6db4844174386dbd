//go:build linux

package guest

import (
	"errors"
	"net"
	"time"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/wire"
)

// attachment is a host that is attached to a command. Guarded by the exec's lock.
type attachment struct {
	conn      net.Conn
	sent      int64 // position after the output handed to the connection
	announced int64 // last stdin limit sent to the host
	detached  bool
}

// exec serves OpExec.
func (s *stream) exec(spec wire.Exec) error {
	e, known, err := s.a.start(spec)
	if err != nil {
		return err
	}
	return s.follow(e, 0, known)
}

// attach serves OpAttach.
func (s *stream) attach(id string, from int64) error {
	e, err := s.a.find(id)
	if err != nil {
		return err
	}
	return s.follow(e, from, true)
}

// follow streams a command to the host and handles the host's frames, until the host disconnects or is replaced.
func (s *stream) follow(e *exec, from int64, known bool) error {
	at := &attachment{conn: s.conn}
	started, err := e.attach(at, from)
	if err != nil {
		return err
	}
	if started.Attached = known; known {
		e.mu.Lock()
		started.AgeMS = time.Since(e.began).Milliseconds() // a shell's command starts when its turn comes
		e.mu.Unlock()
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if err := s.send(e, at, started); err != nil {
			s.conn.Close() // ends our reader
		}
	}()
	s.refuse(s.listen(e, at))
	e.mu.Lock()
	e.detach(at)
	e.mu.Unlock()
	<-sent
	return nil
}

// attach attaches at to e, and detaches any other host.
func (e *exec) attach(at *attachment, from int64) (wire.Started, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if from < 0 || from > e.spool.Next {
		return wire.Started{}, fault.Invalid("exec %q has %d bytes of output, not %d", e.spec.ID, e.spool.Next, from)
	}
	e.detach(e.attached)
	at.sent = max(from, e.spool.First)
	st := wire.Started{ID: e.spec.ID, Pid: e.pid, From: at.sent, Warm: e.warm}
	if e.inlet != nil {
		st.Stdin, st.StdinLimit = e.inlet.received, e.inlet.limit()
		st.StdinClosed = e.inlet.eof || e.inlet.broken
		at.announced = st.StdinLimit
	}
	e.attached = at
	return st, nil
}

// detach ends an attachment. The exec is locked.
func (e *exec) detach(at *attachment) {
	if at == nil || at.detached {
		return
	}
	at.detached = true
	e.attached = nil
	at.conn.Close() // ends its reader and its sender
	e.change.Broadcast()
}

// send writes Started, output, stdin limits, and finally Exit.
func (s *stream) send(e *exec, at *attachment, started wire.Started) error {
	if err := s.reply(wire.Reply{Started: &started}); err != nil {
		return err
	}
	for {
		e.mu.Lock()
		var data []byte
		var stream wire.Stream
		var position, limit int64
		var exit *wire.Exit
		for {
			if at.detached {
				e.mu.Unlock()
				return fault.ErrDisconnected
			}
			if e.inlet != nil && e.inlet.worth(at.announced) {
				limit = e.inlet.limit()
				at.announced = limit
				break
			}
			position = at.sent
			if stream, data = e.spool.At(position); len(data) > 0 {
				at.sent += int64(len(data))
				break
			}
			if e.exit != nil {
				exit = e.exit
				break
			}
			e.change.Wait()
		}
		e.mu.Unlock()
		var err error
		switch {
		case exit != nil:
			return s.reply(wire.Reply{Exit: exit})
		case limit > 0:
			err = s.reply(wire.Reply{StdinLimit: &limit})
		default:
			err = s.w.Output(position, stream, data)
		}
		if err != nil {
			return err
		}
	}
}

// listen handles the host's frames until it disconnects.
func (s *stream) listen(e *exec, at *attachment) error {
	for {
		f, err := s.read()
		if err != nil {
			return err
		}
		switch f.Kind {
		case wire.KindData:
			err = e.feed(at, f.Payload)
		case wire.KindEOF:
			err = e.closeStdin(at)
		case wire.KindControl:
			var c wire.Control
			if err = f.JSON(&c); err == nil {
				err = e.control(at, c)
			}
		default:
			err = fault.Protocol("frame of kind %d on an exec's stream", f.Kind)
		}
		if err != nil {
			return err
		}
	}
}

func (e *exec) control(at *attachment, c wire.Control) error {
	if c.Ack != nil {
		e.mu.Lock()
		ahead := *c.Ack < 0 || *c.Ack > at.sent
		if !ahead && !at.detached {
			e.spool.Ack(*c.Ack)
			e.change.Broadcast()
		}
		e.mu.Unlock()
		if ahead {
			return fault.Protocol("ack of %d, beyond what was sent", *c.Ack)
		}
	}
	if c.Resize != nil {
		if err := e.resize(*c.Resize); err != nil {
			return err
		}
	}
	if c.CloseStdin {
		if err := e.closeStdin(at); err != nil {
			return err
		}
	}
	if c.Forget {
		return e.a.forget(e.spec.ID)
	}
	if c.Kill != nil {
		err := e.signal(*c.Kill)
		var remote *wire.Error
		if errors.As(err, &remote) && remote.Code == wire.CodeNotFound {
			return nil // sent before the host received the Exit
		}
		return err
	}
	return nil
}
