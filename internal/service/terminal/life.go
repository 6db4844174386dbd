package terminal

import (
	"context"
	"errors"
	"time"

	"golang.org/x/time/rate"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/event"
)

const (
	// hangupGrace is the time between HUP and TERM, and between TERM and KILL.
	hangupGrace = time.Second
	// keptEnded is how many terminals of a session are kept after their programs end. An owner keeps at most [Limits.PerUser] of them: each has
	// its history in memory, and none counts towards that quota.
	keptEnded = 8
	// reattachTries is how often a broken stream is reattached without new output.
	reattachTries = 3
	// paceBytes is how much output passes before the rate is checked.
	paceBytes = 64 << 10
	// forgetTime bounds a request to the agent to forget a terminal.
	forgetTime = 2 * time.Second
	// resizeGap is the shortest time between two changes of the size.
	resizeGap = 20 * time.Millisecond
)

// run starts the timers and goroutines of a terminal that a caller opened. They end when the program ends, or when the terminal is ended.
func (t *terminal) run(proc *agent.Process, opener belljar.Caller) {
	opts := &t.all.opts
	t.mu.Lock()
	t.proc = proc
	t.mu.Unlock()
	t.record(event.TerminalOpened, opener, "", 0) // before the event of its end
	// The session decides whether the program continues, or is left to the next process.
	endWith := func(reason string) func() {
		return func() {
			t.end(reason)
			t.stop()
		}
	}
	unhook := context.AfterFunc(t.session.Context(), endWith(endedWithSession))
	unclose := context.AfterFunc(opts.Work.Closing(), endWith(endedByShutdown))
	opts.Work.Go(func() {
		t.follow()
		unhook()
		unclose()
	})
	opts.Work.Go(t.writeLoop)
	opts.Work.Go(t.resizeLoop)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last != nil {
		return
	}
	if t.limits.Lifetime > 0 {
		left := t.limits.Lifetime - opts.Clock.Now().Sub(t.state.CreatedAt)
		t.timers = append(t.timers, opts.Clock.AfterFunc(max(left, 0), func() { t.end(endedByLifetime) }))
	}
	if t.limits.Idle > 0 {
		t.timers = append(t.timers, opts.Clock.AfterFunc(t.limits.Idle, t.checkIdle))
	}
	t.startWindow()
}

// checkIdle ends a terminal after its idle time without input and output.
func (t *terminal) checkIdle() {
	t.endIf(endedIdle, func() bool {
		left := t.limits.Idle - t.all.opts.Clock.Now().Sub(t.active)
		if left > 0 && t.last == nil {
			t.timers[len(t.timers)-1] = t.all.opts.Clock.AfterFunc(left, t.checkIdle)
		}
		return left <= 0
	})
}

// startWindow starts the reattach window if no client is attached. The caller holds the lock.
func (t *terminal) startWindow() {
	if len(t.attached) == 0 && t.stopWindow == nil {
		since := t.all.now()
		t.state.DetachedAt = since
		t.stopWindow = t.all.opts.Clock.AfterFunc(t.limits.Reattach, func() { t.checkDetached(since) })
	}
}

// checkDetached ends a terminal after the reattach window that began at a time, unless a client has attached. The timer decides, because
// the clock may have been set back meanwhile.
func (t *terminal) checkDetached(since time.Time) {
	t.endIf(endedDetached, func() bool { return len(t.attached) == 0 && t.state.DetachedAt.Equal(since) })
}

// end ends the terminal and its program, sends its viewers the reason, and hides it from callers. The first reason wins. If the program has
// already ended on its own, the terminal is only forgotten.
func (t *terminal) end(reason string) { t.endIf(reason, func() bool { return true }) }

