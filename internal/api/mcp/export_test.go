package mcp

import (
	"context"
	"crypto/sha256"
	"errors"
	"strconv"

	"github.com/belljar/belljar/internal/api"
)

// Narrowed returns the server's terms, narrowed by a client's URL.
func (t Terms) Narrowed(query string) (Terms, error) { return t.narrowed(query) }

// FillEnded makes the door remember as many ended sessions of a user as it can.
func (d *Door) FillEnded(user string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := 0; len(d.ended[user]) < maxEnded; i++ {
		d.ended[user][sha256.Sum256([]byte(strconv.Itoa(i)))] = true
	}
}

// SetAnswers replaces the door's shares for large answers.
func (d *Door) SetAnswers(s *api.Shares) { d.answers = s }

// FillEvents makes the door keep as many bytes of a session's events as it can.
func (d *Door) FillEvents(ctx context.Context, session string) error {
	store := d.session(session).events
	return errors.Join(store.Open(ctx, session, "large"), store.Append(ctx, session, "large", make([]byte, maxEventBytes)))
}
