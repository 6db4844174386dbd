//go:build linux

package forkexec

import (
	"os"
	"testing"
)

func TestParseStat(t *testing.T) {
	const rest = " S 1 2 3 0 -1 4194304 100 200 0 0 1 2 3 4 20 0 1 0 8123 1000 50"
	for name, c := range map[string]struct {
		text string
		want Stat
		ok   bool
	}{
		"a program":                {"17 (cat)" + rest, Stat{StartTime: 8123}, true},
		"a fork":                   {"17 (cat) S 1 2 3 0 -1 4194368 100 200 0 0 1 2 3 4 20 0 1 0 8123 1000 50", Stat{StartTime: 8123, Forked: true}, true},
		"brackets in the name":     {"17 (a) R 9 (b)" + rest, Stat{StartTime: 8123}, true},
		"a newline in the name":    {"17 (a\n1)" + rest, Stat{StartTime: 8123}, true},
		"cut short":                {"17 (cat) S 1 2 3 0 -1 4194304 100", Stat{}, false},
		"no name":                  {"", Stat{}, false},
		"flags that are no number": {"17 (cat) S 1 2 3 0 -1 x 100 200 0 0 1 2 3 4 20 0 1 0 8123 1000 50", Stat{}, false},
		"a time that is no number": {"17 (cat) S 1 2 3 0 -1 4194304 100 200 0 0 1 2 3 4 20 0 1 0 soon 1000 50", Stat{}, false},
		"a time that is too large": {"17 (cat) S 1 2 3 0 -1 4194304 100 200 0 0 1 2 3 4 20 0 1 0 99999999999999999999 1 5", Stat{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat(c.text)
			if (err == nil) != c.ok || c.ok && got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
	if stat, err := ReadStat(os.Getpid()); err != nil || stat.Forked || stat.StartTime == 0 {
		t.Errorf("of this process: %+v, %v", stat, err)
	}
	if _, err := ReadStat(1 << 30); err == nil {
		t.Error("of none: no error")
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("17 (cat) S 1 2 3 0 -1 4194368 100 200 0 0 1 2 3 4 20 0 1 0 8123 1000 50")
	f.Add("17 (a) R 9 (b) S 1 2 3")
	f.Add(")")
	f.Fuzz(func(t *testing.T, text string) {
		stat, err := parseStat(text)
		if err != nil && stat != (Stat{}) {
			t.Errorf("%+v beside the error %v", stat, err)
		}
	})
}
