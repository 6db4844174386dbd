//go:build linux

package service_test

import (
	"testing"

	"github.com/belljar/belljar"
)

// A cancel directly after the start ends that code, whether it waits, starts or runs, and neither its interpreter nor the next code.
func TestContextCancelledAtOnce(t *testing.T) {
	for language, code := range map[string]struct{ set, endless, show string }{
		"python":     {"x = 41", "while True: pass", "print(x)"},
		"javascript": {"x = 41", "while (true) {}", "console.log(x)"},
		"bash":       {"x=41", "while :; do :; done", "echo $x"},
	} {
		t.Run(language, func(t *testing.T) {
			b := newBench(t, limited(func(l *belljar.Limits) { l.GraceSec = 30 }))
			x := b.open()
			first := inContext(x.ID, language, code.set)
			first.Language = language
			b.run(first)
			for range 10 {
				runs := []belljar.Run{b.start(inContext(x.ID, language, code.endless)), b.start(inContext(x.ID, language, code.endless))}
				shows := b.start(inContext(x.ID, language, code.show))
				for _, at := range []int{1, 0} { // one that waits, then the one in front of it
					if err := b.Cancel(b.context(), runs[at].ID); err != nil {
						t.Fatal(err)
					}
				}
				for _, run := range runs {
					if r := b.follow(run.ID); r.Phase != belljar.PhaseKilled || r.ReasonCode != belljar.ReasonCanceledByUser {
						t.Fatalf("%+v", r.Run)
					}
				}
				if r := b.follow(shows.ID); r.stdout != "41\n" || r.Context.State != belljar.ShellKept {
					t.Fatalf("%q, %+v, %+v", r.stdout, r.Run, r.Context)
				}
				run := b.start(inContext(x.ID, language, code.endless))
				if err := b.Cancel(b.context(), run.ID); err != nil {
					t.Fatal(err)
				}
				if r := b.run(inContext(x.ID, language, code.show)); r.stdout != "41\n" || r.Context.State != belljar.ShellKept {
					t.Fatalf("%q, %+v, %+v", r.stdout, r.Run, r.Context)
				}
			}
		})
	}
}
