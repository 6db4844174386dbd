package trace

import (
	"fmt"
	"strings"
	"testing"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain\r": "plain",
		"\x1b[1;31mError\x1b[0m: \x1b]8;;http://x\x07red\x1b]8;;\x1b\\": "Error: red",
		"\u009b31mx":                  "x",
		"\x1b[12":                     "",
		"a\x1b":                       "a",
		"a\x1bcb":                     "ab",
		"\x1b[3\tm":                   "\tm",
		"\xff\xfe é":                  "\uFFFD é",
		strings.Repeat("é", mostLine): strings.Repeat("é", mostLine/2),
	} {
		if got := clean(in); got != want {
			t.Errorf("%.40q: %.40q, want %.40q", in, got, want)
		}
	}
}

// TestBound has a trace at the beginning, one at the end and one in the omitted part.
func TestBound(t *testing.T) {
	trace := func(name string) string {
		return "  File \"/workspace/" + name + ".py\", line 1\n    x\n    ^\nSyntaxError: " + name + "\n"
	}
	filler := strings.Repeat("nothing\n", headBytes/4)
	text := trace("first") + filler + trace("middle") + strings.Repeat(filler, 20) + trace("last")
	var names []string
	for _, one := range Parse(text) {
		names = append(names, one.Message)
	}
	if got := strings.Join(names, " "); got != "first last" {
		t.Errorf("found %q", got)
	}
	head, tail := bound(text)
	if len(head) > headBytes || len(tail) > tailBytes || !strings.HasPrefix(tail, "nothing\n") || !strings.HasSuffix(head, "nothing\n") {
		t.Errorf("%d and %d bytes", len(head), len(tail))
	}
}

func TestFailure(t *testing.T) {
	exception := func(name string) Trace { return Trace{Kind: KindException, Type: name} }
	message := func(name string) Trace { return Trace{Kind: KindMessage, Type: name} }
	ignored := exception("ignored")
	ignored.Warning = true
	for want, traces := range map[string][]Trace{
		"":       {ignored, {Kind: KindMessage, Type: "warning", Warning: true}},
		"last":   {exception("first"), exception("last"), message("later"), ignored},
		"test":   {message("x"), {Kind: KindTest, Type: "test"}, {Kind: KindShell, Type: "line"}},
		"first":  {{Kind: KindShell, Type: "line"}, message("first"), message("second")},
		"script": {{Kind: KindShell, Type: "line"}, {Kind: KindShell, Type: "script"}},
	} {
		if got, ok := Failure(traces); got.Type != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", want, got.Type, ok)
		}
	}
}

// Forms that no program of the corpus prints.
func TestForms(t *testing.T) {
	for line, want := range map[string]string{
		"[ERROR] /workspace/src/A.java:[3,5] cannot find symbol": "java /workspace/src/A.java:3:5 cannot find symbol",
		"[ERROR] COMPILATION ERROR :":                            "",
		"B.kt:2:1: error: no":                                    "c B.kt:2:1 no",
		"sh: 1: x: not found":                                    "shell sh:1:0 x: not found",
		"finish: 1: x":                                           "",
	} {
		got := ""
		for _, t := range Parse(line + "\n") {
			f := t.Frames[0]
			got += fmt.Sprintf("%s %s:%d:%d %s", t.Language, f.File, f.Line, f.Column, t.Message)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
