//go:build linux

package security

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/dockerd"
	"github.com/belljar/belljar/test/tier"
)

// runTime limits one run, from outside.
const runTime = 8 * time.Minute

// mostCPU bounds the CPU time of a run with a limit on it, and of the programs around it.
const mostCPU = 5 * time.Second

// built are the programs under test, and runsc is the path of belljar-runsc after make gvisor.
var (
	built build.Programs
	runsc string
)

func TestMain(m *testing.M) {
	if raw, ok := os.LookupEnv(superviseEnv); ok {
		os.Exit(supervise(raw))
	}
	tier.Parallel(4) // some attacks wait for a timeout
	os.Exit(build.Main(func(_ string, p build.Programs) int {
		defer os.RemoveAll(elsewherePath())
		var err error
		if runsc, err = filepath.Abs("../../bin/belljar-runsc"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		built = p
		return dockerd.Main(m)
	}))
}

// TestScripts runs every script on every lane.
func TestScripts(t *testing.T) {
	scripts := readScripts(t)
	results := newBoard()
	for _, l := range lanes() {
		t.Run(l.name, func(t *testing.T) {
			l.open(t)
			if l.ready {
				l.warm(t)
			}
			runAll(t, l, scripts, results)
		})
	}
	switch {
	case !*update:
		results.compare(t, scripts)
	case !t.Failed():
		results.write(t, scripts)
	}
}

// runAll runs every script on l, and puts the result of each on the board.
func runAll(t *testing.T, l *lane, scripts []script, results *board) {
	alone, groups := l.arrange(scripts)
	for _, group := range groups {
		t.Run("together with "+group[0].name, func(t *testing.T) { together(t, l, group, results) })
	}
	for _, s := range alone {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() {
				if t.Failed() {
					results.put(s.name, l.name, breached)
				}
			})
			if why := s.needless(l); why != "" {
				results.put(s.name, l.name, needless)
				return
			}
			if missing := s.missing(l); len(missing) > 0 {
				refusal(t, l, s, missing)
				results.put(s.name, l.name, refused)
				return
			}
			results.put(s.name, l.name, attack(t, l, s))
		})
	}
}

// attack runs one script and judges it.
func attack(t *testing.T, l *lane, s script) verdict {
	ctx, cancel := context.WithTimeout(t.Context(), runTime)
	defer cancel()
	if l.stock != nil {
		l.stock(t)
	}
	tr := l.trial(t)
	tr.forged = s.forged
	if word := s.imageOn(l); word != "" {
		ref, err := l.bring(t, word)
		if err != nil && word != s.image {
			t.Fatal(err)
		} else if err != nil {
			t.Log(err)
			return refused
		}
		tr.ref, tr.root = ref, word
	}
	verify := tr.prepare(t, s.hosts)
	args := tr.command()
	if s.probe {
		args = append(args, "--file", built.Probe+":probe")
		if tr.session == "" {
			args = append(args, "--workspace-exec")
		}
	}
	args = append(slices.Concat(args, tr.flags, s.flags, tr.extra), "--file", tr.copy(s.path)+":attack.sh", "--", "sh", "attack.sh")
	got := tr.run(ctx, args)
	t.Logf("phase %s %s exit %v, after %.2f s of a processor, %s\nstdout: %s\nstderr: %s", got.Phase, got.ReasonCode, got.exit(), tr.account.CPU.Seconds(), got.own(), tail(got.Stdout), tail(got.Stderr))
	if strings.Contains(got.Stdout, "BREACH") {
		t.Errorf("breach:\n%s", breaches(got.Stdout))
	}
	for _, e := range s.expect {
		if !e.applies(l) {
			continue
		}
		if err := e.check(got); err != nil {
			t.Error(err)
		}
	}
	for _, v := range verify {
		v(got)
	}
	// Such a script has a limit of 0.5 s. Time that the limit misses costs many seconds; gVisor's own kernel uses some.
	if slices.Contains(s.limits, "cpu_time") && l.runtime == "native" && tr.account.CPU > mostCPU {
		t.Errorf("%v of a processor, more than %v", tr.account.CPU, mostCPU)
	}
	tr.nothingLeft(got)
	return held
}

// prepare lets the hooks prepare the host, and returns how to verify it afterwards.
func (tr *trial) prepare(t *testing.T, names []string) []func(outcome) {
	t.Helper()
	var verify []func(outcome)
	var budgets []string
	for _, name := range names {
		if budget, ok := strings.CutPrefix(name, taken); ok {
			budgets = append(budgets, budget)
			continue
		}
		prepare, ok := hooks()[name]
		if !ok {
			t.Fatalf("no such host hook: %s", name)
		}
		verify = append(verify, prepare(t, tr))
	}
	if len(budgets) > 0 {
		verify = append(verify, takes(t, tr, budgets))
	}
	return verify
}

// command returns the first words of every attack.
func (tr *trial) command() []string {
	verb, where := []string{"run"}, tr.where()
	if tr.session != "" {
		verb, where = []string{"session", "run", tr.session}, nil
	}
	return slices.Concat(verb, []string{"--json", "--quiet", "--env", "LANE_RUNTIME=" + tr.lane.runtime, "--env", "LANE_IMAGE=" + tr.root,
		"--env", "LANE_TIER=" + tier.Pick("test", "soak")}, where)
}

func breaches(stdout string) string {
	var lines []string
	for _, line := range strings.Split(stdout, "\n") {
		if strings.HasPrefix(line, "BREACH") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

func tail(s string) string {
	const most = 4000
	if len(s) > most {
		return "…" + s[len(s)-most:]
	}
	return s
}

// TestHeaders checks that every script documents its purpose.
func TestHeaders(t *testing.T) {
	for _, s := range readScripts(t) {
		for _, key := range []string{"Attack", "Why it matters", "What must hold"} {
			if s.header[key] == "" {
				t.Errorf("%s has no %q", filepath.Base(s.path), key)
			}
		}
	}
}
