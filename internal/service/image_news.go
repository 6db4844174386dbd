package service

import (
	"context"
	"sync"

	"github.com/belljar/belljar"
)

// news is how far a pull has come, for many who follow it, each as fast as he can: he learns the newest of each layer and
// phase. The zero value is a pull that has not begun.
type news struct {
	mu      sync.Mutex
	items   []item
	at      map[topic]int // where in items the newest of a topic is
	count   int           // of what was told so far
	changed chan struct{} // closed when there is more; made by who waits
}

// topic is what one line of progress is about.
type topic struct{ phase, layer string }

type item struct {
	seq int
	belljar.ImageProgress
}

// add tells everybody.
func (n *news) add(p belljar.ImageProgress) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count++
	about := topic{p.Phase, p.Layer}
	if i, known := n.at[about]; known {
		n.items[i] = item{n.count, p}
	} else {
		if n.at == nil {
			n.at = map[topic]int{}
		}
		n.at[about] = len(n.items)
		n.items = append(n.items, item{n.count, p})
	}
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}

// since returns what is newer than seq, and what tells that there is more.
func (n *news) since(seq int) (list []belljar.ImageProgress, now int, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, i := range n.items {
		if i.seq > seq {
			list = append(list, i.ImageProgress)
		}
	}
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return list, n.count, n.changed
}

// follow tells one what comes, until all is told of a pull that is done. It ends sooner with ctx, and with its error.
func (n *news) follow(ctx context.Context, done <-chan struct{}, tell func(belljar.ImageProgress)) error {
	for seq, last := 0, false; ; {
		list, now, changed := n.since(seq)
		for _, p := range list {
			tell(p)
		}
		if seq = now; last {
			return nil
		}
		select {
		case <-changed:
		case <-done:
			last = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
