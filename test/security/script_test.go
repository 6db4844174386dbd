//go:build linux

package security

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// script is one attack.
type script struct {
	name, path string
	header     map[string]string // the words for people
	probe      bool
	flags      []string
	hosts      []string
	limits     []string
	expect     []expectation
}

// expectation is one line of what must come of a run.
type expectation struct{ key, value string }

var headerLine = regexp.MustCompile(`^# ([A-Z][A-Za-z ]*): (.*)$`)

func readScripts(t *testing.T) []script {
	t.Helper()
	paths, err := filepath.Glob("scripts/*.sh")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	var all []script
	for _, path := range paths {
		s, err := readScript(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

func readScript(path string) (script, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return script{}, err
	}
	s := script{name: strings.TrimSuffix(filepath.Base(path), ".sh"), header: map[string]string{}}
	if s.path, err = filepath.Abs(path); err != nil {
		return script{}, err
	}
	for _, line := range strings.Split(string(raw), "\n") {
		if !strings.HasPrefix(line, "#") {
			break
		}
		m := headerLine.FindStringSubmatch(line)
		if m == nil {
			continue // the rest of a long sentence
		}
		key, words := m[1], strings.Fields(m[2])
		switch key {
		case "Attack", "Why it matters", "What must hold":
			s.header[key] = m[2]
		case "Needs":
			s.probe = slices.Contains(words, "probe")
		case "Run":
			s.flags = words
		case "Host":
			s.hosts = words
		case "Limits":
			s.limits = words
		case "Expect":
			s.expect = append(s.expect, expectation{words[0], strings.Join(words[1:], " ")})
		default:
			return script{}, fmt.Errorf("%s: unknown header %q", path, key)
		}
	}
	if !slices.ContainsFunc(s.expect, func(e expectation) bool { return e.key == "phase" }) {
		s.expect = append(s.expect, expectation{"phase", "completed"}, expectation{"exit", "0"}, expectation{"reason", ""})
	}
	return s, nil
}

// unfit says why s does not apply to l, "" if it does.
func (s script) unfit(l *lane) string {
	for _, limit := range s.limits {
		name, by, _ := strings.Cut(limit, "-")
		if p := l.protections[name]; !p.Enforced || !strings.Contains(p.By, by) {
			return fmt.Sprintf("lane %s cannot enforce %s here: %s", l.name, limit, p.Hint)
		}
	}
	return ""
}

func (e expectation) check(got outcome) error {
	actual := ""
	switch e.key {
	case "phase":
		actual = string(got.Phase)
	case "reason":
		actual = string(got.ReasonCode)
	case "exit":
		actual = got.exit()
	case "truncated":
		e.value, actual = "true", strconv.FormatBool(got.Truncated)
	case "warning":
		for _, w := range got.Warnings {
			if strings.Contains(w, e.value) {
				return nil
			}
		}
		return fmt.Errorf("warnings are %q, must hold %q", got.Warnings, e.value)
	default:
		return fmt.Errorf("unknown expectation %q", e.key)
	}
	if actual != e.value {
		return fmt.Errorf("%s is %q, must be %q (%s)", e.key, actual, e.value, got.Message)
	}
	return nil
}
