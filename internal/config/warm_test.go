package config

import (
	"maps"
	"slices"
	"testing"
)

func TestPreload(t *testing.T) {
	c := load(t, Sources{Env: []string{"SANDBOX_WARM_PRELOAD=host=json+urllib.request,python:3.11-slim=pandas,host=re"}})
	got := c.Preload()
	if len(got) != 2 || !slices.Equal(got["host"], []string{"json", "urllib.request", "re"}) || !slices.Equal(got["python:3.11-slim"], []string{"pandas"}) || c.Warm != "auto" {
		t.Errorf("%v, %s", maps.Clone(got), c.Warm)
	}
	for _, bad := range []string{"host", "=json", "host=", "host=a b", "host=a++b", "host=../x", "host=a;b"} {
		if checkPreload(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
