package stream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

// socket is one reader of a run by WebSocket. Three parties work on it: the feed reads the log, listen reads what the
// client sends, and serve, the only one who writes, decides when it is over.
type socket struct {
	door   *Door
	caller belljar.Caller
	run    belljar.Run
	stdin  belljar.Stdin // nil if the run takes no input, or not any more
	conn   *websocket.Conn
	wire   *wire
	out    *outbox
	inputs chan struct{} // the run's messages of input in hand

	parties sync.WaitGroup
	over    chan verdict // the first word on why the connection ends
	held    atomic.Bool  // listen waits for the program to read
	pinged  atomic.Bool  // a ping is on its way
	heard   atomic.Int64 // messages of the client

	next  uint64 // the first frame not yet written
	noted bool   // that stdin is closed
	spare []message
}

// webSocket answers GET /runs/{id}/stream.
func (d *Door) webSocket(w http.ResponseWriter, r *http.Request) {
	if err := d.serveSocket(w, r); err != nil {
		api.Fail(w, r, err)
	}
}

// serveSocket serves a WebSocket to its end. An error means that there is none.
func (d *Door) serveSocket(w http.ResponseWriter, r *http.Request) error {
	caller := api.CallerOf(r.Context())
	if err := upgrading(w, r); err != nil {
		return err
	}
	if err := d.opts.Connect(r); err != nil {
		return err
	}
	query, err := api.Query(r, "from_seq", "since_seq", "token", "exp")
	if err != nil {
		return err
	}
	runs := d.opts.Engine.As(caller).Runs()
	run, err := runs.Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	from, err := startOf(query, run.ResumeFromSeq)
	if err != nil {
		return err
	}
	leave, err := d.enter(caller.ID)
	if err != nil {
		return err
	}
	defer leave()

	s := &socket{door: d, caller: caller, run: run, out: newOutbox(), over: make(chan verdict, 1), next: from.seq}
	if run.Interactive && !run.Phase.Terminal() {
		s.stdin, err = runs.Stdin(r.Context(), run.ID)
		switch {
		case belljar.CodeOf(err) == belljar.CodeConflict: // it has ended just now
			s.stdin = nil
		case err != nil:
			return err
		default:
			defer s.stdin.Close()
		}
	}
	s.conn, s.wire, err = d.upgrade(w, r, s.dropped)
	if err != nil {
		d.log.Debug("websocket was not accepted", "run_id", run.ID, "err", err)
		return nil // the library has answered
	}
	defer s.conn.CloseNow()
	s.conn.SetReadLimit(maxInput)

	defer d.watch(s.wire)()
	share := d.shares.join(run.ID)
	defer d.shares.leave(share)
	s.inputs = share.inputs
	begun := time.Now()
	s.record(event.Event{Name: event.StreamOpened})
	v := s.serve(r.Context(), &feed{runs: runs, id: run.ID, from: from, out: s.out, share: share, lend: &d.lend})
	s.record(event.Event{Name: event.StreamClosed, Reason: v.cause, Took: time.Since(begun), Count: s.wire.bytes()})
	return nil
}

// serve runs the three parties until one of them ends the connection, and returns why.
func (s *socket) serve(ctx context.Context, f *feed) verdict {
	ctx, cancel := context.WithCancel(ctx)
	s.parties.Go(func() { f.run(ctx) })
	s.parties.Go(func() {
		s.end(s.listen(ctx))
		s.wire.hurry(parting) // a batch on its way must not hold up the end
	})
	v := s.write()
	if v.cause != causeGone {
		s.wire.part(partingOf(v))
		_ = s.conn.Close(v.code, v.reason) // best effort: the client may be gone
	}
	_ = s.conn.CloseNow()
	cancel()
	if s.stdin != nil {
		_ = s.stdin.Close() // ends a write under way
	}
	s.parties.Wait()
	return v
}

// partingOf is how long the last words may take: one who is slow has had his time.
func partingOf(v verdict) time.Duration {
	if v.cause == causeEnd {
		return lingering
	}
	return parting
}

// end gives the first word on why the connection ends.
func (s *socket) end(v verdict) {
	select {
	case s.over <- v:
	default:
	}
}

// Why connections end, for the metrics.
const (
	causeEnd      = "end"
	causeGone     = "client"
	causeShutdown = "shutdown"
	causeSlow     = "slow"
	causeSilent   = "silent"
	causeProtocol = "protocol"
	causeError    = "error"
)

