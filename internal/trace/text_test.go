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

// The message of an exception ends at the next part of pytest's output.
func TestMessageInPytest(t *testing.T) {
	const stack = "Traceback (most recent call last):\n  File \"/workspace/test_x.py\", line 9, in test_x\n    fail()\nValueError: one\n--- two\n"
	for _, rule := range []string{"---- Captured stdout call ----", "____ test_y ____", "==== short test summary info ====", "==== 1 failed in 0.01s ===="} {
		if got := Parse(stack + rule + "\nmore\n"); len(got) != 1 || got[0].Message != "one\n--- two" {
			t.Errorf("%s: %+v", rule, got)
		}
	}
}

// TestSkipped parses places with folders that are a language's own, or an installed package's, in some languages only.
func TestSkipped(t *testing.T) {
	for text, want := range map[string]string{
		"internal/app/server.go:10:2: undefined: x":                                                        "",
		"internal/app.c:1:2: error: x":                                                                     "",
		"Error: x\n    at internal/main/run_main_module.js:17:47":                                          SkippedRuntime,
		"internal/modules/cjs/loader.js:883\n  throw err;\n  ^\n\nError: x\n    at b":                      "none",
		"Error: x\n    at f (/workspace/internal/app.js:1:2)":                                              "",
		"Traceback (most recent call last):\n  File \"/packages/pip/six.py\", line 1, in f\nValueError: x": SkippedPackage,
	} {
		got := "none"
		if found := Parse(text + "\n"); len(found) == 1 && len(found[0].Frames) > 0 {
			got = found[0].Frames[0].Skipped
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestIgnoredExceptions has a traceback of an exception that Python ignored after the one that ended the program.
func TestIgnoredExceptions(t *testing.T) {
	one := func(name string) string {
		return "Traceback (most recent call last):\n  File \"/workspace/a.py\", line 1, in f\n" + name + ": x\n"
	}
	for _, line := range []string{
		"Exception ignored in: <function A.__del__ at 0x7f>",                              // 3.12 and earlier
		"Exception ignored on threading shutdown <module 'threading' from '/x.py'>:",      // 3.13
		"Exception ignored while calling deallocator <function A.__del__ at 0x7f0e1a2b>:", // 3.14
	} {
		if got, _ := Failure(Parse(one("ValueError") + line + "\n" + one("KeyError"))); got.Type != "ValueError" {
			t.Errorf("%s: %q", line, got.Type)
		}
	}
}
