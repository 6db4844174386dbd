package auth

import (
	"crypto/sha256"
	"sync"
)

// maxKnown limits the known credentials. Above it all are removed; the next request adds a valid one again.
const maxKnown = 16384

// known is the set of credentials, as hashes, that were valid from an address. It only exempts them from the rate limit:
// they are still verified.
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
	if len(k.good) >= maxKnown {
		clear(k.good)
	}
	k.good[m] = struct{}{}
}
