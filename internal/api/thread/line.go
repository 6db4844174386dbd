package thread

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
)

// line is one log event of the thread API.
type line struct {
	user, thread, session string
	command               string
	exit                  int // -1 if there is none
	took                  time.Duration
	bytes                 int64
	reason                string
}

// log logs one of the API's nine events and counts it.
func (c *call) log(name string, l line) {
	if l.thread == "" && l.session != "" {
		if session, err := c.service.Sessions().Get(c.r.Context(), l.session); err == nil {
			l.thread, l.user = session.Labels["thread_id"], session.Labels["user_id"]
		}
	}
	if l.user == "" {
		l.user = c.caller.ID
	}
	c.door.opts.Logger.LogAttrs(c.r.Context(), slog.LevelInfo, l.text(name), slog.String("request_id", c.caller.RequestID))
	c.door.opts.Events.Record(event.Event{
		Name: event.Thread, Kind: name, Time: c.door.opts.Now(), Caller: c.caller, Component: "thread", Took: l.took, Count: l.bytes,
	})
}

// text formats the line as the API defines it.
func (l line) text(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[SANDBOX] event=%s user=%s thread=%s session=%s", name, word(l.user, 8), word(l.thread, 12), word(l.session, 12))
	if l.command != "" {
		fmt.Fprintf(&b, " command=%s", word(l.command, 50))
	}
	if strings.HasPrefix(name, "command_") {
		fmt.Fprintf(&b, " exit_code=%d", l.exit)
	}
	fmt.Fprintf(&b, " duration_ms=%d", l.took.Milliseconds())
	if l.bytes > 0 {
		fmt.Fprintf(&b, " bytes=%d", l.bytes)
	}
	if l.reason != "" {
		fmt.Fprintf(&b, " reason=%s", word(l.reason, 200))
	}
	return b.String()
}

// Watch logs session_expired, the only one of the nine events without a request.
type Watch struct {
	Logger *slog.Logger
	Events event.Sink // counts it
}

// Record implements [event.Sink].
func (w Watch) Record(e event.Event) {
	if e.Name != event.SessionEnded || e.Session == nil || e.Session.State != belljar.SessionExpired {
		return
	}
	thread, ok := e.Session.Labels["thread_id"]
	if !ok {
		return
	}
	l := line{user: e.Session.Labels["user_id"], thread: thread, session: e.Session.ID, took: e.Took}
	w.Logger.Info(l.text("session_expired"))
	w.Events.Record(event.Event{Name: event.Thread, Kind: "session_expired", Time: e.Time, Component: "thread", Took: e.Took})
}

// word returns at most n characters of a text for the log. It replaces control characters, and quotes text with
// blanks.
func word(text string, n int) string {
	runes := []rune(text)
	if len(runes) > n {
		runes = runes[:n]
	}
	blank := false
	for i, r := range runes {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			runes[i] = '?'
		}
		blank = blank || unicode.IsSpace(r) || r == '"'
	}
	if blank {
		return fmt.Sprintf("%q", string(runes))
	}
	return string(runes)
}

// limited logs resource_limit_exceeded if err is about a limit.
func (c *call) limited(err error, session, thread string) {
	switch belljar.CodeOf(err) {
	case belljar.CodeQuotaExceeded, belljar.CodeTooLarge, belljar.CodeDiskFull, belljar.CodeRateLimited:
		c.log("resource_limit_exceeded", line{session: session, thread: thread, reason: string(belljar.CodeOf(err))})
	}
}

// abandonTimeout limits the cancellation in abandon.
const abandonTimeout = 5 * time.Second

// abandon cancels a command whose client has disconnected.
func (c *call) abandon(run string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), abandonTimeout)
	defer cancel()
	if err := c.service.Runs().Cancel(ctx, run); err != nil {
		c.door.opts.Logger.Warn("command of a client that went away could not be cancelled", "run_id", run, "err", err)
	}
}