// endIf is end on a condition. It checks that under the lock, so that no client attaches or types between the check and the end.
func (t *terminal) endIf(reason string, due func() bool) {
	t.mu.Lock()
	exited := t.last != nil && t.last.Kind == belljar.TerminalExit
	if !due() || t.last != nil && !exited {
		t.mu.Unlock()
		return
	}
	proc := t.proc
	t.last = &belljar.TerminalEvent{Kind: belljar.TerminalClosed, Reason: reason}
	t.release()
	t.mu.Unlock()
	if exited {
		t.all.table.leave(t)
		if reason != endedWithSession && reason != endedByShutdown {
			t.all.opts.Work.Do(func() { t.all.opts.Work.Go(t.forget) })
		}
		return
	}
	if reason == endedWithSession || reason == endedByShutdown || reason == endedLost {
		return
	}
	// Shells ignore TERM. They obey HUP and pass it on to their jobs. If a signal cannot be sent, closing the stream ends them.
	late := time.AfterFunc(hangupGrace+t.all.opts.Slack, t.stop) // first: an agent that reads nothing blocks the signals
	context.AfterFunc(t.ctx, func() { late.Stop() })
	_ = proc.Signal(wire.SIGHUP)
	_ = proc.End(hangupGrace)
}

// release sends all viewers how the terminal ended, and stops its timers. The caller holds the lock.
func (t *terminal) release() {
	for _, a := range t.attached {
		a.finish(*t.last)
	}
	t.attached = nil
	for _, stop := range t.timers {
		stop()
	}
	t.timers = nil
	if t.stopWindow != nil {
		t.stopWindow()
		t.stopWindow = nil
	}
}

// follow delivers the output of the program until it ends, and then settles how the terminal ended.
func (t *terminal) follow() {
	begun := time.Now()
	exit, err := t.output()
	opts := &t.all.opts
	t.mu.Lock()
	proc := t.proc
	if t.last == nil {
		switch {
		case err != nil && t.session.Context().Err() != nil: // the session ends the terminal soon
			t.last = &belljar.TerminalEvent{Kind: belljar.TerminalClosed, Reason: endedWithSession}
		case err != nil:
			t.last = &belljar.TerminalEvent{Kind: belljar.TerminalClosed, Reason: endedLost}
			opts.Log.Warn("terminal was lost", "terminal_id", t.id, "session_id", t.sessionID, "err", err)
		default:
			code := exit.Code
			if exit.Signal > 0 {
				code = 128 + exit.Signal
			}
			t.state.ExitCode = &code
			t.last = &belljar.TerminalEvent{Kind: belljar.TerminalExit, ExitCode: code}
		}
	}
	close(t.over) // before viewers know the exit, and open their next terminal at once
	t.release()
	last, closer := *t.last, t.closer
	t.mu.Unlock()
	t.stop()
	proc.Close()
	if err == nil && exit.Cause == wire.CauseKillFailed {
		opts.Destroy(t.sessionID, t.box)
	}
	switch {
	case last.Kind == belljar.TerminalExit:
		t.keep()
	case err == nil:
		t.forget()
		t.all.table.leave(t)
	default:
		t.all.table.leave(t)
	}
	t.record(event.TerminalEnded, closer, string(last.Kind)+" "+last.Reason, time.Since(begun))
}

// forget makes the agent drop the record of a terminal whose program has ended.
func (t *terminal) forget() {
	ctx, cancel := context.WithTimeout(context.Background(), forgetTime)
	defer cancel()
	if err := t.box.Agent.Forget(ctx, execPrefix+t.id); err != nil && !errors.Is(err, agent.ErrDisconnected) {
		t.all.opts.Log.Warn("terminal could not be forgotten", "terminal_id", t.id, "err", err)
	}
}

