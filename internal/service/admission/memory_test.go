package admission

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/placement"
)

const mega = 1 << 20

// hungry is a sandbox that uses a certain amount of memory, until it is destroyed.
type hungry struct {
	runtime.Sandbox
	whole *trough
	id    string
}

func (h *hungry) Usage(context.Context) (runtime.Usage, error) {
	n := h.whole.used[h.id]
	return runtime.Usage{Memory: &n}, nil
}

func (h *hungry) Destroy(context.Context) error {
	delete(h.whole.used, h.id)
	return nil
}

// trough is the memory of all sandboxes.
type trough struct {
	bound int64
	used  map[string]int64
}

func (w *trough) Bound() int64 { return w.bound }
func (w *trough) Used() (sum int64, _ error) {
	for _, n := range w.used {
		sum += n
	}
	return sum, nil
}
func (w *trough) Watch(...int64) (runtime.Watch, error) { return nil, errors.ErrUnsupported }

// reserve is a runtime with a pool of sandboxes.
type reserve struct {
	runtime.Runtime
	whole *trough
}

func (r reserve) Yield() bool {
	_, had := r.whole.used["ahead"]
	delete(r.whole.used, "ahead")
	return had
}

// A sandbox larger than the whole quota is refused for that reason, not because of other usage.
func TestMoreThanTheQuota(t *testing.T) {
	for asked, want := range map[int64]string{600: "600 MiB of memory and files in memory are more than the quota: 500", 500: ""} {
		n := &Memory{}
		err := n.claim("x", &claim{user: "ann", memory: asked * mega}, belljar.Quota{MemoryMB: 500})
		if want == "" != (err == nil) || err != nil && err.Error() != want {
			t.Errorf("%d MiB: %v", asked, err)
		}
	}
}

// The whole CPU quota is usable: three tenths are not above 0.3, although their sum in binary is.
func TestQuotaOfTenths(t *testing.T) {
	n := &Memory{}
	for _, id := range []string{"a", "b", "c"} {
		if err := n.claim(id, &claim{user: "ann", cpu: 0.1}, belljar.Quota{CPU: 0.3}); err != nil {
			t.Error(err)
		}
	}
	if err := n.claim("d", &claim{user: "ann", cpu: 0.01}, belljar.Quota{CPU: 0.3}); belljar.CodeOf(err) != belljar.CodeQuotaExceeded {
		t.Error(err)
	}
}

// Above the watermark no sandbox is admitted, and the pool's sandboxes are released. At the critical level only the sandbox furthest above its
// share is destroyed, even if its claim gets another one meanwhile. When there is room again, waiting sandboxes are admitted.
func TestMemoryRunsShort(t *testing.T) {
	whole := &trough{bound: 1000 * mega, used: map[string]int64{"ahead": 100 * mega}}
	s := &Memory{Mode: AdmitUsed, Log: slog.New(slog.DiscardHandler), Hosts: placement.Hosts{placement.NewHost(reserve{whole: whole})}}
	var ended []string
	next := &hungry{whole: whole, id: "next"}
	begin := func(id string, cap, used int64) {
		t.Helper()
		if err := s.claim(id, &claim{user: "ann", memory: cap}, belljar.Quota{}); err != nil {
			t.Fatal(err)
		}
		if ok, _ := s.Place(id, false); !ok {
			t.Fatalf("%s was not admitted", id)
		}
		whole.used[id] = used
		s.Hold(id, &hungry{whole: whole, id: id}, func(why error) {
			var node *MemoryError
			if !errors.As(why, &node) {
				t.Errorf("%s ends for %v", id, why)
			}
			ended = append(ended, id)
			s.Hold(id, next, nil)
		})
	}
	begin("large, within its share", 2000*mega, 500*mega)
	begin("small, above its share", 200*mega, 190*mega)
	begin("innocent", 200*mega, 10*mega)
	look := func() bool { return s.relieve(t.Context(), whole) }
	if look() || s.pressed {
		t.Error("at 80 % a sandbox was disturbed")
	}
	whole.used["large, within its share"] = 660 * mega
	if !look() || !s.pressed || whole.used["ahead"] != 0 || len(ended) > 0 {
		t.Errorf("at 96 %% with what was made ahead: pressed %v, used %v, ended %v", s.pressed, whole.used, ended)
	}
	if err := s.claim("new", &claim{user: "bob", memory: mega}, belljar.Quota{}); err != nil {
		t.Fatal(err)
	}
	ok, later := s.Place("new", false)
	if ok {
		t.Error("admitted above the watermark")
	}
	if look() || !s.pressed {
		t.Error("at 86 % the pressure stays, and nobody is to go")
	}
	whole.used["large, within its share"] = 760 * mega
	if !look() || len(ended) != 1 || ended[0] != "small, above its share" {
		t.Errorf("at 96 %% ended %v", ended)
	}
	if has, _ := s.Living(ended[0]); has != next || whole.used[ended[0]] != 0 {
		t.Fatalf("%v is left, and %d bytes of the one that was ended", has, whole.used[ended[0]])
	}
	if look() || s.pressed {
		t.Error("at 77 % the pressure is still on")
	}
	<-later
	if ok, _ := s.Place("new", false); !ok {
		t.Error("not admitted when there is room again")
	}
}

