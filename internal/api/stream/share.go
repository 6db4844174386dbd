package stream

import "sync"

const (
	// shareFrom is how many readers a run must have for its encoded frames to be kept for the next of them.
	shareFrom = 4
	// shareInputs is how many messages of input a run's clients may have in hand together, from the head of a message until
	// the program has taken it: as many as hold its memory, however many connections there are.
	shareInputs = 16
	// shareBytes bounds what is kept of one run.
	shareBytes = 1 << 20
)

// shares are the runs that are being read.
type shares struct {
	mu   sync.Mutex
	runs map[string]*share
}

// share is what the readers of one run have in common: the frames encoded last. Readers of a live run are all at about
// the same place, so nearly all of them find what the first of them has made.
type share struct {
	id      string
	readers int           // guarded by shares.mu, and by mu for reading
	inputs  chan struct{} // one for each message of input in hand

	mu     sync.Mutex
	frames map[uint64][]byte
	order  []uint64 // of frames, as they came
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
		sh = &share{id: id, inputs: make(chan struct{}, shareInputs), frames: map[uint64][]byte{}}
		s.runs[id] = sh
	}
	sh.mu.Lock()
	sh.readers++
	sh.mu.Unlock()
	return sh
}

// leave ends what join began.
func (s *shares) leave(sh *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh.mu.Lock()
	sh.readers--
	empty := sh.readers == 0
	if sh.readers < shareFrom {
		clear(sh.frames)
		sh.order, sh.bytes = nil, 0
	}
	sh.mu.Unlock()
	if empty {
		delete(s.runs, sh.id)
	}
}

// find returns an encoded frame, if it is there, and whether it is worth keeping if not.
func (sh *share) find(seq uint64) (data []byte, worth bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.frames[seq], sh.readers >= shareFrom
}

// keep keeps an encoded frame for other readers. It must not be changed any more.
func (sh *share) keep(seq uint64, data []byte) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if _, ok := sh.frames[seq]; ok || sh.readers < shareFrom {
		return
	}
	sh.frames[seq] = data
	sh.order = append(sh.order, seq)
	sh.bytes += cap(data)
	for sh.bytes > shareBytes {
		oldest := sh.order[0]
		sh.order = sh.order[1:]
		sh.bytes -= cap(sh.frames[oldest])
		delete(sh.frames, oldest)
	}
}
