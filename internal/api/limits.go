package api

import (
	"math"
	"net/http"
	"net/netip"
	"time"

	"github.com/belljar/belljar"
)

// LimitsOptions say how often one may ask, a minute. Zero is no limit of that kind.
type LimitsOptions struct {
	PerUser    int // requests of one caller, whatever his addresses
	PerAddress int // requests from one address, whoever sends them
	Connects   int // WebSockets opened by one caller, or from one address where the caller is not known
	// MaxKeys is how many callers and addresses are remembered; 0 is 8192 of each kind.
	MaxKeys int
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Limits bound how often one caller or one address may ask. Operators are not counted as callers, and this machine's
// own addresses not as addresses: both could stop the server by other means.
type Limits struct {
	users, addresses, connects *Buckets
}

// NewLimits returns limits with full buckets.
func NewLimits(o LimitsOptions) *Limits {
	return &Limits{
		users:     NewBuckets(o.PerUser, o.MaxKeys, o.Now),
		addresses: NewBuckets(o.PerAddress, o.MaxKeys, o.Now),
		connects:  NewBuckets(o.Connects, o.MaxKeys, o.Now),
	}
}

// Guarded is an authenticator that also counts its callers' requests. Those that open a WebSocket are counted once more
// by [Limits.Connect].
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

// Authenticate fails with [belljar.CodeRateLimited] for a caller who asks too often.
func (l limited) Authenticate(r *http.Request) (belljar.Caller, error) {
	c, err := l.next.Authenticate(r)
	if err != nil || c.Admin() {
		return c, err
	}
	return c, limitedFor(l.limits.users.Take(c.ID), "user")
}

// Connect counts a WebSocket that is about to be opened, by the request's caller if he is known, else by address. The
// error is [belljar.CodeRateLimited].
func (l *Limits) Connect(r *http.Request) error {
	if l == nil {
		return nil
	}
	c := CallerOf(r.Context())
	switch {
	case c.Admin():
		return nil
	case c.ID != "":
		return limitedFor(l.connects.Take("user "+c.ID), "websocket")
	case exempt(c.Address):
		return nil
	}
	return limitedFor(l.connects.Take("address "+Network(c.Address)), "websocket")
}

// admit counts a request by its address.
func (l *Limits) admit(address string) error {
	if l == nil || exempt(address) {
		return nil
	}
	return limitedFor(l.addresses.Take(Network(address)), "address")
}

// limitedFor is the error for one who has to wait; nil if he has not.
func limitedFor(wait time.Duration, scope string) error {
	if wait <= 0 {
		return nil
	}
	return &belljar.Error{
		Code: belljar.CodeRateLimited, Message: "too many requests",
		Details: map[string]any{"retry_after_sec": int(math.Ceil(wait.Seconds())), "scope": scope},
		Hint:    "wait for the seconds in Retry-After, then send the same request again",
	}
}

// exempt reports whether an address is this machine: "" is a unix socket's.
func exempt(address string) bool {
	a, err := netip.ParseAddr(address)
	return address == "" || err == nil && a.IsLoopback()
}

// Network is what counts as one address: all of a version 6 network, since everybody there has as many addresses as
// he likes.
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
