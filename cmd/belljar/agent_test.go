package main

import (
	"testing"
	"testing/fstest"

	"github.com/belljar/belljar"
)

func TestAgentIn(t *testing.T) {
	folder := fstest.MapFS{"agent/belljar-agent-linux-arm64": {Data: []byte("elf")}}
	if got, err := agentIn(folder, "arm64"); err != nil || string(got) != "elf" {
		t.Errorf("%q, %v", got, err)
	}
	_, err := agentIn(folder, "amd64")
	if err == nil || err.Error() != "this binary was built without the agent" || belljar.HintOf(err) != "run make build, then use bin/belljar" {
		t.Errorf("%v, hint %q", err, belljar.HintOf(err))
	}
}
