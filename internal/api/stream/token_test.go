package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/event"
)

// clock is a clock that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2025, 10, 28, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestNew(t *testing.T) {
	for name, opts := range map[string]Options{
		"no engine":    {Auth: headers{}, Secret: make([]byte, 32)},
		"no auth":      {Engine: &engine{}, Secret: make([]byte, 32)},
		"short secret": {Engine: &engine{}, Auth: headers{}, Secret: make([]byte, 31)},
	} {
		if _, err := New(opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestRunURL(t *testing.T) {
	c := newClock()
	b := newBench(t, func(o *Options) { o.SignedURLs, o.Now = true, c.Now })
	plain := newBench(t, func(o *Options) {
		o.URL = func(_ *http.Request, path string) string { return "wss://jar.example/base" + path }
	})
	r, err := http.NewRequest("POST", "http://host/api/v1/sandbox/runs", nil)
	if err != nil {
		t.Fatal(err)
	}
	r = r.WithContext(api.WithCaller(r.Context(), belljar.Caller{ID: "ann", Role: belljar.RoleUser}))
	if got, want := plain.door.RunURL(r, belljar.Run{ID: "r"}), "wss://jar.example/base/api/v1/sandbox/runs/r/stream"; got != want {
		t.Errorf("unsigned %s, want %s", got, want)
	}
	if got, want := plain.door.RunURL(r, belljar.Run{ID: "r", ResumeFromSeq: 42}), "/runs/r/stream?from_seq=42"; !strings.HasSuffix(got, want) {
		t.Errorf("unsigned %s, want …%s", got, want)
	}
	got := b.door.RunURL(r, belljar.Run{ID: "r", ResumeFromSeq: 42})
	u, err := url.Parse(got)
	if err != nil || u.Scheme != "ws" || u.Host != "host" || u.Query().Get("exp") != "2025-10-28T12:01:00Z" || u.Query().Get("from_seq") != "42" ||
		!strings.HasPrefix(u.RawQuery, "token=s1.") {
		t.Errorf("signed %s, %v", got, err)
	}
}

// A signed URL opens the stream of its run for its caller until it expires, and no other stream.
func TestSignedURL(t *testing.T) {
	c := newClock()
	b := newBench(t, func(o *Options) { o.SignedURLs, o.Now = true, c.Now })
	finished(b, "r")
	finished(b, "other")
	finished(b, "bobs").owner = "bob"
	query := func(user, run string) string {
		r, err := http.NewRequest("GET", "http://x/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r = r.WithContext(api.WithCaller(r.Context(), belljar.Caller{ID: user, Role: belljar.RoleUser}))
		_, q, _ := strings.Cut(b.door.RunURL(r, belljar.Run{ID: run}), "?")
		return "?" + q
	}
	good := query("ann", "r")
	token, exp, _ := strings.Cut(strings.TrimPrefix(good, "?token="), "&exp=")
	head, sum, _ := strings.Cut(strings.TrimPrefix(token, "s1."), ".")
	foreign, err := newSigner([]byte(strings.Repeat("x", 32))).sign(claims{User: "ann", Run: "r", Expires: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, id, query string
		status          int
	}{
		{"good", "r", good, 101},
		{"again: it is no ticket", "r", good, 101},
		{"without exp", "r", "?token=" + token, 101},
		{"with from_seq", "r", good + "&from_seq=2", 101},
		{"another run", "other", good, 401},
		{"a run that the caller may not see", "bobs", query("ann", "bobs"), 404},
		{"exp is changed", "r", "?token=" + token + "&exp=2099-01-01T00:00:00Z", 401},
		{"exp twice", "r", good + "&exp=" + exp, 401},
		{"exp is empty", "r", "?token=" + token + "&exp=", 401},
		{"another key", "r", "?token=" + foreign, 401},
		{"another version", "r", "?token=s2." + head + "." + sum, 401},
		{"no sum", "r", "?token=s1." + head, 401},
		{"empty sum", "r", "?token=s1." + head + ".", 401},
		{"longer sum", "r", "?token=" + token + "A", 401},
		{"padded", "r", "?token=" + token + "%3D", 401},
		{"line end", "r", "?token=" + token + "%0A", 401},
		{"payload changed", "r", "?token=s1.A" + head[1:] + "." + sum, 401},
		{"empty", "r", "?token=", 401},
		{"huge", "r", "?token=s1." + strings.Repeat("A", 8000), 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn, answer, err := b.dial(test.id, test.query, nil)
			if answer == nil || answer.StatusCode != test.status {
				t.Fatalf("%v, %+v; want %d", err, answer, test.status)
			}
			if conn != nil {
				b.drain(conn)
			}
		})
	}
	c.advance(59 * time.Second)
	if _, _, err := b.dial("r", good, nil); err != nil {
		t.Error(err)
	}
	c.advance(time.Second)
	if _, answer, err := b.dial("r", good, as("ann")); err == nil || answer.StatusCode != 401 {
		t.Errorf("expired, with good headers: %v %+v", err, answer)
	}
	reasons := strings.Join(b.diary.reasons(event.AuthFailed), " ")
	for _, why := range []string{"foreign", "changed", "forged", "unknown", "expired"} {
		if !strings.Contains(reasons, why) {
			t.Errorf("no event for a token that is %s: %s", why, reasons)
		}
	}
}

// ticketFor asks for a ticket.
func ticketFor(b *bench, user, body string) string {
	b.t.Helper()
	answer, text := b.do("POST", api.Prefix+"/tickets", as(user), body)
	var ticket struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal([]byte(text), &ticket); err != nil || answer.StatusCode != 200 || ticket.ExpiresAt.IsZero() {
		b.t.Fatalf("%d %s: %v", answer.StatusCode, text, err)
	}
	if answer.Header.Get("Cache-Control") != "no-store" {
		b.t.Errorf("a ticket may be cached: %v", answer.Header)
	}
	return ticket.Token
}

// A ticket can be used once, with the rights of its caller, until it expires.
func TestTicket(t *testing.T) {
	c := newClock()
	b := newBench(t, func(o *Options) { o.Now = c.Now })
	finished(b, "r")
	events := http.Header{"Accept": {"text/event-stream"}}
	status := func(path string, header http.Header) int {
		t.Helper()
		answer, _ := b.get(path, header)
		return answer.StatusCode
	}

	token := ticketFor(b, "ann", "")
	conn, _, err := b.dial("r", "?token="+token, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.want(conn, hello)
	if got := status(b.path("r", "logs?token="+token), events); got != 401 {
		t.Errorf("the second time: %d", got)
	}
	if got := status(b.path("r", "logs?token="+ticketFor(b, "ann", "{}")), events); got != 200 {
		t.Errorf("events by ticket: %d", got)
	}
	token = ticketFor(b, "bob", "")
	if got := status(b.path("r", "logs?token="+token), nil); got != 404 {
		t.Errorf("bob's ticket for ann's run: %d", got)
	}
	if got := status(b.path("r", "logs?token="+token), nil); got != 401 {
		t.Errorf("it is used up by that: %d", got)
	}

	token = ticketFor(b, "ann", `{"path":"`+b.path("r", "logs")+`"}`)
	if _, answer, _ := b.dial("r", "?token="+token, nil); answer.StatusCode != 401 {
		t.Errorf("a ticket for another path: %d", answer.StatusCode)
	}
	token = ticketFor(b, "ann", `{"path":"`+b.path("r", "logs")+`"}`)
	if got := status(b.path("r", "logs?token="+token+"&from_seq=2"), nil); got != 200 {
		t.Errorf("a ticket for this path: %d", got)
	}

	token = ticketFor(b, "ann", `{"path":"`+b.path("r", "logs")+`?from_seq=2&format=json"}`)
	if got := status(b.path("r", "logs?format=json&token="+token+"&from_seq=2"), nil); got != 200 {
		t.Errorf("a ticket for this query: %d", got)
	}
	token = ticketFor(b, "ann", `{"path":"`+b.path("r", "logs")+`?from_seq=2"}`)
	if got := status(b.path("r", "logs?token="+token), nil); got != 401 {
		t.Errorf("a ticket for another query: %d", got)
	}

	token = ticketFor(b, "ann", "")
	c.advance(time.Minute)
	if got := status(b.path("r", "logs?token="+token), nil); got != 401 {
		t.Errorf("after a minute: %d", got)
	}
	if got := status(b.path("r", "logs?token=t1.AAAA"), nil); got != 401 {
		t.Errorf("an invented ticket: %d", got)
	}
	// A ticket cannot be used to get more tickets.
	token = ticketFor(b, "ann", "")
	if answer, _ := b.do("POST", api.Prefix+"/tickets?token="+token, nil, ""); answer.StatusCode != 401 {
		t.Errorf("a ticket for a ticket: %d", answer.StatusCode)
	}
}

// A request with a ticket is one of its caller's.
func TestTicketEnters(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Enter = func(_ *http.Request, c belljar.Caller) error {
			return &belljar.Error{Code: belljar.CodeRateLimited, Message: c.ID + " has too many"}
		}
	})
	finished(b, "r")
	answer, text := b.get(b.path("r", "logs?token="+ticketFor(b, "ann", "")), nil)
	if answer.StatusCode != http.StatusTooManyRequests || !strings.Contains(text, "ann has too many") {
		t.Errorf("%d %s", answer.StatusCode, text)
	}
}

// If many clients use one ticket concurrently, exactly one succeeds.
func TestTicketRace(t *testing.T) {
	tickets := newTickets(time.Now)
	token, _, err := tickets.issue(api.WithCaller(t.Context(), belljar.Caller{ID: "ann"}), target{})
	if err != nil {
		t.Fatal(err)
	}
	var racing sync.WaitGroup
	won := make(chan string, 32)
	for range cap(won) {
		racing.Go(func() {
			if _, why := tickets.redeem(t.Context(), token, target{path: "/"}, false); why == "" {
				won <- why
			}
		})
	}
	racing.Wait()
	if len(won) != 1 {
		t.Errorf("%d of %d got in", len(won), cap(won))
	}
}

// A ticket, and the request that used it, end with the credentials that it was made with.
func TestTicketRevoked(t *testing.T) {
	tickets := newTickets(time.Now)
	edge, err := api.NewEdge(api.EdgeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	during := func(do func(ctx context.Context)) {
		edge.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { do(r.Context()) })).
			ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
	}
	var uses api.Uses
	issue := func() (token string) {
		during(func(ctx context.Context) {
			if !uses.Note(ctx, uses.Revoked(), "name", "parent") {
				t.Fatal("nothing was revoked")
			}
			if token, _, err = tickets.issue(api.WithCaller(ctx, belljar.Caller{ID: "ann"}), target{}); err != nil {
				t.Fatal(err)
			}
		})
		return token
	}
	for _, name := range []string{"name", "parent"} {
		unused, used := issue(), issue()
		during(func(ctx context.Context) {
			if _, why := tickets.redeem(ctx, used, target{path: "/"}, false); why != "" {
				t.Fatal(why)
			}
			uses.End("another")
			if ctx.Err() != nil {
				t.Error("it ended with another credential")
			}
			uses.End(name)
			if <-ctx.Done(); belljar.CodeOf(context.Cause(ctx)) != belljar.CodeUnauthorized {
				t.Error(context.Cause(ctx))
			}
		})
		if _, why := tickets.redeem(t.Context(), unused, target{path: "/"}, false); why != "unknown" {
			t.Errorf("an unused ticket of a revoked %s: %q", name, why)
		}
	}
	if tickets.queue.Len() != 0 || len(tickets.users) != 0 {
		t.Errorf("%d tickets are left, of %v", tickets.queue.Len(), tickets.users)
	}
	// Revoked between the start of the request and the use of the ticket.
	during(func(ctx context.Context) {
		before := uses.Revoked()
		uses.End("name")
		if uses.Note(ctx, before, "name") {
			t.Error("it was verified before it was revoked")
		}
		uses.Note(ctx, uses.Revoked(), "name")
		uses.End("name")
		if token, _, err := tickets.issue(ctx, target{}); belljar.CodeOf(err) != belljar.CodeUnauthorized {
			t.Errorf("a ticket %q, %v", token, err)
		}
	})
}

// A download accepts a ticket only for its own path and query.
func TestDownloadTicket(t *testing.T) {
	for name, tt := range map[string]struct {
		ticket, request  string
		stream, download bool
	}{
		"any stream":          {"", "/runs/r/logs?from_seq=2", true, false},
		"the path":            {"/fs/raw", "/fs/raw", true, true},
		"path without query":  {"/fs/raw", "/fs/raw?path=a", true, false},
		"the query":           {"/fs/raw?path=a%20b", "/fs/raw?path=a+b", true, true},
		"another order":       {"/fs/archive?path=a&format=zip", "/fs/archive?format=zip&path=a", true, true},
		"another file":        {"/fs/raw?path=a", "/fs/raw?path=b", false, false},
		"a further parameter": {"/fs/raw?path=a", "/fs/raw?path=a&path=b", false, false},
		"less":                {"/fs/archive?path=a&format=zip", "/fs/archive?path=a", false, false},
		"an encoded name":     {"/artifacts/a%20b/%C3%A9.png", "/artifacts/a%20b/é.png", true, true},
		"another name":        {"/artifacts/a", "/artifacts/b", false, false},
		"an encoded slash":    {"/artifacts/a%2Fb", "/artifacts/a/b", true, true}, // the same file
		"the path as a query": {"/artifacts/a%3Fpath=b", "/artifacts/a?path=b", false, false},
	} {
		parse := func(s string) target {
			if s == "" {
				return target{}
			}
			u, err := url.ParseRequestURI(s)
			if err != nil {
				t.Fatal(err)
			}
			return targetOf(u)
		}
		ticket, request := parse(tt.ticket), parse(tt.request+map[bool]string{true: "&", false: "?"}[strings.Contains(tt.request, "?")]+"token=t1.x")
		if got := ticket.allows(request, false); got != tt.stream {
			t.Errorf("%s: a stream: %t", name, got)
		}
		if got := ticket.allows(request, true); got != tt.download {
			t.Errorf("%s: a download: %t", name, got)
		}
	}
}

// Tickets are limited per user, and expired ones do not count.
func TestTicketBound(t *testing.T) {
	c := newClock()
	b := newBench(t, func(o *Options) { o.Now = c.Now })
	for range maxTickets {
		ticketFor(b, "ann", "")
	}
	answer, text := b.do("POST", api.Prefix+"/tickets", as("ann"), "")
	if answer.StatusCode != 429 || answer.Header.Get("Retry-After") != "60" {
		t.Errorf("one too many: %d %v %s", answer.StatusCode, answer.Header, text)
	}
	ticketFor(b, "bob", "")
	c.advance(time.Minute)
	ticketFor(b, "ann", "")
	k := b.door.tickets
	if len(k.byKey) != 1 || len(k.users) != 1 || k.queue.Len() != 1 {
		t.Errorf("%d tickets, %d users, %d in the queue", len(k.byKey), len(k.users), k.queue.Len())
	}
}

func TestTicketRequests(t *testing.T) {
	b := newBench(t)
	for _, test := range []struct {
		body, field string
		status      int
	}{
		{`{"path":5}`, "path", 400},
		{`{"paths":"/x"}`, "paths", 400},
		{`{"path":"x"}`, "path", 400},
		{`{"path":"/x#y"}`, "path", 400},
		{`{"path":"/x?y=%"}`, "path", 400},
		{`{"path":"/x%2"}`, "path", 400},
		{`{"path":"http://127.0.0.1/x"}`, "path", 400},
		{`[]`, "", 400},
		{`{} {}`, "", 400},
		{`{`, "", 400},
		{`{"path":"/` + strings.Repeat("x", maxTicketPath) + `"}`, "path", 400},
		{`{"path":"/` + strings.Repeat("x", maxTicketBody) + `"}`, "", 413},
	} {
		answer, text := b.do("POST", api.Prefix+"/tickets", as("ann"), test.body)
		if answer.StatusCode != test.status || test.field != "" && !strings.Contains(text, fmt.Sprintf(`"field":%q`, test.field)) {
			t.Errorf("%.40s: %d %s; want %d %s", test.body, answer.StatusCode, text, test.status, test.field)
		}
	}
	if answer, _ := b.do("POST", api.Prefix+"/tickets", nil, ""); answer.StatusCode != 401 {
		t.Errorf("for nobody: %d", answer.StatusCode)
	}
}

// FuzzToken: a token that opens was signed, and no other text opens to the same content.
func FuzzToken(f *testing.F) {
	s := newSigner([]byte(strings.Repeat("k", 32)))
	good, err := s.sign(claims{User: "ann", Role: belljar.RoleUser, Run: "r", Expires: 1 << 40})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{good, good + "=", good[:len(good)-1], "s1..", "s1.e30.AAAA", "t1.AAAA", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		p, err := s.open(token)
		if err != nil {
			return
		}
		again, err := s.sign(p)
		if err != nil || again != token {
			t.Errorf("%q is %+v, which is signed as %q, %v", token, p, again, err)
		}
	})
}
