// Package audit writes the audit trail of docs/compatibility.md#audit-trail: one JSON object a line in <path>/audit-YYYYMMDD.jsonl, a file a day
// (UTC), mode 0600. Events whose names begin with "sandbox." belong to it; the others are for the metrics.
//
// It never contains commands, code, environment and output. No caller waits for it: events that do not fit into the queue are counted, and the
// next written line reports how many are missing.
package audit

import (
	"cmp"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belljar/belljar/internal/event"
)

// Lost is the name of the line that states, in count, how many events are missing before it.
const Lost = "audit.lost"

// Options configure a trail.
type Options struct {
	Path          string           // the trail's folder; created if missing
	RetentionDays int              // days to keep a file after its own day; 0 is 30
	RedactPaths   bool             // writes hashes in place of file names and paths
	Queue         int              // largest number of queued events; 0 is 4096
	Logger        *slog.Logger     // logs when writing fails and when it works again; nil discards
	Now           func() time.Time // nil is [time.Now]
	// After is [time.After] unless set.
	After func(d time.Duration) <-chan time.Time
}

// Trail is an [event.Sink].
type Trail struct {
	opts  Options
	queue chan event.Event
	lost  atomic.Int64

	closing sync.Once
	stop    chan struct{} // closed by Close
	done    chan struct{} // closed when all events are written
	failed  error         // of the last write, for Close

	journal *journal // owned by write
	bursts  bursts
	later   <-chan time.Time // when to look whether the minute of a burst is over; nil if there is none; owned by run
	mute    bool             // a failure was logged and persists; owned by write
}

// Open opens the trail in a folder. It fails if the folder is not writable.
func Open(o Options) (*Trail, error) {
	if o.Path == "" {
		return nil, errors.New("audit trail: no folder given")
	}
	if o.RetentionDays <= 0 {
		o.RetentionDays = 30
	}
	if o.Queue <= 0 {
		o.Queue = 4096
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	j, err := openJournal(o.Path, o.RetentionDays, o.Now())
	if err != nil {
		return nil, err
	}
	t := &Trail{
		opts: o, queue: make(chan event.Event, o.Queue), stop: make(chan struct{}), done: make(chan struct{}), journal: j,
	}
	go t.run()
	return t, nil
}

// Record queues e if it belongs to the trail. It never waits. After Close it does nothing.
func (t *Trail) Record(e event.Event) {
	if !strings.HasPrefix(e.Name, "sandbox.") {
		return
	}
	if e.Time.IsZero() {
		e.Time = t.opts.Now()
	}
	rest, ok := t.bursts.add(e)
	if ok {
		rest = append(rest, e)
	}
	for _, e := range rest {
		select {
		case t.queue <- e:
		default:
			t.lost.Add(size(e))
		}
	}
}

// Close writes and syncs all recorded events and returns the error of the last write. It may be called twice.
func (t *Trail) Close() error {
	t.closing.Do(func() { close(t.stop) })
	<-t.done
	return t.failed
}

// run writes events until Close.
func (t *Trail) run() {
	defer close(t.done)
	for {
		select {
		case e := <-t.queue:
			t.linger()
			t.write(e)
		case <-t.later:
			t.later = nil
			t.bursts.mu.Lock()
			rest := t.bursts.turn(t.opts.Now())
			t.bursts.mu.Unlock()
			if len(rest) > 0 {
				t.write(rest...)
			}
		case <-t.stop:
			t.finish()
			return
		}
		if t.later == nil && t.bursts.full() { // the size of a burst must not wait for the next failure
			t.later = t.opts.After(time.Minute)
		}
	}
}

// lingerFor is how long the first event of a batch waits for others, so that a busy server makes one write instead of hundreds.
const lingerFor = 20 * time.Millisecond

// linger waits for more events, unless the queue is short or half full.
func (t *Trail) linger() {
	if len(t.queue) > cap(t.queue)/2 || cap(t.queue) < 1024 {
		return
	}
	select {
	case <-time.After(lingerFor):
	case <-t.stop:
	}
}

// finish writes the queued events and closes the file.
func (t *Trail) finish() {
	for {
		select {
		case e := <-t.queue:
			t.write(e)
			continue
		default:
		}
		break
	}
	t.bursts.mu.Lock()
	rest := t.bursts.end()
	t.bursts.mu.Unlock()
	if len(rest) > 0 || t.lost.Load() > 0 {
		t.write(rest...)
	}
	if err := t.journal.close(); t.failed == nil {
		t.failed = err
	}
}

// batchSize is the approximate number of bytes in one write.
const batchSize = 64 << 10

// write writes events and queued events, up to a batch, with a line for lost events.
func (t *Trail) write(events ...event.Event) {
	var b []byte
	count := int64(0)
	add := func(e event.Event) {
		line, err := encode(e, t.opts.RedactPaths)
		if err != nil {
			t.opts.Logger.Error("event cannot be written to the audit trail", "event", e.Name, "err", err)
			t.lost.Add(size(e))
			return
		}
		b = append(b, line...)
		count += size(e)
	}
	for _, e := range events {
		add(e)
	}
	for waiting := true; waiting && len(b) < batchSize; {
		select {
		case e := <-t.queue:
			add(e)
		default:
			waiting = false
		}
	}
	now := t.opts.Now()
	lost := t.lost.Swap(0)
	if lost > 0 {
		b = append(b, encodeLost(now, lost)...)
	}
	err := t.journal.write(now, b)
	t.failed = err
	switch {
	case err != nil:
		t.lost.Add(lost + count)
		if !t.mute {
			t.opts.Logger.Error("audit trail cannot be written", "path", t.opts.Path, "err", err)
		}
		t.mute = true
	case t.mute:
		t.opts.Logger.Info("audit trail is written again", "path", t.opts.Path, "lost", lost)
		t.mute = false
	}
}
