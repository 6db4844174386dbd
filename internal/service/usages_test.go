//go:build linux

package service_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// A live session or run has samples for callers that may see it. They end with it.
func TestUsageSamples(t *testing.T) {
	t.Parallel()
	cpu := time.Second
	b := newBench(t, over(func(rt runtime.Runtime) runtime.Runtime {
		return &meter{rt, runtime.Usage{CPU: &cpu, Memory: new(int64(7)), Sources: map[string]string{"cpu": "test"}}}
	}))
	x := b.open()
	usage := b.service.As(service.Local()).Usage()
	first := func(samples iter.Seq2[belljar.UsageSample, error]) (s belljar.UsageSample, code belljar.Code, ok bool) {
		t.Helper()
		for s, err := range samples {
			return s, belljar.CodeOf(err), true
		}
		return s, "", false
	}
	run := b.start(in(x, "sleep 1000"))
	for name, samples := range map[string]iter.Seq2[belljar.UsageSample, error]{
		"the session": usage.Session(b.context(), x.ID), "its run": usage.Run(b.context(), run.ID),
	} {
		s, code, ok := first(samples)
		if !ok || code != "" || s.Scope != "session" || *s.CPUTimeMS != 1000 || *s.MemoryBytes != 7 || s.Pids != nil || s.Sources["cpu"] != "test" {
			t.Errorf("%s: %+v %s", name, s, code)
		}
	}
	own := b.start(shell("sleep 1000"))
	if s, code, ok := first(usage.Run(b.context(), own.ID)); !ok || code != "" || s.Scope != "run" {
		t.Errorf("a run by itself: %+v %s", s, code)
	}
	stranger := b.service.As(belljar.Caller{ID: "stranger"}).Usage()
	for _, samples := range []iter.Seq2[belljar.UsageSample, error]{
		stranger.Session(b.context(), x.ID), stranger.Run(b.context(), run.ID), usage.Run(b.context(), "none"), usage.Session(b.context(), "none"),
	} {
		if s, code, _ := first(samples); code != belljar.CodeNotFound {
			t.Errorf("%+v %s", s, code)
		}
	}
	// A caller whose context ends gets its cause.
	ctx, leave := context.WithCancel(b.context())
	defer leave()
	var last error
	for _, err := range usage.Session(ctx, x.ID) {
		leave()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("the last error: %v", last)
	}
	// The end of the watched object is not an error.
	for name, samples := range map[string]iter.Seq2[belljar.UsageSample, error]{
		"the run": usage.Run(b.context(), own.ID), "the session": usage.Session(b.context(), x.ID),
	} {
		for _, err := range samples {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if name == "the run" {
				err = b.Cancel(b.context(), own.ID)
			} else {
				err = b.mine().Delete(b.context(), x.ID)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, samples := range []iter.Seq2[belljar.UsageSample, error]{usage.Session(b.context(), x.ID), usage.Run(b.context(), run.ID), usage.Run(b.context(), own.ID)} {
		if s, code, ok := first(samples); ok {
			t.Errorf("after the end: %+v %s", s, code)
		}
	}
}
