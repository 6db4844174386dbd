package client

import "testing"

// A client keeps no input that failed, once its run's reader knows.
func TestFailedFeedIsForgotten(t *testing.T) {
	c := &Client{feeds: map[string]*feed{}}
	f := &feed{c: c, id: "run", done: make(chan struct{})}
	c.feeds["run"] = f
	f.finish(errClosed)
	if err := c.awaitFeed(t.Context(), "run"); err != errClosed || len(c.feeds) != 0 {
		t.Errorf("%v, %d left", err, len(c.feeds))
	}
}