// keep keeps a terminal whose program has ended, for its reattach window or until its session ends: a client that reattaches gets its exit,
// also from the next process.
func (t *terminal) keep() {
	for _, old := range t.all.table.surplus(t, keptEnded, t.limits.PerUser) {
		old.end(endedDetached)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last.Kind == belljar.TerminalExit { // not ended meanwhile
		t.timers = append(t.timers,
			t.all.opts.Clock.AfterFunc(t.limits.Reattach, func() { t.end(endedDetached) }),
			context.AfterFunc(t.session.Context(), func() { t.end(endedWithSession) }),
			context.AfterFunc(t.all.opts.Work.Closing(), func() { t.end(endedByShutdown) }))
	}
}

// output delivers the output of the program to its end, over another stream if one breaks. The agent keeps as much of it as the history,
// for the next process.
func (t *terminal) output() (wire.Exit, error) {
	pace := rate.NewLimiter(rate.Limit(t.limits.OutputBytes), max(int(t.limits.OutputBytes/4), paceBytes+wire.MaxData))
	proc := t.process()
	next := proc.Started().From
	due := 0 // not yet counted by the rate limit
	for tries := 0; ; {
		begin := next
		exit, err := proc.Follow(t.ctx, func(at int64, _ wire.Stream, b []byte) (int64, error) {
			t.deliver(b)
			next = at + int64(len(b))
			safe := next - int64(t.limits.History)
			if due += len(b); due < paceBytes {
				return safe, nil
			}
			n := due
			due = 0
			return safe, pace.WaitN(t.ctx, n)
		})
		if err == nil || t.ctx.Err() != nil || !errors.Is(err, agent.ErrDisconnected) {
			return exit, err
		}
		if next > begin {
			tries = 0
		}
		if tries++; tries > reattachTries {
			return exit, err
		}
		// Attach waits for an engine that is unavailable, until the runtime knows whether the sandbox lives.
		again, failed := t.box.Agent.Attach(t.ctx, execPrefix+t.id, next)
		if failed != nil {
			return exit, err
		}
		proc = again
		t.mu.Lock()
		t.proc, t.resized = proc, true // the broken stream may not have passed the latest size
		t.mu.Unlock()
		notify(t.resize)
	}
}

func (t *terminal) process() *agent.Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.proc
}

// deliver passes output to all viewers. A full queue delays the program briefly, as a slow line would. A viewer that stays slow is dropped.
func (t *terminal) deliver(b []byte) {
	t.mu.Lock()
	b = append(t.hidden.Write(b), t.hidden.Flush()...) // without delay: a user types, and waits for the echo
	b = t.opening.pass(b)
	t.history.add(b)
	seats := t.attached
	t.mu.Unlock()
	t.touch(len(seats) > 0)
	if len(b) == 0 {
		return
	}
	patience := t.limits.ViewerTimeout
	if len(seats) > 1 {
		patience /= 10
	}
	var late <-chan struct{}
	for _, a := range seats {
		if a.put(b) {
			continue
		}
		if late == nil {
			ctx, cancel := context.WithTimeout(t.ctx, patience)
			defer cancel()
			late = ctx.Done()
		}
		if !a.await(late) || !a.put(b) {
			a.finish(belljar.TerminalEvent{Kind: belljar.TerminalOverflow})
			t.detach(a)
		}
	}
}

// touch records activity and reports it to the session: as a use if a client types or watches, otherwise only as activity.
func (t *terminal) touch(used bool) {
	now := t.all.opts.Clock.Now()
	t.mu.Lock()
	t.active = now
	last := &t.heartbeat
	if used {
		last = &t.used
	}
	tell := now.Sub(*last) >= time.Second // precise enough for a session
	if tell {
		*last = now
	}
	t.mu.Unlock()
	switch {
	case tell && used:
		t.session.Touch()
	case tell:
		t.session.KeepAlive()
	}
}

// record records an event of the terminal.
func (t *terminal) record(name string, caller belljar.Caller, reason string, took time.Duration) {
	state := t.session.Session()
	t.all.opts.Record(event.Event{
		Name: name, Caller: caller, Session: &state, Runtime: state.Runtime,
		Reason: reason, Took: took, Detail: map[string]string{"terminal_id": t.id},
	})
}
