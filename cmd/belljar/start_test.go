package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/belljar/belljar/test/build"
)

// TestStart limits the memory that packages allocate before main, because every command pays for it. The bytes are the
// same on every machine; the time is not.
func TestStart(t *testing.T) {
	const most = 1700 << 10
	built, err := build.Into(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	start := exec.Command(built.Belljar, "version")
	start.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var stderr strings.Builder
	start.Stderr = &stderr
	if err := start.Run(); err != nil {
		t.Fatal(err)
	}
	total := 0
	lines := regexp.MustCompile(`(?m)^init (\S+) @.* clock, (\d+) bytes,`).FindAllStringSubmatch(stderr.String(), -1)
	for _, line := range lines {
		bytes, err := strconv.Atoi(line[2])
		if err != nil {
			t.Fatal(err)
		}
		total += bytes
		if bytes > most/20 {
			t.Logf("%s allocates %d bytes", line[1], bytes)
		}
	}
	if len(lines) < 50 || total > most {
		t.Errorf("%d packages allocate %d bytes before main, want 50 or more packages and at most %d bytes", len(lines), total, most)
	}
}
