package client

import "testing"

func TestDiffer(t *testing.T) {
	for _, test := range []struct {
		a, b   string
		differ bool
	}{
		{"", "v1.2.3", false}, {"dev", "v1.2.3", false}, {"(devel)", "1.2.3", false},
		{"v1.2.3", "1.9.0", false}, {"v1.2.3", "v2.0.0", true}, {"v0.3.0", "v0.3.9", false}, {"v0.3.0", "v0.4.0", true},
		{"v0.0.0-20260101000000-abcdef123456", "v0.4.0", false}, {"v1.2.3+meta", "v2.0.0", true},
	} {
		if differ(test.a, test.b) != test.differ || differ(test.b, test.a) != test.differ {
			t.Errorf("differ(%q, %q) = %v", test.a, test.b, !test.differ)
		}
	}
}
