package outcome

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestBriefCommand(t *testing.T) {
	big := strings.Repeat("é", mostCommand)
	for name, c := range map[string]struct {
		argv []string
		want int // number of arguments
		cut  bool
	}{
		"none":         {nil, 0, false},
		"short":        {[]string{"sh", "-c", "true"}, 3, false},
		"just fits":    {[]string{strings.Repeat("a", mostCommand-1)}, 1, false},
		"too long":     {[]string{"echo", big}, 2, true},
		"too long 0":   {[]string{big, "x"}, 1, true},
		"many":         {slices.Repeat([]string{"aaaa"}, mostCommand), mostCommand/5 + 1, true},
		"one too many": {[]string{strings.Repeat("a", mostCommand-1), "x"}, 1, true},
	} {
		kept, cut := TruncateCommand(c.argv)
		total := 0
		for i, arg := range kept {
			total += len(arg) + 1
			if !utf8.ValidString(arg) || !strings.HasPrefix(c.argv[i], arg) {
				t.Errorf("%s: argument %d is another: %.20q", name, i, arg)
			}
		}
		if len(kept) != c.want || cut != c.cut || total > mostCommand+1 {
			t.Errorf("%s: %d arguments, %d bytes, cut %v", name, len(kept), total, cut)
		}
	}
}

func TestBriefWords(t *testing.T) {
	if got := TruncateText(strings.Repeat("é", mostText)); len(got) > mostText+len("…") || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes", len(got))
	}
	if got := TruncateText("short"); got != "short" {
		t.Error(got)
	}
	if got := TruncateWarnings(slices.Repeat([]string{strings.Repeat("w", 1<<20)}, 500)); len(got) != mostWarnings+1 || len(got[0]) > mostText+3 {
		t.Errorf("%d warnings", len(got))
	}
	if got := TruncateWarnings(nil); got != nil {
		t.Errorf("%v", got)
	}
}
