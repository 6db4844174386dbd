package belljar_test

import (
	"errors"
	"maps"
	"path"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

func TestCleanPath(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"x", "x"}, {"./x", "x"}, {"a//b/./c", "a/b/c"}, {"dir/", "dir"}, {".", "."}, {"./", "."},
		{"/workspace", "."}, {"/workspace/", "."}, {"/workspace/x", "x"}, {"//workspace//x", "x"}, {"/workspace/workspace/x", "workspace/x"},
		{"workspace/x", "workspace/x"}, {"..a", "..a"}, {"a..", "a.."}, {"...", "..."}, {" ", " "}, {"é/ü", "é/ü"},
		{"out/**/*.csv", "out/**/*.csv"}, {"-x", "-x"}, {"a\nb", "a\nb"},
	} {
		got, err := belljar.CleanPath(test.in)
		if err != nil || got != test.want {
			t.Errorf("CleanPath(%q) = %q, %v, want %q", test.in, got, err, test.want)
		}
	}
	for _, in := range []string{
		"", "..", "../x", "a/..", "a/../b", "/workspace/..", "/workspace/../etc", "/", "/etc/passwd", "/workspacex",
		"/workspace2/x", "a\x00b", "\x00", "/run/secrets/token", "a\xffb", "./../x",
	} {
		if got, err := belljar.CleanPath(in); err == nil {
			t.Errorf("CleanPath(%q) = %q, want an error", in, got)
		}
	}
}

// FuzzCleanPath: a valid path is relative, clean, inside the workspace, and unchanged when cleaned again.
func FuzzCleanPath(f *testing.F) {
	for _, seed := range []string{"x", "./x", "/workspace/x", "..", "a/../b", "/", "//workspace/.", "a/./..", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := belljar.CleanPath(in)
		if err != nil {
			return
		}
		if got == "" || path.IsAbs(got) || path.Clean(got) != got || strings.ContainsRune(got, 0) {
			t.Errorf("CleanPath(%q) = %q", in, got)
		}
		for _, part := range strings.Split(got, "/") {
			if part == ".." {
				t.Errorf("CleanPath(%q) = %q leaves the workspace", in, got)
			}
		}
		if again, err := belljar.CleanPath(got); err != nil || again != got {
			t.Errorf("CleanPath(%q) = %q, cleaned again %q, %v", in, got, again, err)
		}
		if abs, err := belljar.CleanPath(belljar.WorkspaceDir + "/" + in); err != nil || !path.IsAbs(in) && abs != got {
			t.Errorf("%q is %q, under the workspace it is %q, %v", in, got, abs, err)
		}
	})
}

// good returns a valid request.
func good() belljar.RunSpec {
	return belljar.RunSpec{
		SpecVersion: "1.1", BaseImage: "host",
		Command: []string{"python3", "main.py", ""}, Env: map[string]string{"A": "b=c", "EMPTY": ""},
		Files:           []belljar.InlineFile{{Path: "main.py", Content: []byte("print()")}},
		CapturePatterns: []string{"out/**", "/workspace/*.csv"}, NetworkPolicy: "deny_all",
	}
}

// inShell converts a request to one for a session's shell, and applies change to it.
func inShell(change func(*belljar.RunSpec)) func(*belljar.RunSpec) {
	return func(s *belljar.RunSpec) {
		*s = belljar.RunSpec{SessionID: "x", Shell: &belljar.ShellCommand{Cmd: "true"}}
		change(s)
	}
}

