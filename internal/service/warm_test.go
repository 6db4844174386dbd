//go:build linux

package service_test

import (
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/test/need"
)

// A program of a session gets the interpreter of the previous one, and its record reports that. A request can opt out.
func TestWarm(t *testing.T) {
	need.Program(t, "python3")
	b := newBench(t, func(o *service.Options) { o.Warm.On = true })
	x := b.open()
	in := func(change func(*belljar.RunSpec)) result {
		return b.run(with(code("python", "import sys\nprint(__file__, 'json' in sys.modules)"), func(s *belljar.RunSpec) {
			s.SessionID, s.BaseImage = x.ID, ""
			if change != nil {
				change(s)
			}
		}))
	}
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		r := in(nil)
		if r.Warm == nil || r.ExitCode == nil || *r.ExitCode != 0 {
			t.Fatalf("%+v", r)
		}
		if *r.Warm {
			kept, err := b.Get(b.context(), r.ID)
			if err != nil || kept.Warm == nil || !*kept.Warm {
				t.Errorf("on record: %+v, %v", kept.Warm, err)
			}
			break
		}
		if time.Now().After(until) {
			t.Fatal("it never runs warm")
		}
	}
	for name, change := range map[string]func(*belljar.RunSpec){
		"off":      func(s *belljar.RunSpec) { s.Warm = belljar.WarmOff },
		"language": func(s *belljar.RunSpec) { s.Code, s.Language = "echo", "bash" },
		"flag":     func(s *belljar.RunSpec) { s.Code, s.Language, s.Command = "", "", []string{"python3", "-I", "main.py"} },
	} {
		if r := in(change); r.Warm != nil || r.ExitCode == nil || *r.ExitCode != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if _, err := b.Start(b.context(), with(code("python", "1"), func(s *belljar.RunSpec) { s.Warm = "always" })); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Error(err)
	}
	off := newBench(t)
	if r := off.run(code("python", "print(1)")); r.Warm != nil {
		t.Errorf("not allowed: %+v", r)
	}
}
