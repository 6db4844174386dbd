//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// host is the state that must not grow.
type host struct {
	children    []string // of this process, dead or alive
	descriptors []string // of this process
	mounts      int      // that name belljar
}

func observe() (host, error) {
	var h host
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return h, err
	}
	for _, list := range lists {
		raw, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, pid := range strings.Fields(string(raw)) {
			name, _ := os.ReadFile("/proc/" + pid + "/comm")
			h.children = append(h.children, pid+" "+strings.TrimSpace(string(name)))
		}
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return h, err
	}
	for _, fd := range fds {
		target, _ := os.Readlink("/proc/self/fd/" + fd.Name())
		h.descriptors = append(h.descriptors, fd.Name()+" "+target)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	h.mounts = bytes.Count(mounts, []byte("belljar"))
	return h, err
}

// grown returns what has increased.
func (h host) grown(before host) error {
	var errs []error
	if len(h.children) > len(before.children) {
		errs = append(errs, fmt.Errorf("processes left: %q", h.children))
	}
	if len(h.descriptors) > len(before.descriptors) {
		errs = append(errs, fmt.Errorf("descriptors before %q, after %q", before.descriptors, h.descriptors))
	}
	if h.mounts > before.mounts {
		errs = append(errs, fmt.Errorf("mounts before %d, after %d", before.mounts, h.mounts))
	}
	return errors.Join(errs...)
}
