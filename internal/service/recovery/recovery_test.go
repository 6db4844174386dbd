package recovery

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// step records when it recovers and when it removes orphans.
type step struct {
	name string
	err  error
	log  *[]string
}

func (s step) Recover(context.Context) error {
	*s.log = append(*s.log, s.name)
	return s.err
}

// cleaner is a part that may find orphans.
type cleaner struct{ step }

func (c cleaner) RemoveOrphans(context.Context) { *c.log = append(*c.log, "orphans of "+c.name) }

// Orphans are removed after every part has recovered: before that, they may belong to another part.
func TestOrder(t *testing.T) {
	var log []string
	err := Run(t.Context(), cleaner{step{"sessions", nil, &log}}, step{"runs", nil, &log}, cleaner{step{"sandboxes", nil, &log}})
	if got, want := strings.Join(log, ", "), "sessions, runs, sandboxes, orphans of sessions, orphans of sandboxes"; got != want || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

// A part that cannot read its records has recovered nothing: sandboxes that it would have claimed are not orphans.
func TestNothingIsRemovedAfterAFault(t *testing.T) {
	var log []string
	broken := errors.New("no store")
	err := Run(t.Context(), cleaner{step{"sessions", nil, &log}}, step{"runs", broken, &log}, cleaner{step{"sandboxes", nil, &log}})
	if got, want := strings.Join(log, ", "), "sessions, runs"; got != want || !errors.Is(err, broken) {
		t.Errorf("%s, %v", got, err)
	}
	log = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, cleaner{step{"sessions", nil, &log}}, step{"runs", nil, &log}); !errors.Is(err, context.Canceled) || len(log) != 1 {
		t.Errorf("%v after %v", err, log)
	}
}

func TestEach(t *testing.T) {
	var mu sync.Mutex
	now, most, sum := 0, 0, 0
	list := make([]int, 100)
	for i := range list {
		list[i] = i
	}
	gate := make(chan struct{}, Parallelism)
	ForEach(list, func(n int) {
		mu.Lock()
		now++
		most = max(most, now)
		sum += n
		mu.Unlock()
		gate <- struct{}{}
		<-gate
		mu.Lock()
		now--
		mu.Unlock()
	})
	if most > Parallelism || sum != 4950 || now != 0 {
		t.Errorf("at most %d at once, sum %d, %d still there", most, sum, now)
	}
}

// Agents that do not respond hold up neither the one after them nor, for long, the start of the server.
func TestSilentAgents(t *testing.T) {
	for silent, most := range map[int]time.Duration{100: 15 * time.Second, 1000: 130 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var mu sync.Mutex
			var last time.Duration
			ForEachAgent(make([]int, silent+1), func(int) {
				mu.Lock()
				last = max(last, time.Since(began))
				mu.Unlock()
				time.Sleep(Timeout)
			})
			if took := time.Since(began); last > most || took > most+Timeout {
				t.Errorf("%d: the last is asked after %v, and all take %v", silent, last, took)
			}
		})
	}
	// Calls that respond in time are as few at once as without agents.
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ForEachAgent(make([]int, 10*Parallelism), func(int) { time.Sleep(time.Second / 2) })
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("calls of half a second each take %v", took)
		}
	})
}

// The calls of a sandbox take a minute together, if its agent never responds, and if each response comes just in time. Sandboxes that
// respond late are not given up because of those that never do.
func TestForEachIn(t *testing.T) {
	type command struct{ sandbox, n int }
	late := Timeout - time.Second
	for hostile, responds := range map[string]time.Duration{"silent": time.Hour, "late": late} {
		t.Run(hostile, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const bad, good, each = 100, 10, 40
				var list []command
				for n := range each { // a sandbox's commands are not adjacent
					for sandbox := range bad + good {
						list = append(list, command{sandbox, n})
					}
				}
				if hostile == "silent" { // their number does not matter
					for n := range 4000 {
						list = append(list, command{0, each + n})
					}
				}
				began := time.Now()
				var mu sync.Mutex
				asked, failed := map[command]int{}, 0
				ForEachIn(t.Context(), list, func(c command) string { return strconv.Itoa(c.sandbox) }, func(ctx context.Context, c command, silent func()) {
					ctx, cancel := context.WithTimeout(ctx, Timeout)
					defer cancel()
					defer context.AfterFunc(ctx, silent)()
					wait := responds
					if c.sandbox >= bad {
						wait = late
					}
					select {
					case <-time.After(wait):
					case <-ctx.Done():
					}
					mu.Lock()
					defer mu.Unlock()
					asked[c]++
					if ctx.Err() != nil && c.sandbox >= bad {
						failed++
					}
				})
				if len(asked) != len(list) || failed > 0 {
					t.Errorf("%d of %d commands are asked for, and %d that respond are given up", len(asked), len(list), failed)
				}
				// A second more for every eight sandboxes, and for every eight commands of the last.
				if took, most := time.Since(began), Timeout+(bad+good+each)/Parallelism*time.Second+time.Second; took > most {
					t.Errorf("it takes %v, more than %v", took, most)
				}
			})
		})
	}
}
