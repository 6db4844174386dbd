package mcp

import (
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

func TestExcerpt(t *testing.T) {
	long := strings.Repeat("é", 1000) // 2000 bytes
	for _, c := range []struct {
		name                   string
		text, encoding         string
		at, omitted            int64
		want                   string
		left                   int64
		truncated, binary, all bool
	}{
		{name: "nothing", encoding: "utf8"},
		{name: "short", text: "hi\n", encoding: "utf8", want: "hi\n"},
		{name: "exactly", text: strings.Repeat("x", 300), encoding: "utf8", want: strings.Repeat("x", 300)},
		{name: "cut between characters", text: long, encoding: "utf8", left: 1700, truncated: true,
			want: strings.Repeat("é", 75) + "\n[… 1700 bytes left out here …]\n" + strings.Repeat("é", 75)},
		{name: "its middle was gone before", text: "abcd", encoding: "utf8", at: 2, omitted: 1 << 20, left: 1 << 20, truncated: true,
			want: "ab\n[… 1048576 bytes left out here …]\ncd"},
		{name: "binary", text: "AP9h", encoding: "base64", binary: true, want: `\x00\xffa`},
	} {
		p := excerptOf(c.text, c.encoding, c.at, c.omitted, false, 300)
		if p.Text != c.want || p.Left != c.left || p.Truncated != c.truncated || p.Binary != c.binary {
			t.Errorf("%s: got %+v", c.name, p)
		}
	}
	capped := excerptOf("x", "utf8", 0, 0, true, 300)
	if !capped.Truncated {
		t.Error("a log that was cut at its cap is not reported")
	}
	got, _ := report(belljar.Run{}, &belljar.Output{Stdout: long, StdoutEncoding: "utf8", Stderr: "x", StderrEncoding: "utf8", StderrTruncated: true}, 300, "read on")
	if note := "\nnote: stdout is truncated (2000 bytes were kept, 1700 of them are not shown). read on\n"; !strings.HasSuffix(got, "\nstderr:\nx\n"+note) {
		t.Errorf("the report of a cut stdout is %q", got)
	}
	if got, _ := report(belljar.Run{}, &belljar.Output{Stdout: "a", StdoutEncoding: "utf8", StderrEncoding: "utf8"}, 300, ""); got != "\n\nstdout:\na\n" {
		t.Errorf("the report of a short stdout is %q", got)
	}
}

// Advice names arguments of tools only.
func TestAdvice(t *testing.T) {
	for hint, want := range map[string]string{
		"":                           "",
		"the file is not executable": "the file is not executable",
		"allow more with build_timeout_sec (--build-timeout)":          "make it need less; only the operator can give it more",
		"the run does not allow it: workspace_exec (--workspace-exec)": "name its interpreter in the command: files in /workspace cannot be executed here",
	} {
		if got := advice(belljar.Run{Hint: hint}); got != want {
			t.Errorf("of %q: %q, want %q", hint, got, want)
		}
	}
}

// A warning about a denied host names no command or flag, as a model can use neither.
func TestDeniedHost(t *testing.T) {
	const denied = "network: example.com is not allowed (no_match)"
	const allow, listed = denied + ": only the operator or user of the session can allow it", denied + ": the server's SANDBOX_EGRESS_ALLOW does not list it"
	for warning, want := range map[string]string{
		denied + ": add --allow example.com": allow,
		denied + ": add it to the session's rules, which this command replaces: belljar session network 01a2 --allow example.com": allow,
		listed: listed,
		"capture pattern x matched nothing: add y": "",
	} {
		_, got, _ := strings.Cut(headline(belljar.Run{Warnings: []string{warning}}), "\nwarning: ")
		if got != want {
			t.Errorf("of %q: %q, want %q", warning, got, want)
		}
	}
}

func TestFullWorkspace(t *testing.T) {
	full := &belljar.Error{Code: belljar.CodeDiskFull, Message: "the workspace is full", Hint: "a larger workspace_mb", Details: map[string]any{"scope": "workspace"}}
	if hint := belljar.HintOf(sandboxError(full)); !strings.HasPrefix(hint, "delete unneeded files") {
		t.Errorf("a model that can set no field of the API reads %q", hint)
	}
}

func TestTranscript(t *testing.T) {
	stdout := func(text string) belljar.Frame {
		return belljar.Frame{Type: belljar.FrameStdout, Output: []byte(text)}
	}
	stderr := func(text string) belljar.Frame {
		return belljar.Frame{Type: belljar.FrameStderr, Output: []byte(text)}
	}
	for want, frames := range map[string][]belljar.Frame{
		"":                                   nil,
		"stdout:\na\nb\n":                    {stdout("a\n"), stdout("b\n")},
		"stdout:\na\nstderr:\nb\n":           {stdout("a"), stderr("b\n")},
		"stderr:\na\nstdout:\nb\n":           {stderr("a\n"), stdout("b")},
		"stderr:\nabc\nstdout:\nd\n":         {stderr("a"), stderr("bc\n"), stdout("d\n")},
		"stdout:\n\n\nstderr:\n\\xff\\x00\n": {stdout("\n\n"), stderr("\xff\x00")},
	} {
		if got := transcript(frames); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