// By caps, no more is admitted than could be used, whatever is in use. A waiting request continues when a sandbox was removed.
func TestAdmissionByCaps(t *testing.T) {
	n := &Memory{Mode: AdmitCaps, bound: 1000 * mega}
	for id, cap := range map[string]int64{"a": 600, "b": 400, "c": 400} {
		if err := n.claim(id, &claim{user: id, memory: cap * mega}, belljar.Quota{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"a", "b", "a"} {
		if ok, _ := n.Place(id, false); !ok {
			t.Errorf("%s has no room", id)
		}
	}
	ok, later := n.Place("c", false)
	if ok {
		t.Error("more was admitted than may be used")
	}
	n.Drop("b")
	n.Drop("b")
	<-later
	if ok, _ := n.Place("c", false); !ok || n.placed != 1000*mega {
		t.Errorf("room that is free again: %v, %d MiB are placed", ok, n.placed/mega)
	}
	if n.fits(&claim{memory: 1001 * mega}) || !n.fits(&claim{memory: 1000 * mega}) {
		t.Error("what can never be placed, or just so")
	}
	n.Drop("a")
	n.Drop("c")
	if n.placed != 0 || len(n.claims) != 0 {
		t.Errorf("left: %d, %v", n.placed, n.claims)
	}
}

// If no runtime bounds all sandboxes together, as Docker, the operator's figure is the bound of admission by caps, and only of that.
func TestAdmissionByCapsWithoutACgroup(t *testing.T) {
	for mode, want := range map[Mode]float64{AdmitCaps: 1500 * mega, AdmitUsed: 0} {
		n := &Memory{
			Mode: mode, Overcommit: 1.5, NodeMemory: 1000 * mega, Log: slog.New(slog.DiscardHandler),
			Hosts: placement.Hosts{placement.NewHost(reserve{})},
		}
		if n.Watch(t.Context(), nil); n.bound != want {
			t.Errorf("%s: the bound is %v MiB", mode, n.bound/mega)
		}
	}
}

// What only the preparation of a sandbox needed is released when that is over, for the quota and for waiting requests.
func TestMemoryOfAnInstallation(t *testing.T) {
	n := &Memory{Mode: AdmitCaps, bound: 1000 * mega}
	p := placement.Placement{Limits: belljar.Limits{MemoryMB: 100, WorkspaceMB: 56, TmpMB: 64}, InstallMB: 700}
	if err := n.Claim("a", "ann", &p, belljar.Quota{}); err != nil {
		t.Fatal(err)
	}
	if err := n.claim("b", &claim{user: "bob", memory: 700 * mega}, belljar.Quota{}); err != nil {
		t.Fatal(err)
	}
	n.Place("a", false)
	ok, later := n.Place("b", false)
	if used, _ := n.Used("ann"); ok || used != 844*mega {
		t.Fatalf("meanwhile: %v, %d MiB", ok, used/mega)
	}
	for range 2 {
		n.Settle("a", p)
	}
	<-later
	if used, _ := n.Used("ann"); used != 300*mega {
		t.Errorf("afterwards: %d MiB", used/mega)
	}
	if ok, _ := n.Place("b", false); !ok || n.placed != 1000*mega {
		t.Errorf("%v, %d MiB are placed", ok, n.placed/mega)
	}
	n.Drop("b")
	if n.Drop("a"); n.placed != 0 {
		t.Errorf("%d MiB are left", n.placed/mega)
	}
	n.Settle("a", p)
}

// A session for which there is no memory is refused with the time to retry.
func TestRefusesWithoutMemory(t *testing.T) {
	var e *belljar.Error
	if err := (&Memory{}).Full(); !errors.As(err, &e) || e.Code != belljar.CodeRuntimeUnavailable || e.Details["retry_after_sec"] != 5 || e.Hint == "" {
		t.Errorf("%+v", err)
	}
}
