//go:build linux

package idmap

import "testing"

// Every slot of root has its own owner, which no slot maps.
func TestOwners(t *testing.T) {
	for name, pool := range map[string]*Pool{
		"wide":   {layout: wide(), spans: wide().slots([]span{{rootFirst, rootEnd}})},
		"narrow": {layout: narrow(), spans: narrow().slots([]span{{smallFirst, 30000}})},
	} {
		t.Run(name, func(t *testing.T) {
			mapped, owners := []span{}, []span{}
			for _, s := range pool.spans {
				for n := s.first; n < s.end; n++ {
					for _, e := range pool.layout.extents(n) {
						mapped = append(mapped, span{int64(e.Outside), int64(e.Outside + e.Count)})
					}
					o := pool.layout.owner(n)
					owners = append(owners, span{o, o + 1})
				}
			}
			if shared := both(mapped, owners); len(shared) != 0 {
				t.Errorf("owners that are mapped: %v", shared)
			}
			distinct := int64(0)
			for _, s := range merge(owners) {
				distinct += s.size()
			}
			if distinct != int64(len(owners)) || distinct == 0 {
				t.Errorf("%d slots have %d owners", len(owners), distinct)
			}
		})
	}
}

func TestOwnerNeedsRights(t *testing.T) {
	const all, noKill = "CapEff:\t000001ffffffffff\n", "CapEff:\t00000000000000c0\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"root":                             {map[string]string{"/proc/self/status": all}, true},
		"root that may not end them":       {map[string]string{"/proc/self/status": noKill}, false},
		"root whose owners are somebody's": {map[string]string{"/proc/self/status": all, "/etc/subuid": "x:2147418112:1\n"}, false},
		"root in a container with few ids": {map[string]string{"/proc/self/status": all, "/proc/self/uid_map": "0 1 65536\n", "/proc/self/gid_map": "0 1 65536\n"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Discover(Options{Root: machine(t, c.files)})
			if err != nil || p.Mode != ModeRoot || p.owned != c.want {
				t.Errorf("owned %v in mode %s, %v; want %v", p.owned, p.Mode, err, c.want)
			}
		})
	}
}
