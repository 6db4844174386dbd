package shelf

// Reserve reserves room for a layer that is about to be made, until release is called. It sweeps if that makes the room, and reports false if the
// layers that are held leave too little below [Shelf.Keep].
func (s *Shelf) Reserve(bytes, files int64) (release func(), ok bool) {
	room := record{Bytes: bytes, Files: files}.room()
	if ok = s.reserve(room); !ok && room <= s.Keep {
		s.sweep(room)
		ok = s.reserve(room)
	}
	if !ok {
		return nil, false
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reserved -= room
	}, true
}

func (s *Shelf) reserve(room int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.written+s.reserved+room > s.sweepAt {
		return false
	}
	s.reserved += room
	return true
}
