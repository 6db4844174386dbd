package docker

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// Belljar's profile, for the agent and its children, and the filter that the agent adds for every command. Both come
// from the rules of internal/linux/seccomp. They are kept as files because they are for the engine's machine, not this
// one. TestSeccompFiles compares them, and -update writes them.
var (
	//go:embed profile/seccomp.json
	ownProfile []byte
	//go:embed profile/exec-amd64.bpf
	execAMD64 []byte
	//go:embed profile/exec-arm64.bpf
	execARM64 []byte
)

// seccompProfile reads a profile, without its white space; "" is Belljar's own.
func seccompProfile(path string) (string, error) {
	text := ownProfile
	if path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return "", err
		}
	}
	var p struct {
		DefaultAction string            `json:"defaultAction"`
		Syscalls      []json.RawMessage `json:"syscalls"`
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return "", fmt.Errorf("seccomp profile %s: %w", path, err)
	}
	if p.DefaultAction == "" || len(p.Syscalls) == 0 {
		return "", fmt.Errorf("seccomp profile %s: %w", path, errors.New("it has no defaultAction or no syscalls"))
	}
	var short bytes.Buffer
	if err := json.Compact(&short, text); err != nil {
		return "", fmt.Errorf("seccomp profile %s: %w", path, err)
	}
	return short.String(), nil
}

// execFilter is the filter of commands on an architecture.
func execFilter(arch string) ([]byte, error) {
	switch arch {
	case "amd64":
		return execAMD64, nil
	case "arm64":
		return execARM64, nil
	}
	return nil, fmt.Errorf("no system call filter for %s", arch)
}