func TestValidateAccepts(t *testing.T) {
	for name, change := range map[string]func(*belljar.RunSpec){
		"as it is":        func(*belljar.RunSpec) {},
		"nothing else":    func(s *belljar.RunSpec) { *s = belljar.RunSpec{BaseImage: "host", Command: []string{"true"}} },
		"in a session":    func(s *belljar.RunSpec) { s.BaseImage, s.SessionID = "", "x" },
		"code":            func(s *belljar.RunSpec) { s.Command, s.Code, s.Language = nil, "print()", "Py"; s.Files = nil },
		"stdin":           func(s *belljar.RunSpec) { s.SpecVersion, s.Stdin = "1.0", strings.Repeat("x", belljar.MaxStdinBytes) },
		"interactive":     func(s *belljar.RunSpec) { s.Interactive, s.StdinMaxBytes, s.ResumeFromSeq = true, 1, 7 },
		"labels":          func(s *belljar.RunSpec) { s.Labels = map[string]string{"team": "é", "empty": ""} },
		"most arguments":  func(s *belljar.RunSpec) { s.Command = strings.Split(strings.Repeat("x ", belljar.MaxArgs-1)+"x", " ") },
		"longest command": func(s *belljar.RunSpec) { s.Command = []string{strings.Repeat("x", belljar.MaxArgBytes-1)} },
		"largest files":   func(s *belljar.RunSpec) { s.Files[0].Content = make([]byte, belljar.MaxInlineBytes) },
		"shell": func(s *belljar.RunSpec) {
			*s = belljar.RunSpec{SessionID: "x", Shell: &belljar.ShellCommand{Cmd: strings.Repeat("x", belljar.MaxArgBytes)}, Stdin: "in"}
		},
		"odd characters": func(s *belljar.RunSpec) { s.Command = []string{"printf", "\x01\x7f\n'\"", "é😀"} },
	} {
		s := good()
		change(&s)
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateRefuses(t *testing.T) {
	file := func(p string) func(*belljar.RunSpec) {
		return func(s *belljar.RunSpec) { s.Files = append(s.Files, belljar.InlineFile{Path: p}) }
	}
	env := func(name, value string) func(*belljar.RunSpec) {
		return func(s *belljar.RunSpec) { s.Env = map[string]string{name: value} }
	}
	for _, test := range []struct {
		name   string
		change func(*belljar.RunSpec)
		field  string
		code   belljar.Code
	}{
		{"shell without a session", func(s *belljar.RunSpec) { s.Command, s.Env, s.Shell = nil, nil, &belljar.ShellCommand{Cmd: "x"} }, "shell", ""},
		{"shell and command", inShell(func(s *belljar.RunSpec) { s.Command = []string{"x"} }), "command", ""},
		{"shell and code", inShell(func(s *belljar.RunSpec) { s.Code = "x" }), "code", ""},
		{"shell and cwd", inShell(func(s *belljar.RunSpec) { s.Cwd = "x" }), "cwd", ""},
		{"shell and env", inShell(func(s *belljar.RunSpec) { s.Env = map[string]string{"A": "b"} }), "env", ""},
		{"empty shell", inShell(func(s *belljar.RunSpec) { s.Shell.Cmd = "" }), "shell.cmd", ""},
		{"blank shell", inShell(func(s *belljar.RunSpec) { s.Shell.Cmd = " \n" }), "shell.cmd", ""},
		{"NUL for a shell", inShell(func(s *belljar.RunSpec) { s.Shell.Cmd = "a\x00" }), "shell.cmd", ""},
		{"no text for a shell", inShell(func(s *belljar.RunSpec) { s.Shell.Cmd = "\xff" }), "shell.cmd", ""},
		{"long shell", inShell(func(s *belljar.RunSpec) { s.Shell.Cmd = strings.Repeat("x", belljar.MaxArgBytes+1) }), "shell.cmd", ""},
		{"nowhere", func(s *belljar.RunSpec) { s.BaseImage = "" }, "base_image", ""},
		{"in two places", func(s *belljar.RunSpec) { s.SessionID = "x" }, "base_image", ""},
		{"command and code", func(s *belljar.RunSpec) { s.Code, s.Language = "x", "py" }, "code", ""},
		{"code in no language", func(s *belljar.RunSpec) { s.Command, s.Code = nil, "x" }, "language", ""},
		{"language without code", func(s *belljar.RunSpec) { s.Command, s.Language = nil, "py" }, "code", ""},
		{"unknown language", func(s *belljar.RunSpec) { s.Command, s.Code, s.Language = nil, "x", "cobol" }, "language", ""},
		{"code over a file", func(s *belljar.RunSpec) { s.Command, s.Code, s.Language = nil, "x", "python" }, "files[0].path", ""},
		{"large code", func(s *belljar.RunSpec) {
			s.Command, s.Code, s.Language = nil, strings.Repeat("x", belljar.MaxInlineBytes+1), "sh"
		}, "code", ""},
		{"large code and files", func(s *belljar.RunSpec) {
			s.Command, s.Code, s.Language, s.Files[0].Content = nil, strings.Repeat("x", belljar.MaxInlineBytes), "sh", []byte("x")
		}, "files", ""},
		{"large stdin", func(s *belljar.RunSpec) { s.Stdin = strings.Repeat("x", belljar.MaxStdinBytes+1) }, "stdin", ""},
		{"stdin twice", func(s *belljar.RunSpec) { s.Stdin, s.Interactive = "x", true }, "stdin", ""},
		{"interactive in 1.0", func(s *belljar.RunSpec) { s.SpecVersion, s.Interactive = "1.0", true }, "interactive", ""},
		{"limits in 1.0", func(s *belljar.RunSpec) { s.SpecVersion, s.StdinBytesPerSec = "1.0", 1 }, "stdin_bps", ""},
		{"resume in 1.0", func(s *belljar.RunSpec) { s.SpecVersion, s.ResumeFromSeq = "1.0", 1 }, "resume_from_seq", ""},
		{"nameless label", func(s *belljar.RunSpec) { s.Labels = map[string]string{"": "x"} }, "labels", ""},
		{"long label", func(s *belljar.RunSpec) {
			s.Labels = map[string]string{"x": strings.Repeat("x", belljar.MaxLabelBytes+1)}
		}, "labels", ""},
		{"long file name", func(s *belljar.RunSpec) {
			s.Files = []belljar.InlineFile{{Path: "ok"}, {Path: "a/" + strings.Repeat("n", belljar.MaxNameBytes+1)}}
		}, "files[1].path", ""},
		{"file very deep", func(s *belljar.RunSpec) {
			s.Files = []belljar.InlineFile{{Path: strings.Repeat("a/", belljar.MaxPathBytes/2) + "x"}}
		}, "files[0].path", ""},
		{"labels long together", func(s *belljar.RunSpec) {
			s.Labels = map[string]string{}
			for i := range 16 {
				s.Labels[strings.Repeat("k", i+1)] = strings.Repeat("v", belljar.MaxLabelBytes)
			}
		}, "labels", ""},
		{"broken label", func(s *belljar.RunSpec) { s.Labels = map[string]string{"x": "\xff"} }, "labels", ""},
		{"many labels", func(s *belljar.RunSpec) {
			s.Labels = map[string]string{}
			for i := range belljar.MaxLabels + 1 {
				s.Labels[strings.Repeat("x", i+1)] = ""
			}
		}, "labels", ""},
		{"no command", func(s *belljar.RunSpec) { s.Command = nil }, "command", ""},
		{"empty command", func(s *belljar.RunSpec) { s.Command = []string{""} }, "command", ""},
		{"empty program", func(s *belljar.RunSpec) { s.Command = []string{"", "x"} }, "command", ""},
		{"NUL", func(s *belljar.RunSpec) { s.Command = []string{"a", "b\x00"} }, "command[1]", ""},
		{"not UTF-8", func(s *belljar.RunSpec) { s.Command = []string{"a", "\xe9"} }, "command[1]", ""},
		{"many arguments", func(s *belljar.RunSpec) { s.Command = make([]string, belljar.MaxArgs+1); s.Command[0] = "x" }, "command", ""},
		{"long command", func(s *belljar.RunSpec) { s.Command = []string{strings.Repeat("x", belljar.MaxArgBytes)} }, "command", ""},
		{"no name", env("", "x"), "env", ""},
		{"= in name", env("A=B", "x"), "env", ""},
		{"NUL in name", env("A\x00", "x"), "env", ""},
		{"NUL in value", env("A", "\x00"), "env", ""},
		{"name not UTF-8", env("\xff", ""), "env", ""},
		{"value not UTF-8", env("A", "\xff"), "env", ""},
		{"large env", env("A", strings.Repeat("x", belljar.MaxEnvBytes)), "env", ""},
		{"many variables", func(s *belljar.RunSpec) {
			s.Env = maps.Collect(func(yield func(string, string) bool) {
				for i := range belljar.MaxEnv + 1 {
					if !yield(strings.Repeat("x", i+1), "") {
						return
					}
				}
			})
		}, "env", ""},
		{"file outside", file("../x"), "files[1].path", ""},
		{"file elsewhere", file("/etc/passwd"), "files[1].path", ""},
		{"file without name", file(""), "files[1].path", ""},
		{"file twice", file("./main.py"), "files[1].path", ""},
		{"file in a file", file("main.py/x"), "files[1].path", ""},
		{"file over a folder", func(s *belljar.RunSpec) { s.Files = []belljar.InlineFile{{Path: "a/b/c"}, {Path: "a-b"}, {Path: "a"}} }, "files[0].path", ""},
		{"file in the code", func(s *belljar.RunSpec) {
			s.Command, s.Code, s.Language, s.Files = nil, "1", "python", []belljar.InlineFile{{Path: "main.py/x"}}
		}, "files[0].path", ""},
		{"file is the workspace", file("./"), "files[1].path", ""},
		{"large files", func(s *belljar.RunSpec) { s.Files[0].Content = make([]byte, belljar.MaxInlineBytes+1) }, "files", ""},
		{"pattern outside", func(s *belljar.RunSpec) { s.CapturePatterns = []string{"ok", "a/../../x"} }, "capture_patterns[1]", ""},
		{"secrets", func(s *belljar.RunSpec) { s.CapturePatterns = []string{"/run/secrets/**"} }, "capture_patterns[0]", ""},
		{"long pattern", func(s *belljar.RunSpec) { s.CapturePatterns = []string{strings.Repeat("x", belljar.MaxPatternBytes+1)} }, "capture_patterns[0]", ""},
		{"many patterns", func(s *belljar.RunSpec) { s.CapturePatterns = make([]string, belljar.MaxPatterns+1) }, "capture_patterns", ""},
		{"network", func(s *belljar.RunSpec) { s.NetworkPolicy = "allow_all" }, "network_policy", belljar.CodePolicyDenied},
	} {
		s := good()
		test.change(&s)
		want := test.code
		if want == "" {
			want = belljar.CodeInvalidRequest
		}
		var e *belljar.Error
		if err := s.Validate(); !errors.As(err, &e) {
			t.Errorf("%s: %v, want a belljar.Error", test.name, err)
		} else if e.Code != want || e.Details["field"] != test.field || e.Message == "" {
			t.Errorf("%s: code %s, field %v, %q; want %s, %s", test.name, e.Code, e.Details["field"], e.Message, want, test.field)
		}
	}
}

// FuzzValidate: a valid request has a program, a clean environment and files inside the workspace.
func FuzzValidate(f *testing.F) {
	f.Add("true", "A", "b", "x", "*.csv", "deny_all")
	f.Add("", "", "", "", "", "")
	f.Add("a\x00", "A=", "\xff", "../x", "/etc/*", "open")
	f.Fuzz(func(t *testing.T, command, name, value, file, pattern, network string) {
		s := belljar.RunSpec{
			Command: []string{command}, Env: map[string]string{name: value}, NetworkPolicy: network,
			Files: []belljar.InlineFile{{Path: file}}, CapturePatterns: []string{pattern},
		}
		if err := s.Validate(); err != nil {
			if c := belljar.CodeOf(err); c != belljar.CodeInvalidRequest && c != belljar.CodePolicyDenied {
				t.Errorf("%v has code %s", err, c)
			}
			return
		}
		if command == "" || name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(command+value, "\x00") {
			t.Errorf("passes: %+v", s)
		}
		if p, err := belljar.CleanPath(file); err != nil || p == "." {
			t.Errorf("file %q passes", file)
		}
	})
}

// TestCwd: a command starts in the workspace, or is refused with the field's name.
func TestCwd(t *testing.T) {
	for cwd, ok := range map[string]bool{
		"": true, ".": true, "a/b": true, "/workspace": true, "/workspace/a": true, "a/./b/": true,
		"..": false, "a/..": false, "/": false, "/tmp": false, "/workspace2": false, "a\x00": false, "a\xff": false,
		strings.Repeat("x", belljar.MaxNameBytes+1): false, strings.Repeat("x/", belljar.MaxPathBytes): false,
	} {
		err := (&belljar.RunSpec{SessionID: "s", Command: []string{"true"}, Cwd: cwd}).Validate()
		if ok != (err == nil) {
			t.Errorf("cwd %.20q: %v", cwd, err)
		}
		var e *belljar.Error
		if !ok && (!errors.As(err, &e) || e.Code != belljar.CodeInvalidRequest || e.Details["field"] != "cwd") {
			t.Errorf("cwd %.20q: %v", cwd, err)
		}
	}
}
