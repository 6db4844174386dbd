package idmap

// Extent maps Count ids from Inside, in the sandbox, to Outside, on the host.
type Extent struct {
	Inside  int `json:"inside"`
	Outside int `json:"outside"`
	Count   int `json:"count"`
}

// A layout states how a slot's ids are used. Slots start at multiples of their size among all ids of the host, independent of
// the available ids: claims made under different contents of /etc/subuid never overlap.
type layout struct {
	size   int64
	inside []Extent // Outside counts from the slot's first id
	// owners is the first of the ids that own the user namespaces, one for each slot in turn. 0 means that the last id of
	// each slot is its owner, which is mapped to no id inside.
	owners int64
}

const (
	// Root's slots are above the ids of systemd-nspawn (they end at 1879048191), and below 2³¹, from which on some programs
	// see a negative number. Their owners are above them.
	rootFirst  = 0x70000000
	rootEnd    = 0x7fff0000
	rootOwners = rootEnd
	// If only part of the ids exist for us (root in a container), those below this one are assumed to belong to people and
	// services.
	smallFirst = 10000
	nobody     = 65534
)

// wide is root's layout: all the ids that an image can use.
func wide() layout {
	return layout{size: 65536, inside: []Extent{{Inside: 0, Outside: 0, Count: 65536}}, owners: rootOwners}
}

// narrow is the layout for few ids, so that the usual 65,536 subordinate ids are enough for 2,730 sandboxes: root, the user
// and the user nobody, each with a few ids after it.
func narrow() layout {
	return layout{size: 24, inside: []Extent{
		{Inside: 0, Outside: 0, Count: 8},
		{Inside: 1000, Outside: 8, Count: 8},
		{Inside: nobody, Outside: 16, Count: 7},
	}}
}

// slots returns the complete slots within the spans, as spans of slots.
func (l layout) slots(ids []span) []span {
	var out []span
	for _, s := range merge(ids) {
		first, end := (s.first+l.size-1)/l.size, s.end/l.size
		if first < end {
			out = append(out, span{first, end})
		}
	}
	return out
}

// owner returns the id that owns the user namespace of the host's n-th slot.
func (l layout) owner(n int64) int64 {
	if l.owners != 0 {
		return l.owners + n - rootFirst/l.size
	}
	return (n+1)*l.size - 1
}

// extents returns the mappings of the host's n-th slot.
func (l layout) extents(n int64) []Extent {
	out := make([]Extent, len(l.inside))
	for i, e := range l.inside {
		e.Outside += int(n * l.size)
		out[i] = e
	}
	return out
}
