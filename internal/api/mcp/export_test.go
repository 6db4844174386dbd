package mcp

import "strconv"

// Narrowed is what the URL of a client makes of the server's terms.
func (t Terms) Narrowed(query string) (Terms, error) { return t.narrowed(query) }

// FillEnded makes the door remember as many ended sessions as it can.
func (d *Door) FillEnded() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := 0; len(d.ended) < maxEnded; i++ {
		d.ended[strconv.Itoa(i)] = true
	}
}
