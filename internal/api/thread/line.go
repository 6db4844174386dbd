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

// line is what one log event of the thread API says.
type line struct {
	user, thread, session string
	command               string
	exit                  int // -1 if there is none
	took                  time.Duration
	bytes                 int64
	reason                string
}

// say logs one of the API's nine events and counts it.
func (c *call) say(name string, l line) {
	if l.thread == "" && l.session != "" {
		if session, err := c.Sessions().Get(c.r.Context(), l.session); err == nil {
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

// text is the line in the API's form.
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

// Watch tells of the threads whose sessions end by themselves: session_expired, the one of the nine events that no
// request brings about.
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

// word is a text of at most n characters for a line of the log: on that line, and quoted if it has blanks.
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

// limited tells of a bound that a request ran into, if that is what err says.
func (c *call) limited(err error, session, thread string) {
	switch belljar.CodeOf(err) {
	case belljar.CodeQuotaExceeded, belljar.CodeTooLarge, belljar.CodeDiskFull, belljar.CodeRateLimited:
		c.say("resource_limit_exceeded", line{session: session, thread: thread, reason: string(belljar.CodeOf(err))})
	}
}

// abandonTime bounds the cancelling of a command that nobody waits for.
const abandonTime = 5 * time.Second

// abandon cancels a command whose client has gone away.
func (c *call) abandon(run string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), abandonTime)
	defer cancel()
	if err := c.Runs().Cancel(ctx, run); err != nil {
		c.door.opts.Logger.Warn("command of a client that went away could not be cancelled", "run_id", run, "err", err)
	}
}
