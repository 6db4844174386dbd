// Package redact replaces secrets in streams of bytes by asterisks, one for each byte.
//
// It finds a secret in plain text, in base64, in hexadecimal, percent-encoded, and escaped as in JSON. Each line of a secret with
// several lines is also found separately. A stream may be split at any position. Other transformations of a secret are not found.
package redact

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"math/bits"
	"slices"
)

const (
	// shortest is the length of the shortest pattern. The first bytes of a pattern, as a number, are its head.
	shortest = 8
	// widest is the maximum length of the window that a search moves over the bytes.
	widest = 32
	// cutAt is the length above which a pattern is split into pieces, of at least half of that. It bounds the bytes that a stream
	// holds back, and the comparisons at each byte of a hostile output.
	cutAt = 256
)

// Patterns are the forms of secrets. They are immutable and safe for concurrent use.
type Patterns struct {
	// A search reads the last two bytes of a window, and moves the window by the shift for these: to the next position at which a
	// pattern could contain them. 0 means that a pattern may begin at the window.
	window  int
	shift   []uint8
	heads   map[uint64][]pattern // by their heads, each list sorted
	sorted  []uint64             // the heads
	begin   [1 << 10]uint64      // bit set of the pairs of bytes that begin a pattern
	first   [256]bool            // the bytes that begin a pattern
	longest int
}

// pattern is a text to redact. A list of patterns is sorted, so that a search takes few steps, even if many have a common beginning.
type pattern struct {
	text []byte
	part int // index of the longest other pattern in the list that is a prefix of this one; -1 for none
}

// New returns the patterns of secrets; nil if there are none.
func New(values ...string) *Patterns {
	var all []string
	for _, v := range values {
		all = append(all, forms(v)...)
	}
	return Exact(all...)
}

// Exact returns the patterns of texts that are found only as they are; nil if there are none. It leaves out texts that are too short.
func Exact(texts ...string) *Patterns {
	all := map[string]bool{}
	for _, text := range texts {
		if len(text) < shortest {
			continue
		}
		for _, piece := range pieces(text) {
			all[piece] = true
		}
	}
	if len(all) == 0 {
		return nil
	}
	p := &Patterns{window: widest, shift: make([]uint8, 1<<16), heads: map[uint64][]pattern{}}
	for text := range all {
		p.window, p.longest = min(p.window, len(text)), max(p.longest, len(text))
	}
	for i := range p.shift {
		p.shift[i] = uint8(p.window - 1)
	}
	for _, text := range slices.Sorted(maps.Keys(all)) {
		p.add([]byte(text))
	}
	slices.Sort(p.sorted)
	return p
}

func (p *Patterns) add(text []byte) {
	for i := range p.window - 1 {
		at := pair(text[i:])
		p.shift[at] = min(p.shift[at], uint8(p.window-2-i))
	}
	h := head(text)
	if p.heads[h] == nil {
		p.sorted = append(p.sorted, h)
	}
	part := len(p.heads[h]) - 1 // a prefix of this pattern sorts before it; patterns in between also begin with that prefix
	for part >= 0 && !bytes.HasPrefix(text, p.heads[h][part].text) {
		part = p.heads[h][part].part
	}
	p.heads[h] = append(p.heads[h], pattern{text, part})
	p.first[text[0]] = true
	p.begin[pair(text)>>6] |= 1 << (pair(text) & 63)
}

// pair returns the first two bytes of b as a number, head the first eight.
func pair(b []byte) uint16 { return binary.BigEndian.Uint16(b) }
func head(b []byte) uint64 { return binary.BigEndian.Uint64(b) }

// span is a range of bytes: from is inclusive, to exclusive. Spans may overlap.
type span struct{ from, to int }

// In reports whether b contains one of the patterns, or a piece of a split one. A nil value has none.
func (p *Patterns) In(b []byte) bool { return p != nil && len(p.find(b)) > 0 }

// apart is the minimum length in bytes of each part of a parallel search.
const apart = 1 << 10

