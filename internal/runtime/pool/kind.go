package pool

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/belljar/belljar/internal/runtime"
)

// mostKinds is the largest number of tracked kinds. Others start cold until one is dropped.
const mostKinds = 64

// kind is a set of interchangeable sandboxes. The pool's mu guards everything except its blank and plain.
type kind struct {
	blank runtime.Spec
	warm  bool      // kept even without requests
	asked int       // number of requests
	used  time.Time // time of the last request
	ready []*entry  // oldest first
	pause time.Time // until then none is made, after a failure
	tries int       // failed births since the last success
	plain time.Time // until then its sandboxes are made without an interpreter, after one did not start; only the keeper uses it
}

// keyOf returns the key of a kind.
func keyOf(blank runtime.Spec) string {
	text, err := json.Marshal(blank)
	if err != nil {
		return "" // it has invalid numbers, and Create refuses it
	}
	return string(text)
}

// first returns the oldest ready entry; nil if there is none, or k is nil.
func (k *kind) first() *entry {
	if k == nil || len(k.ready) == 0 {
		return nil
	}
	e := k.ready[0]
	k.ready = k.ready[1:]
	e.free()
	return e
}

// remove removes an entry from the ready ones; false if it was already taken.
func (k *kind) remove(e *entry) bool {
	i := slices.Index(k.ready, e)
	if i < 0 {
		return false
	}
	k.ready = slices.Delete(k.ready, i, i+1)
	return true
}

// worth reports whether sandboxes of a kind are made in advance: a single request may be the only one.
func (k *kind) worth() bool { return k.warm || k.asked > 1 }

// learn returns the kind of a blank, and makes one if necessary; nil if there are too many. The caller holds mu.
func (p *Pool) learn(blank runtime.Spec) *kind {
	key := keyOf(blank)
	if k := p.kinds[key]; k != nil || key == "" {
		return k
	}
	if len(p.kinds) >= mostKinds {
		oldest := ""
		for key, k := range p.kinds {
			if !k.warm && len(k.ready) == 0 && (oldest == "" || k.used.Before(p.kinds[oldest].used)) {
				oldest = key
			}
		}
		if oldest == "" {
			return nil
		}
		delete(p.kinds, oldest)
	}
	k := &kind{blank: blank}
	p.kinds[key] = k
	return k
}

// ranked returns the kinds worth keeping, the most recently requested first. The caller holds mu.
func (p *Pool) ranked() []*kind {
	var list []*kind
	for _, k := range p.kinds {
		if k.worth() {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b *kind) int {
		if order := b.used.Compare(a.used); order != 0 {
			return order
		}
		return cmp.Compare(keyOf(a.blank), keyOf(b.blank)) // costs much more
	})
	return list
}

// takeAll takes all ready entries, and returns them. The caller holds mu, and destroys them after releasing it.
func (p *Pool) takeAll(why string) (left []*entry) {
	for _, k := range p.kinds {
		for _, e := range k.ready {
			e.free()
			p.stats.Drops[why]++
			left = append(left, e)
		}
		k.ready = nil
	}
	return left
}
