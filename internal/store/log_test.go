package store_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

func sample() []belljar.Frame {
	return []belljar.Frame{
		{Type: belljar.FrameEvent, Event: belljar.EventPhase, Data: map[string]any{"phase": "running"}},
		{Type: belljar.FrameEvent, Event: belljar.EventStart, Data: map[string]any{}},
		{Type: belljar.FrameStdout, Output: []byte("text \n\u2028 <&> \x00")},
		{Type: belljar.FrameStderr, Output: []byte{0xff, '\n', 0xfe}},
		{Type: belljar.FrameHeartbeat, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		{Type: belljar.FrameTruncated, Reason: "log_cap"},
		{Type: belljar.FrameEvent, Event: belljar.EventEnd, Data: map[string]any{"exit_code": 0.0, "reason_code": nil}},
	}
}

func readLog(r *store.Run) (list []belljar.Frame, err error) {
	for f, e := range r.Frames() {
		if e != nil {
			return list, e
		}
		list = append(list, f)
	}
	return list, nil
}

// TestLog reads a log back and checks that a log without one of its bytes is an error.
func TestLog(t *testing.T) {
	var r store.Run
	want := sample()
	if err := r.SetLog(want); err != nil {
		t.Fatal(err)
	}
	got, err := readLog(&r)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i].Seq != uint64(i+1) || want[i].Seq != 0 {
			t.Errorf("frame %d has the number %d, and the one given %d", i+1, got[i].Seq, want[i].Seq)
		}
		got[i].Seq = 0
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	whole := r.Log
	for i := range whole {
		cut := store.Run{Log: append(bytes.Clone(whole[:i]), whole[i+1:]...)}
		if got, err := readLog(&cut); err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("without byte %d: %v, %v", i, got, err)
		}
	}
	empty := store.Run{}
	if got, err := readLog(&empty); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// FuzzLog checks that a damaged log in a row returns an error and does not panic.
func FuzzLog(f *testing.F) {
	var r store.Run
	if err := r.SetLog(sample()); err != nil {
		f.Fatal(err)
	}
	f.Add(r.Log)
	f.Add([]byte("\n{}\n"))
	f.Add([]byte(`{"type":"stdout","seq":1,"encoding":"base64","data":"?"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		damaged := store.Run{Log: b}
		got, err := readLog(&damaged)
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Error(err)
		}
		for i, f := range got {
			if f.Seq != uint64(i+1) {
				t.Errorf("frame %d has seq %d", i+1, f.Seq)
			}
		}
	})
}