// find returns the spans of all patterns in b, in order.
func (p *Patterns) find(b []byte) []span {
	end := p.window - 1 // last byte of the window
	n := (len(b) - end) / 4
	if n < apart {
		return p.search(nil, b, end, len(b))
	}
	// Each step depends on the previous one. Interleaving four searches, each in its own part of b, keeps the processor busy.
	shift := (*[1 << 16]uint8)(p.shift)
	at := func(end int) int { return int(shift[uint16(b[end-1])<<8|uint16(b[end])]) }
	w, x, y, z := end, end+n, end+2*n, end+3*n
	limits := [5]int{w, x, y, z, len(b)}
	var found [4][]span
	look := func(part, end, step int) int { // with a shift of 0, a pattern may begin there
		if step == 0 {
			found[part] = p.search(found[part], b, end, end+1)
			return 1
		}
		return step
	}
	for w < limits[1] && x < limits[2] && y < limits[3] && z < limits[4] {
		i, j, k, l := at(w), at(x), at(y), at(z)
		if i == 0 || j == 0 || k == 0 || l == 0 {
			i, j, k, l = look(0, w, i), look(1, x, j), look(2, y, k), look(3, z, l)
		}
		w, x, y, z = w+i, x+j, y+k, z+l
	}
	for part, end := range [4]int{w, x, y, z} {
		found[part] = p.search(found[part], b, end, limits[part+1])
	}
	return slices.Concat(found[:]...)
}

// search appends the spans of patterns in b to found, for windows that end before limit.
func (p *Patterns) search(found []span, b []byte, end, limit int) []span {
	shift := (*[1 << 16]uint8)(p.shift)
	for end < limit {
		if n := shift[uint16(b[end-1])<<8|uint16(b[end])]; n > 0 {
			end += int(n)
			continue
		}
		from := end - p.window + 1
		if n := longest(p.heads[head(b[from:])], b[from:]); n > 0 {
			if last := len(found) - 1; last >= 0 && found[last].to >= from {
				found[last].to = max(found[last].to, from+n)
			} else {
				found = append(found, span{from, from + n})
			}
		}
		end++
	}
	return found
}

// longest returns the length of the longest pattern in the list that is a prefix of b; 0 for none.
func longest(list []pattern, b []byte) int {
	// The prefix is the last pattern that does not sort after b, or a prefix of that pattern.
	i, exact := among(list, b)
	if exact {
		return len(b)
	}
	if i--; i < 0 {
		return 0
	}
	common := alike(list[i].text, b)
	for i >= 0 && len(list[i].text) > common {
		i = list[i].part
	}
	if i < 0 {
		return 0
	}
	return len(list[i].text)
}

// alike returns the length of the common prefix of a and b.
func alike(a, b []byte) (n int) {
	for ; n+64 <= min(len(a), len(b)) && string(a[n:n+64]) == string(b[n:n+64]); n += 64 {
	}
	for ; n+8 <= min(len(a), len(b)); n += 8 {
		if x := head(a[n:]) ^ head(b[n:]); x != 0 {
			return n + bits.LeadingZeros64(x)/8
		}
	}
	for ; n < min(len(a), len(b)) && a[n] == b[n]; n++ {
	}
	return n
}

// among returns the position of b in a sorted list, or where it would be inserted.
func among(list []pattern, b []byte) (int, bool) {
	return slices.BinarySearchFunc(list, b, func(p pattern, b []byte) int { return bytes.Compare(p.text, b) })
}

// beginning returns the first offset at which the rest of b is an incomplete beginning of a pattern, or len(b).
func (p *Patterns) beginning(b []byte) int {
	at := max(0, len(b)-p.longest+1)
	for ; at < len(b)-1; at++ {
		n := pair(b[at:])
		if p.begin[n>>6]&(1<<(n&63)) != 0 && p.begins(b[at:]) {
			return at
		}
	}
	if at < len(b) && p.first[b[at]] {
		return at
	}
	return len(b)
}

// begins reports whether b is an incomplete beginning of a pattern.
func (p *Patterns) begins(b []byte) bool {
	if len(b) >= shortest {
		list := p.heads[head(b)]
		i, exact := among(list, b)
		if exact {
			i++
		}
		return i < len(list) && bytes.HasPrefix(list[i].text, b)
	}
	var low [shortest]byte
	copy(low[:], b)
	from := head(low[:])
	i, _ := slices.BinarySearch(p.sorted, from)
	return i < len(p.sorted) && p.sorted[i]-from <= math.MaxUint64>>(8*len(b))
}
