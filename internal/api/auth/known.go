package auth

import (
	"crypto/sha256"
	"sync"
)

// mostKnown is how many good credentials are remembered. When there are more, all are forgotten: whoever is in the
// right is back with his next request.
const mostKnown = 16384

// known remembers which credential was right from which address. It holds hashes, and lets nobody in: what it knows is
// verified like anything else.
type known struct {
	mu   sync.RWMutex
	good map[[sha256.Size]byte]struct{}
}

func newKnown() *known { return &known{good: map[[sha256.Size]byte]struct{}{}} }

func mark(address, text string) [sha256.Size]byte {
	return sha256.Sum256([]byte(address + "\x00" + text))
}

func (k *known) has(address, text string) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	_, ok := k.good[mark(address, text)]
	return ok
}

func (k *known) add(address, text string) {
	m := mark(address, text)
	k.mu.RLock()
	_, ok := k.good[m]
	k.mu.RUnlock()
	if ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.good) >= mostKnown {
		clear(k.good)
	}
	k.good[m] = struct{}{}
}
