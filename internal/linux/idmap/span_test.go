package idmap

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var allow = cmp.AllowUnexported(span{})

func TestParseSub(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		mine, all  []span
	}{
		{"empty", "", nil, nil},
		{"by name", "ada:100000:65536\nbob:165536:65536\n", []span{{100000, 165536}}, []span{{100000, 165536}, {165536, 231072}}},
		{"by number", "1000:100000:10\n", []span{{100000, 100010}}, []span{{100000, 100010}}},
		{"several, touching and apart", "ada:100000:10\nada:100010:5\nada:300:1", []span{{300, 301}, {100000, 100015}}, []span{{100000, 100010}, {100010, 100015}, {300, 301}}},
		{"comments and rubbish", "#ada:1:2\nada\nada:x:1\nada:1:-1\nada:1:0\nada:4294967295:9\n:5:5\n", nil, []span{{5, 10}}},
		{"another's prefix", "adam:100000:10\n", nil, []span{{100000, 100010}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mine, all := parseSub(tt.text, "ada", "1000")
			if diff := cmp.Diff(tt.mine, mine, allow); diff != "" {
				t.Errorf("mine (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.all, all, allow); diff != "" {
				t.Errorf("all (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseMap(t *testing.T) {
	for text, want := range map[string][]span{
		"         0          0 4294967295\n":       {{0, 1<<32 - 1}},
		"0 1000 1\n1 100000 65536\n":               {{0, 65537}},
		"0 1000 1\n5 100000 5\nnonsense\n1 2 -3\n": {{0, 1}, {5, 10}},
	} {
		if diff := cmp.Diff(want, parseMap(text), allow); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func FuzzParseSub(f *testing.F) {
	f.Add("ada:100000:65536\n", "ada", "1000")
	f.Add("1000:1:4294967294\n#x\n::", "", "")
	f.Fuzz(func(t *testing.T, text, name, id string) {
		mine, all := parseSub(text, name, id)
		for _, s := range append(mine, all...) {
			if s.first < 0 || s.size() <= 0 || s.end > 1<<32-1 {
				t.Errorf("impossible span %v", s)
			}
		}
		for _, s := range mine {
			if len(both([]span{s}, all)) == 0 {
				t.Errorf("%v is in use and free", s)
			}
		}
		for i := 1; i < len(mine); i++ {
			if mine[i-1].end >= mine[i].first {
				t.Errorf("%v and %v are not merged", mine[i-1], mine[i])
			}
		}
	})
}

// The set operations agree with those on a plain set of numbers.
func TestSpansAreSets(t *testing.T) {
	spans := rapid.Custom(func(t *rapid.T) []span {
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) span {
			first := rapid.Int64Range(0, 60).Draw(t, "first")
			return span{first, first + rapid.Int64Range(1, 20).Draw(t, "size")}
		}), 0, 6).Draw(t, "spans")
	})
	has := func(list []span, n int64) bool {
		for _, s := range list {
			if n >= s.first && n < s.end {
				return true
			}
		}
		return false
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := spans.Draw(t, "a"), spans.Draw(t, "b")
		for n := range int64(90) {
			if got, want := has(without(a, b), n), has(a, n) && !has(b, n); got != want {
				t.Fatalf("%d in a without b: %v", n, got)
			}
			if got, want := has(both(a, b), n), has(a, n) && has(b, n); got != want {
				t.Fatalf("%d in both: %v", n, got)
			}
			if got, want := has(merge(a), n), has(a, n); got != want {
				t.Fatalf("%d in merged: %v", n, got)
			}
		}
	})
}