// write sends what there is to send until the connection is over.
func (s *socket) write() verdict {
	ping := time.NewTicker(s.door.opts.PingEvery)
	defer ping.Stop()
	var closed <-chan struct{}
	if s.stdin != nil {
		closed = s.stdin.Closed()
	}
	for {
		select {
		case v := <-s.over:
			if v.cause == causeSilent {
				v.reason += ", resume with from_seq=" + s.place()
			}
			return v
		case <-s.door.closing:
			return s.shutdown()
		case <-ping.C:
			if !s.held.Load() && s.pinged.CompareAndSwap(false, true) {
				s.parties.Go(s.ping)
			}
		case <-closed:
			closed = nil
			if v, ok := s.send(nil, true); !ok {
				return v
			}
		case <-s.out.ready:
			items, over, err := s.out.take(s.spare)
			if v, ok := s.send(items, false); !ok {
				return v
			}
			clear(items)
			s.spare = items
			switch {
			case over && err == nil:
				return verdict{websocket.StatusNormalClosure, "end of log", causeEnd}
			case over && errors.Is(err, context.Canceled): // the server's own context
				return s.shutdown()
			case over:
				s.door.log.Error("log could not be read", "run_id", s.run.ID, "user_id", s.caller.ID, "err", err)
				return verdict{websocket.StatusInternalError, "internal error, resume with from_seq=" + s.place(), causeError}
			}
		}
	}
}

func (s *socket) shutdown() verdict {
	return verdict{websocket.StatusGoingAway, "server is shutting down, resume with from_seq=" + s.place(), causeShutdown}
}

// place is where the reader goes on, for him.
func (s *socket) place() string {
	if s.next == belljar.Tail {
		return "tail"
	}
	return fmt.Sprint(s.next)
}

// send writes a batch, with the note that stdin is closed where it is due: at the latest before the end event.
func (s *socket) send(items []message, closed bool) (verdict, bool) {
	size := 0
	for _, m := range items {
		size += len(m.data) + 16
	}
	s.wire.hold(size)
	err := s.gather(items, closed)
	if flushed := s.wire.flush(); err == nil {
		err = flushed
	}
	switch {
	case s.wire.isSlow():
		return verdict{websocket.StatusTryAgainLater, "slow reader, resume with from_seq=" + s.place(), causeSlow}, false
	case err != nil:
		return verdict{cause: causeGone}, false
	}
	return verdict{}, true
}

func (s *socket) gather(items []message, closed bool) error {
	if closed {
		if err := s.noteClosed(); err != nil {
			return err
		}
	}
	for _, m := range items {
		if m.event == belljar.EventEnd {
			if err := s.noteClosed(); err != nil {
				return err
			}
		}
		err := s.conn.Write(context.Background(), websocket.MessageText, m.data)
		s.door.lend.back(m.loan)
		if err != nil {
			return err
		}
		if !m.note {
			s.next = m.seq + 1
		}
		if m.kind == belljar.FrameHeartbeat {
			s.record(event.Event{Name: event.HeartbeatSent})
		}
	}
	return nil
}

// noteClosed says, once, that the program's input is closed and why.
func (s *socket) noteClosed() error {
	if s.stdin == nil || s.noted {
		return nil
	}
	s.noted = true
	reason := s.stdin.Reason()
	if reason == "" {
		reason = "run_ended"
	}
	seq := uint64(1)
	if s.next > 1 && s.next != belljar.Tail {
		seq = s.next - 1
	}
	m, err := noteOf(belljar.Frame{
		Seq: seq, Type: belljar.FrameEvent, Event: belljar.EventStdinClosed, Data: map[string]any{"reason": reason},
	})
	if err != nil {
		return err
	}
	return s.conn.Write(context.Background(), websocket.MessageText, m.data)
}

// ping finds out whether the reader is still there.
func (s *socket) ping() {
	defer s.pinged.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), 3*s.door.opts.PingEvery)
	defer cancel()
	heard := s.heard.Load()
	err := s.conn.Ping(ctx)
	// A pong may be stuck behind input that we do not take, or our ping behind output that he has yet to take.
	if err != nil && ctx.Err() != nil && s.heard.Load() == heard && !s.held.Load() && !s.wire.busy() {
		s.record(event.Event{Name: event.StreamDropped, Reason: causeSilent})
		s.end(verdict{websocket.StatusTryAgainLater, "no pong", causeSilent})
	}
}

// dropped counts a reader who was too slow.
func (s *socket) dropped() {
	s.record(event.Event{Name: event.StreamDropped, Reason: causeSlow})
}

func (s *socket) record(e event.Event) {
	e.Caller, e.Run, e.Runtime, e.Component = s.caller, &s.run, s.run.Runtime, "ws"
	s.door.opts.Events.Record(e)
}
