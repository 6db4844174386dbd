package mcp

import (
	"crypto/sha256"
	"strconv"
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
