package mcp

import "strconv"

// FillEnded makes the door remember as many ended sessions as it can.
func (d *Door) FillEnded() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := 0; len(d.ended) < maxEnded; i++ {
		d.ended[strconv.Itoa(i)] = true
	}
}
