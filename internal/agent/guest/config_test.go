package guest

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestParseConfig(t *testing.T) {
	all := Config{
		ListenFD: 3, Stdio: true, LifelineFD: 4, CgroupFD: 5, LocksFD: 8, LeaseMS: 6, Workspace: "/w", Secrets: "/s", Build: "b", Fenced: true,
		ExecFilter: []byte{0, 255, 7}, Unscored: true, Init: true, Lock: "8:1:2", Relay: true,
	}
	for i := range reflect.TypeFor[Config]().NumField() {
		if reflect.ValueOf(all).Field(i).IsZero() {
			t.Fatalf("the test leaves %s out", reflect.TypeFor[Config]().Field(i).Name)
		}
	}
	for name, cfg := range map[string]Config{"all": all, "none": {}, "escapes": {Workspace: "/<é>"}} {
		raw, err := json.Marshal(cfg)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseConfig(raw)
		if err != nil || !reflect.DeepEqual(got, cfg) {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, cfg)
		}
		if _, plain := plainConfig(raw); plain != (name != "escapes") {
			t.Errorf("%s: plain is %v", name, plain)
		}
	}
	if _, err := ParseConfig([]byte(`{"listen_fd":"3"}`)); err == nil {
		t.Error("a string as a descriptor: no error")
	}
}
