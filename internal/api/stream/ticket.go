package stream

import (
	"bytes"
	"container/list"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// ticketPrefix begins every ticket and tells its version.
const ticketPrefix = "t1."

const (
	// maxTickets is how many tickets one user may have that are neither used nor expired.
	maxTickets = 64
	// maxTicketBody bounds a request for a ticket.
	maxTicketBody = 4 << 10
)

// tickets are tokens that are good once. They are kept in memory, by their hashes: after a restart there are none.
type tickets struct {
	ttl time.Duration
	now func() time.Time

	mu    sync.Mutex
	byKey map[[sha256.Size]byte]*list.Element
	users map[string]int
	queue list.List // of *ticket, by expiry
}

// ticket is one of them.
type ticket struct {
	key     [sha256.Size]byte
	caller  belljar.Caller
	path    string // the only one it is good for; "" is any
	expires time.Time
}

func newTickets(ttl time.Duration, now func() time.Time) *tickets {
	return &tickets{ttl: ttl, now: now, byKey: map[[sha256.Size]byte]*list.Element{}, users: map[string]int{}}
}

// issue makes a ticket for a caller.
func (t *tickets) issue(caller belljar.Caller, path string) (token string, expires time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep()
	if t.users[caller.ID] >= maxTickets {
		return "", time.Time{}, &belljar.Error{
			Code: belljar.CodeRateLimited, Message: "too many unused tickets", Hint: "use them, or wait until they expire",
			Details: map[string]any{"maximum": maxTickets, "retry_after_sec": math.Ceil(t.ttl.Seconds()), "scope": "tickets"},
		}
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	token = ticketPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	k := &ticket{
		key: sha256.Sum256([]byte(token)), caller: belljar.Caller{ID: caller.ID, Role: caller.Role},
		path: path, expires: t.now().Add(t.ttl),
	}
	t.byKey[k.key] = t.queue.PushBack(k)
	t.users[caller.ID]++
	return token, k.expires, nil
}

// redeem uses a ticket up and returns whose it was, or why it is no good. Tickets are found by their hash, so that the time
// it takes tells nothing about those that are there.
func (t *tickets) redeem(token, path string) (caller belljar.Caller, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep()
	e, ok := t.byKey[sha256.Sum256([]byte(token))]
	if !ok {
		return belljar.Caller{}, "unknown" // used and expired, too
	}
	k := t.drop(e)
	if k.path != "" && k.path != path {
		return belljar.Caller{}, "foreign"
	}
	return k.caller, ""
}

// sweep drops what has expired. The caller holds the lock.
func (t *tickets) sweep() {
	now := t.now()
	for e := t.queue.Front(); e != nil && !now.Before(e.Value.(*ticket).expires); e = t.queue.Front() {
		t.drop(e)
	}
}

// drop forgets a ticket and returns it. The caller holds the lock.
func (t *tickets) drop(e *list.Element) *ticket {
	k := t.queue.Remove(e).(*ticket)
	delete(t.byKey, k.key)
	if t.users[k.caller.ID]--; t.users[k.caller.ID] == 0 {
		delete(t.users, k.caller.ID)
	}
	return k
}

// issue answers POST /tickets.
func (d *Door) issue(w http.ResponseWriter, r *http.Request) {
	path, err := ticketPath(w, r)
	if err != nil {
		api.Fail(w, r, err)
		return
	}
	token, expires, err := d.tickets.issue(api.CallerOf(r.Context()), path)
	if err != nil {
		api.Fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(struct { // a client that is gone needs no answer
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}{token, expires.UTC()})
}

// ticketPath reads a request for a ticket: nothing, or the path that it is to be good for.
func ticketPath(w http.ResponseWriter, r *http.Request) (string, error) {
	var in struct {
		Path string `json:"path,omitempty"`
	}
	data, _, err := (*api.Shares)(nil).ReadBody(w, r, maxTicketBody)
	if err == nil && len(bytes.TrimSpace(data)) > 0 {
		err = api.Decode(data, &in)
	}
	switch {
	case err != nil:
		return "", err
	case in.Path != "" && (!strings.HasPrefix(in.Path, "/") || strings.ContainsAny(in.Path, "?#") || len(in.Path) > 1024):
		return "", invalid("path", "path %.100q is not an absolute path without a query", in.Path)
	}
	return in.Path, nil
}
