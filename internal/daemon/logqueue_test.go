package daemon

import (
	"bufio"
	"fmt"
	"io"
	"testing"
)

// Lines beyond the queue are dropped while the log has no reader. A later reader gets the others in order, and the number of the lost ones.
func TestLogQueue(t *testing.T) {
	const all = 2 * queuedLines
	r, w := io.Pipe()
	q := newLogQueue(w)
	for i := range all {
		fmt.Fprintf(q, "line %d\n", i)
	}
	q.Close(0) // it is not read: Close does not wait
	kept, lost := 0, 0
	for in := bufio.NewScanner(r); kept+lost < all && in.Scan(); {
		if lost == 0 && in.Text() == fmt.Sprintf("line %d", kept) {
			kept++
		} else if _, err := fmt.Sscanf(in.Text(), "belljar: %d lines of the log were lost", &lost); err != nil {
			t.Fatalf("%q after %d lines", in.Text(), kept)
		}
	}
}
