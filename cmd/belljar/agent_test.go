package main

import (
	"io"
	"testing"
	"testing/fstest"

	"github.com/belljar/belljar"
)

func TestAgentIn(t *testing.T) {
	folder := fstest.MapFS{"agent/belljar-agent-linux-arm64": {Data: []byte("elf")}}
	program, err := agentIn(folder, "arm64")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(program); err != nil || string(got) != "elf" {
		t.Errorf("%q, %v", got, err)
	}
	_, err = agentIn(folder, "amd64")
	if err == nil || err.Error() != "this binary was built without the agent" || belljar.HintOf(err) != "run make build, then use bin/belljar" {
		t.Errorf("%v, hint %q", err, belljar.HintOf(err))
	}
}
