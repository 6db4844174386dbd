package quantity

import (
	"encoding"
	"testing"
)

func TestValues(t *testing.T) {
	parse := func(into encoding.TextUnmarshaler, text string) error { return into.UnmarshalText([]byte(text)) }
	t.Run("seconds", func(t *testing.T) {
		for text, want := range map[string]Seconds{"30": 30, "1.5": 1.5, "30s": 30, "5m": 300, "1h30m": 5400, "250ms": 0.25} {
			var got Seconds
			if err := parse(&got, text); err != nil || got != want {
				t.Errorf("%q: %v, %v; want %v", text, got, err, want)
			}
		}
		for _, text := range []string{"", "0", "-1", "-1s", "soon", "1 s", "nan", "inf", "5 m", "1d"} {
			var got Seconds
			if err := parse(&got, text); err == nil {
				t.Errorf("%q: taken as %v", text, got)
			}
		}
	})
	t.Run("mebibytes", func(t *testing.T) {
		for text, want := range map[string]Mebibytes{
			"512": 512, "512m": 512, "512M": 512, "512MiB": 512, "1g": 1024, "1.5g": 1536, "2048k": 2, "1t": 1 << 20, "1e9t": 1<<31 - 1,
		} {
			var got Mebibytes
			if err := parse(&got, text); err != nil || got != want {
				t.Errorf("%q: %v, %v; want %v", text, got, err, want)
			}
		}
		for _, text := range []string{"", "0", "0g", "-1", "m", "1x", "1.5", "1k", "nan", "inf", "1 mb2", "0x10"} {
			var got Mebibytes
			if err := parse(&got, text); err == nil {
				t.Errorf("%q: taken as %v", text, got)
			}
		}
	})
	t.Run("count", func(t *testing.T) {
		for _, text := range []string{"", "0", "-1", "1.5", "1k", "2147483648"} {
			var got Count
			if err := parse(&got, text); err == nil {
				t.Errorf("%q: taken as %v", text, got)
			}
		}
	})
}

func FuzzMebibytes(f *testing.F) {
	for _, seed := range []string{"512", "1g", "-1", "1e400", "0.0000001m", "١"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got Mebibytes
		if err := got.UnmarshalText([]byte(text)); err == nil && got < 1 {
			t.Errorf("%q: taken as %d", text, got)
		}
	})
}
