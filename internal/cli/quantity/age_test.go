package quantity

import "testing"

func TestAge(t *testing.T) {
	for text, want := range map[string]float64{"30d": 30 * 86400, "0.5d": 43200, "12h": 43200, "90": 90, "1m30s": 90} {
		var a Age
		if err := a.UnmarshalText([]byte(text)); err != nil || float64(a) != want {
			t.Errorf("%s: %v, %v", text, float64(a), err)
		}
	}
	for _, text := range []string{"", "d", "0d", "-1d", "soon", "nand", "infd", "1w", "0"} {
		var a Age
		if err := a.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is %v", text, float64(a))
		}
	}
}
