package api

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/belljar/belljar"
)

// mostOpen limits the requests in progress of one user, and from one address, so that none of them takes all connections of a server.
const mostOpen = maxConns / 4

// LimitsOptions are rates per minute. Zero means no limit.
type LimitsOptions struct {
	PerUser    int // requests of one caller, from all addresses
	PerAddress int // requests from one address, of all callers
	Connects   int // WebSockets opened by one caller, or from one address before authentication
	// Open limits the requests of one caller, and from one address, that are in progress at the same time; 0 means 2048.
	Open int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Limits are the rate limits of callers and addresses. Operators and loopback addresses are exempt: both could stop the
// server by other means.
type Limits struct {
	users, addresses, connects *Buckets
	open                       *open
}

// NewLimits returns limits with full buckets.
func NewLimits(o LimitsOptions) *Limits {
	return &Limits{
		open:      &open{most: cmp.Or(o.Open, mostOpen), by: map[string]int{}},
		users:     NewBuckets(o.PerUser, 0, o.Now),
		addresses: NewBuckets(o.PerAddress, 0, o.Now),
		connects:  NewBuckets(o.Connects, 0, o.Now),
	}
}

// Guarded wraps an authenticator with the rate limit per caller. [Limits.Connect] counts WebSockets in addition.
func (l *Limits) Guarded(a Authenticator) Authenticator {
	if l == nil {
		return a
	}
	return limited{l, a}
}

type limited struct {
	limits *Limits
	next   Authenticator
}

// Authenticate fails with [belljar.CodeRateLimited] if the caller exceeds the rate.
func (l limited) Authenticate(r *http.Request) (belljar.Caller, error) {
	c, err := l.next.Authenticate(r)
	if err != nil || c.Admin() {
		return c, err
	}
	more := func() error { return Exceeded(l.limits.users.Take(c.ID), "user") }
	if err := more(); err != nil {
		return c, err
	}
	if rec := recordOf(r.Context()); rec != nil {
		rec.more = more
	}
	return c, l.limits.Enter(r, c)
}

// CountMore counts n more requests of the caller, for a request that consists of several. The error is [belljar.CodeRateLimited].
func CountMore(ctx context.Context, n int) error {
	rec := recordOf(ctx)
	for ; n > 0 && rec != nil && rec.more != nil; n-- {
		if err := rec.more(); err != nil {
			return err
		}
	}
	return nil
}

// Enter counts a request of a caller while it is in progress, as [Limits.Guarded] does. Call it for callers that are authenticated in
// another way. The error is [belljar.CodeRateLimited].
func (l *Limits) Enter(r *http.Request, c belljar.Caller) error {
	if l == nil || c.Admin() {
		return nil
	}
	return l.open.enter(recordOf(r.Context()), "user", c.ID)
}

// Connect counts a WebSocket before it is opened, by caller, or by address before authentication. The error is
// [belljar.CodeRateLimited].
func (l *Limits) Connect(r *http.Request) error {
	if l == nil {
		return nil
	}
	c := CallerOf(r.Context())
	switch {
	case c.Admin():
		return nil
	case c.ID != "":
		return Exceeded(l.connects.Take("user "+c.ID), "websocket")
	case exempt(c.Address):
		return nil
	}
	return Exceeded(l.connects.Take("address "+Network(c.Address)), "websocket")
}

// admit counts a request by its address.
func (l *Limits) admit(rec *record) error {
	if l == nil || exempt(rec.address) {
		return nil
	}
	if err := Exceeded(l.addresses.Take(Network(rec.address)), "address"); err != nil {
		return err
	}
	return l.open.enter(rec, "address", Network(rec.address))
}

// open counts requests in progress, by caller or by address.
type open struct {
	most int

	mu sync.Mutex
	by map[string]int
}

// enter counts the request of rec until it ends. The error is [belljar.CodeRateLimited]. A request without a record does not count.
func (o *open) enter(rec *record, scope, whose string) error {
	if rec == nil {
		return nil
	}
	key := scope + " " + whose
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.by[key] >= o.most {
		return &belljar.Error{
			Code: belljar.CodeRateLimited, Message: "too many requests are in progress at once",
			Details: map[string]any{"retry_after_sec": 1, "scope": scope, "maximum": o.most},
			Hint:    "let some of your requests and streams end, then send this one again",
		}
	}
	o.by[key]++
	rec.leave = append(rec.leave, func() { o.leave(key) })
	return nil
}

func (o *open) leave(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.by[key]--; o.by[key] == 0 {
		delete(o.by, key)
	}
}

// Exceeded returns the error of a limit whose next request may come after wait; nil if that is now. scope names the limit.
func Exceeded(wait time.Duration, scope string) error {
	if wait <= 0 {
		return nil
	}
	return &belljar.Error{
		Code: belljar.CodeRateLimited, Message: "too many requests",
		Details: map[string]any{"retry_after_sec": int(math.Ceil(wait.Seconds())), "scope": scope},
		Hint:    "wait for the seconds in Retry-After, then send the same request again",
	}
}

// exempt reports whether an address is local: loopback, or "" for a unix socket.
func exempt(address string) bool {
	a, err := netip.ParseAddr(address)
	return address == "" || err == nil && a.IsLoopback()
}

// Network returns what the limits count as one address: the /64 network of an IPv6 address, since one client usually
// has all of it.
func Network(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil || !a.Is6() {
		return address
	}
	p, err := a.Prefix(64)
	if err != nil {
		return address
	}
	return p.String()
}
