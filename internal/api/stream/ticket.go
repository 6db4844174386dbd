package stream

import (
	"bytes"
	"container/list"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// ticketPrefix is the prefix of tickets, with their version.
const ticketPrefix = "t1."

const (
	// maxTickets bounds the tickets of one user that are neither used nor expired.
	maxTickets = 64
	// maxTicketBody bounds a request for a ticket, maxTicketPath the path in it. Paths of files may be long.
	maxTicketBody = 16 << 10
	maxTicketPath = 14 << 10
)

// ticketTTL is how long a ticket can be used.
const ticketTTL = time.Minute

// tickets are tokens that can be used once. They are in memory only, by their hashes, and do not survive a restart.
type tickets struct {
	now func() time.Time

	mu    sync.Mutex
	byKey map[[sha256.Size]byte]*list.Element
	users map[string]int
	queue list.List // of *ticket, by expiry
}

// ticket is a ticket that is neither used nor expired, unless sweep is due.
type ticket struct {
	key     [sha256.Size]byte
	caller  belljar.Caller
	target  target
	expires time.Time
	use     *api.Use // of the credentials that it was made with
}

// target is the stream or download that a ticket opens. The zero value is any stream.
type target struct {
	path  string // decoded
	query string // canonical; "" for any, if the path is that of a stream
}

// targetOf returns the target of a request's URL.
func targetOf(u *url.URL) target {
	query := u.Query()
	query.Del("token")
	return target{u.Path, query.Encode()}
}

// allows reports whether a ticket for t is valid for a request. A download needs one for its path and query: the query names the file.
func (t target) allows(request target, download bool) bool {
	switch {
	case t.path == "":
		return !download
	case t.query == "" && !download:
		request.query = ""
	}
	return t == request
}

func newTickets(now func() time.Time) *tickets {
	return &tickets{now: now, byKey: map[[sha256.Size]byte]*list.Element{}, users: map[string]int{}}
}

// issue makes a ticket for the caller of ctx, which ends with the caller's credentials.
func (t *tickets) issue(ctx context.Context, to target) (token string, expires time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep()
	caller := api.CallerOf(ctx)
	if t.users[caller.ID] >= maxTickets {
		return "", time.Time{}, &belljar.Error{
			Code: belljar.CodeRateLimited, Message: "too many unused tickets", Hint: "use them, or wait until they expire",
			Details: map[string]any{"maximum": maxTickets, "retry_after_sec": ticketTTL.Seconds(), "scope": "tickets"},
		}
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	token = ticketPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	k := &ticket{
		key: sha256.Sum256([]byte(token)), caller: belljar.Caller{ID: caller.ID, Role: caller.Role},
		target: to, expires: t.now().Add(ticketTTL),
	}
	var valid bool
	if k.use, valid = api.Another(ctx, func() { t.revoke(k.key) }); !valid {
		return "", time.Time{}, &belljar.Error{Code: belljar.CodeUnauthorized, Message: "credentials are no longer valid"}
	}
	t.byKey[k.key] = t.queue.PushBack(k)
	t.users[caller.ID]++
	return token, k.expires, nil
}

// revoke removes a ticket whose credentials were revoked.
func (t *tickets) revoke(key [sha256.Size]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.byKey[key]; ok {
		t.remove(e).use.Release()
	}
}

// redeem removes a ticket and returns its caller, or the reason why it is invalid. The request of ctx ends with the ticket's credentials. It looks tickets up by their hash, so that its
// duration reveals nothing about existing tickets.
func (t *tickets) redeem(ctx context.Context, token string, request target, download bool) (caller belljar.Caller, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep()
	e, ok := t.byKey[sha256.Sum256([]byte(token))]
	if !ok {
		return belljar.Caller{}, "unknown" // or used, or expired
	}
	k := t.remove(e)
	if !k.target.allows(request, download) {
		k.use.Release()
		return belljar.Caller{}, "foreign"
	}
	if !k.use.Pass(ctx) {
		return belljar.Caller{}, "revoked"
	}
	return k.caller, ""
}

// sweep removes expired tickets. The caller holds the lock.
func (t *tickets) sweep() {
	now := t.now()
	for e := t.queue.Front(); e != nil && !now.Before(e.Value.(*ticket).expires); e = t.queue.Front() {
		t.remove(e).use.Release()
	}
}

// remove removes a ticket and returns it. The caller holds the lock.
func (t *tickets) remove(e *list.Element) *ticket {
	k := t.queue.Remove(e).(*ticket)
	delete(t.byKey, k.key)
	if t.users[k.caller.ID]--; t.users[k.caller.ID] == 0 {
		delete(t.users, k.caller.ID)
	}
	return k
}

// issue answers POST /tickets.
func (d *Door) issue(w http.ResponseWriter, r *http.Request) {
	to, err := ticketTarget(w, r)
	if err != nil {
		api.Fail(w, r, err)
		return
	}
	token, expires, err := d.tickets.issue(r.Context(), to)
	if err != nil {
		api.Fail(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	api.WriteJSON(w, http.StatusOK, struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}{token, expires.UTC()})
}

// ticketTarget reads a request for a ticket: an empty body, or the path and query of its target, as in a URL.
func ticketTarget(w http.ResponseWriter, r *http.Request) (target, error) {
	var in struct {
		Path string `json:"path,omitempty"`
	}
	data, _, err := (*api.Shares)(nil).ReadBody(w, r, maxTicketBody)
	if err == nil && len(bytes.TrimSpace(data)) > 0 {
		err = api.Decode(data, &in)
	}
	if err != nil || in.Path == "" {
		return target{}, err
	}
	u, err := url.ParseRequestURI(in.Path)
	if err == nil {
		_, err = url.ParseQuery(u.RawQuery)
	}
	if err != nil || !strings.HasPrefix(in.Path, "/") || strings.Contains(in.Path, "#") || len(in.Path) > maxTicketPath {
		return target{}, api.Refuse("path", "path %.100q is not an absolute path of a URL, with or without a query", in.Path)
	}
	return targetOf(u), nil
}
