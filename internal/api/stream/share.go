package stream

import "sync"

const (
	// minSharingReaders is the minimum number of a run's readers at which they share its encoded frames.
	minSharingReaders = 4
	// maxRunInputs bounds the input messages of all clients of a run, from the header of a message until the program has read
	// it. It bounds their memory for any number of connections.
	maxRunInputs = 16
	// maxSharedBytes bounds the shared frames of one run.
	maxSharedBytes = 1 << 20
)

// shares are the runs that have readers.
type shares struct {
	mu   sync.Mutex
	runs map[string]*share
}

// share is the latest encoded frames of a run, for all its readers. Readers of a live run are at about the same position, so
// that nearly all of them find what the first one encoded.
type share struct {
	id      string
	readers int           // guarded by shares.mu, and by mu for reading
	inputs  chan struct{} // one token for each input message

	mu     sync.Mutex
	frames map[uint64][]byte
	order  []uint64 // keys of frames, the oldest first
	bytes  int
}

// join counts a reader of a run.
func (s *shares) join(id string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs == nil {
		s.runs = map[string]*share{}
	}
	sh, ok := s.runs[id]
	if !ok {
		sh = &share{id: id, inputs: make(chan struct{}, maxRunInputs), frames: map[uint64][]byte{}}
		s.runs[id] = sh
	}
	sh.mu.Lock()
	sh.readers++
	sh.mu.Unlock()
	return sh
}

// leave removes a reader.
func (s *shares) leave(sh *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh.mu.Lock()
	sh.readers--
	empty := sh.readers == 0
	if sh.readers < minSharingReaders {
		clear(sh.frames)
		sh.order, sh.bytes = nil, 0
	}
	sh.mu.Unlock()
	if empty {
		delete(s.runs, sh.id)
	}
}

// find returns an encoded frame; nil if there is none. shared reports whether keep keeps frames now.
func (sh *share) find(seq uint64) (data []byte, shared bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.frames[seq], sh.readers >= minSharingReaders
}

// keep keeps an encoded frame for other readers. The caller must not change it later.
func (sh *share) keep(seq uint64, data []byte) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if _, ok := sh.frames[seq]; ok || sh.readers < minSharingReaders {
		return
	}
	sh.frames[seq] = data
	sh.order = append(sh.order, seq)
	sh.bytes += cap(data)
	for sh.bytes > maxSharedBytes {
		oldest := sh.order[0]
		sh.order = sh.order[1:]
		sh.bytes -= cap(sh.frames[oldest])
		delete(sh.frames, oldest)
	}
}
