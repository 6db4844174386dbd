package idmap

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// span is the range of host ids from first up to, but not including, end.
type span struct{ first, end int64 }

func (s span) size() int64 { return s.end - s.first }

func (s span) overlaps(t span) bool { return s.first < t.end && t.first < s.end }

func (s span) intersect(t span) span { return span{max(s.first, t.first), min(s.end, t.end)} }

// parseSub parses the text of /etc/subuid or /etc/subgid: the spans of one user, by name or number, and those
// of every user. Like newuidmap, it skips invalid lines.
func parseSub(text, name, id string) (mine, all []span) {
	for line := range strings.Lines(text) {
		parts := strings.Split(strings.TrimSpace(line), ":")
		if len(parts) != 3 || strings.HasPrefix(parts[0], "#") {
			continue
		}
		first, err1 := strconv.ParseUint(parts[1], 10, 32)
		count, err2 := strconv.ParseUint(parts[2], 10, 32)
		if err1 != nil || err2 != nil || count == 0 || first+count > 1<<32-1 {
			continue
		}
		s := span{int64(first), int64(first + count)}
		all = append(all, s)
		if parts[0] != "" && (parts[0] == name || parts[0] == id) {
			mine = append(mine, s)
		}
	}
	return merge(mine), all
}

// parseMap parses the text of /proc/self/uid_map: the ids that exist in our own user namespace.
func parseMap(text string) []span {
	var mapped []span
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		first, err1 := strconv.ParseUint(fields[0], 10, 32)
		count, err2 := strconv.ParseUint(fields[2], 10, 32)
		if err1 != nil || err2 != nil || count == 0 {
			continue
		}
		mapped = append(mapped, span{int64(first), int64(min(first+count, 1<<32-1))})
	}
	return merge(mapped)
}

// merge sorts spans and joins adjacent and overlapping ones.
func merge(spans []span) []span {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	var out []span
	for _, s := range spans {
		if n := len(out); n > 0 && s.first <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, s.end)
			continue
		}
		out = append(out, s)
	}
	return out
}

// both returns the ids that are both in a and in b.
func both(a, b []span) []span {
	var out []span
	for _, s := range a {
		for _, t := range b {
			if i := s.intersect(t); i.size() > 0 {
				out = append(out, i)
			}
		}
	}
	return merge(out)
}

// without returns the ids of a that are not in b.
func without(a, b []span) []span {
	out := merge(a)
	for _, cut := range b {
		var left []span
		for _, s := range out {
			if !s.overlaps(cut) {
				left = append(left, s)
				continue
			}
			if s.first < cut.first {
				left = append(left, span{s.first, cut.first})
			}
			if cut.end < s.end {
				left = append(left, span{cut.end, s.end})
			}
		}
		out = left
	}
	return out
}
