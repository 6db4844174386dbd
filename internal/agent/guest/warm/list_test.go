//go:build linux

package warm

import (
	"slices"
	"testing"

	"github.com/belljar/belljar/internal/agent/wire"
)

func TestList(t *testing.T) {
	var l List[int]
	begin := func(key string, forks, first bool) {
		t.Helper()
		if f, ok := l.Begin(key); f != forks && ok || ok != first {
			t.Errorf("begin %s: %v, %v", key, f, ok)
		}
	}
	begin("a", true, true)
	begin("a", false, false) // one is being started
	l.Add("a", false, 1)
	l.Began("a")
	begin("a", false, false) // one is parked
	if p, ok := l.Take("a"); p != 1 || !ok {
		t.Error(p, ok)
	}
	if _, ok := l.Take("a"); ok {
		t.Error("it is taken twice")
	}
	begin("a", true, true)
	l.Began("a")
	l.Threaded("a")
	begin("a", false, true)
	l.Began("a")
	l.Unfit("a")
	begin("a", false, false)
	l.Add("b", true, 2)
	l.Add("c", false, 3)
	l.Take("b") // it forks, so it stays
	if old, full := l.Add("d", false, 4); !full || old != 3 {
		t.Error("not the one that was used longest ago ends:", old, full)
	}
	if !l.Remove(2) || l.Remove(2) || !slices.Equal(l.Clear(), []int{4}) || l.Clear() != nil {
		t.Error("what is removed is not there once")
	}
}

func TestOf(t *testing.T) {
	e := wire.Exec{Argv: []string{"node", "main.js"}, Env: []string{"A=1"}, Rlimits: map[string]uint64{"nofile": 5}, Warm: &wire.Warm{}}
	in, key := Of(e)
	if in == nil || !slices.Equal(in.Environment(e.Env, "/run/warm"), []string{"A=1", "NODE_OPTIONS=--require=/run/warm/node.js"}) {
		t.Error("node does not wait")
	}
	e.Rlimits = map[string]uint64{"nofile": 6}
	if _, other := Of(e); other == key {
		t.Error("node cannot set its own limits")
	}
	e.Argv[0], e.Env = "python3", []string{"PYTHONPATH=/layers/pip"}
	in, key = Of(e)
	if in == nil || !slices.Equal(in.Environment(e.Env, "/run/warm"), []string{"PYTHONPATH=/run/warm:/layers/pip"}) {
		t.Error("python does not wait")
	}
	e.Rlimits = nil
	if _, other := Of(e); other != key {
		t.Error("python sets its own limits")
	}
	e.Env = append(e.Env, "PYTHONHASHSEED=1")
	if in, _ := Of(e); in != nil {
		t.Error("a hash seed cannot be chosen after the start")
	}
}
