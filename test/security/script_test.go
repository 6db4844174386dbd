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
	header     map[string]string // the fields for readers
	probe      bool
	forged     bool // its agent obeys programs
	clean      bool // it leaves its sandbox unchanged
	flags      []string
	hosts      []string
	limits     []string
	image      string            // a hostile one; "" for the lane's
	images     map[string]string // friendly ones, by the fact for which a lane uses them
	except     []exception
	expect     []expectation
}

// expectation is one line of the expected result of a run, on the lanes for which the fact is true.
type expectation struct{ key, value, fact string }

// usualEnd is expected of a script without a line about the phase.
var usualEnd = []expectation{{key: "phase", value: "completed"}, {key: "exit", value: "0"}, {key: "reason"}}

// exception names lanes on which there is nothing to attack.
type exception struct {
	facts  []string
	reason string
}

var exceptionWords = regexp.MustCompile(`^([a-z -]+) \((.+)\)$`)

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
	s := script{name: strings.TrimSuffix(filepath.Base(path), ".sh"), header: map[string]string{}, images: map[string]string{}}
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
		case "Agent":
			if s.forged = m[2] == "forged"; !s.forged {
				return script{}, fmt.Errorf("%s: want forged, got %q", path, m[2])
			}
		case "Leaves":
			if s.clean = m[2] == "nothing"; !s.clean {
				return script{}, fmt.Errorf("%s: want nothing, got %q", path, m[2])
			}
		case "Run":
			s.flags = words
		case "Host":
			s.hosts = words
		case "Image":
			s.image = m[2]
		case "Limits":
			s.limits = words
		case "Not on":
			e := exceptionWords.FindStringSubmatch(m[2])
			if e == nil {
				return script{}, fmt.Errorf("%s: who is excepted says why: lanes (reason): %q", path, m[2])
			}
			s.except = append(s.except, exception{strings.Fields(e[1]), e[2]})
		case "Expect":
			rest, fact, _ := strings.Cut(m[2], " if ")
			k, value, _ := strings.Cut(rest, " ")
			s.expect = append(s.expect, expectation{k, value, fact})
		default:
			fact, ok := strings.CutPrefix(key, "Image on ")
			if !ok {
				return script{}, fmt.Errorf("%s: unknown header %q", path, key)
			}
			s.images[fact] = m[2]
		}
	}
	if !slices.ContainsFunc(s.expect, func(e expectation) bool { return e.key == "phase" }) {
		s.expect = append(s.expect, usualEnd...)
	}
	return s, nil
}

// needless explains why there is nothing to attack on l, or returns "".
func (s script) needless(l *lane) string {
	for _, e := range s.except {
		if slices.ContainsFunc(e.facts, l.is) {
			return e.reason
		}
	}
	return ""
}

// imageOn returns the image of s on l, or "" for the lane's.
func (s script) imageOn(l *lane) string {
	for fact, word := range s.images {
		if l.is(fact) {
			return word
		}
	}
	return s.image
}

// missing returns the limits that s tests and l cannot enforce.
func (s script) missing(l *lane) []string {
	var names []string
	for _, limit := range s.limits {
		if !l.enforces(limit) {
			names = append(names, limit)
		}
	}
	return names
}

// applies reports whether e is expected on l.
func (e expectation) applies(l *lane) bool { return e.fact == "" || l.is(e.fact) }

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
