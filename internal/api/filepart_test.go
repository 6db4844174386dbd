package api

import (
	"testing"

	"github.com/belljar/belljar"
)

func TestPartOf(t *testing.T) {
	for name, c := range map[string]struct {
		data   string
		offset int64
		size   int64
		text   string
		raw    int
		next   int64
	}{
		"all of it":             {data: "abc", size: 3, text: "abc"},
		"nothing":               {size: 0},
		"its beginning":         {data: "abc", size: 10, text: "abc", next: 3},
		"its middle":            {data: "abc", offset: 4, size: 10, text: "abc", next: 7},
		"a cut character":       {data: "aé"[:2], size: 10, text: "a", next: 1},
		"only a cut character":  {data: "é"[:1], size: 10, raw: 1, next: 1},
		"no text":               {data: "a\xff", size: 2, raw: 2},
		"no text, and cut":      {data: "\xff\xfe", size: 10, raw: 2, next: 2},
		"the end of a bad file": {data: "aé"[:2], offset: 8, size: 10, raw: 2},
	} {
		p := partOf([]byte(c.data), c.offset, c.size)
		text := ""
		if p.Text != nil {
			text = *p.Text
		}
		if text != c.text || len(p.Raw) != c.raw || p.Next != c.next || p.Truncated() != (c.next > 0) || p.Size != c.size {
			t.Errorf("%s: got %q, %d raw, next %d", name, text, len(p.Raw), p.Next)
		}
	}
}

func TestParseMode(t *testing.T) {
	for text, want := range map[string]uint32{"": 0, "0644": 0o644, "755": 0o755, "0777": 0o777} {
		if got, err := ParseMode(text); err != nil || got != want {
			t.Errorf("%q is %o, %v", text, got, err)
		}
	}
	for _, text := range []string{"0", "64", "00644", "4755", "0x1a", "rwx", "-644", "0000", "0888"} {
		if got, err := ParseMode(text); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
			t.Errorf("%q is %o, %v", text, got, err)
		}
	}
}
