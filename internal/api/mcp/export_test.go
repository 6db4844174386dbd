package mcp

import "strconv"

// Narrowed returns the server's terms, narrowed by a client's URL.
func (t Terms) Narrowed(query string) (Terms, error) { return t.narrowed(query) }

// FillEnded makes the door remember as many ended sessions as it can.
func (d *Door) FillEnded() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := 0; len(d.ended) < maxEnded; i++ {
		d.ended[strconv.Itoa(i)] = true
	}
}
