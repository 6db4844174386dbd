//go:build linux

package security

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// secret gives the run a secret, and checks that neither its result nor its artifacts have the value in any form.
func secret(t *testing.T, tr *trial) func(outcome) {
	value := tr.secret(t, "API_TOKEN")
	out := ""
	for i, flag := range tr.flags {
		if flag == "--out" {
			out = tr.flags[i+1]
		}
	}
	return func(got outcome) {
		hidden(t, got.Stdout, value)
		raw, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string][]byte{"the result": raw, "stdout": []byte(got.Stdout), "stderr": []byte(got.Stderr)}
		if out != "" {
			err = filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					found[path], err = os.ReadFile(path)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
		for where, text := range found {
			for _, form := range forms(value) {
				if bytes.Contains(text, []byte(form)) {
					t.Errorf("%s has %q", where, form)
				}
			}
		}
	}
}

// formLine is a line of a program that prints a secret: the form, the number of bytes, and in brackets the bytes.
var formLine = regexp.MustCompile(`(?m)^form ([a-z0-9-]+) (\d+) \[(.*)\]$`)

// hidden checks that each form that a program has printed still has its length, and consists of asterisks.
func hidden(t *testing.T, stdout, value string) {
	t.Helper()
	all := formLine.FindAllStringSubmatch(stdout, -1)
	if want := strings.Count(stdout, "\nform ") + strings.Count(stdout, "end of forms"); want > 0 && len(all) < 10 {
		t.Errorf("control: only %d forms", len(all))
	}
	for _, m := range all {
		size, _ := strconv.Atoi(m[2])
		if stars := strings.Count(m[3], "*"); len(m[3]) != size || stars < len(value) || size < stars {
			t.Errorf("%s of %d bytes became %d, %d of them asterisks: %s", m[1], size, len(m[3]), stars, m[3])
		}
	}
}

// forms are the ways in which a program may print a secret by accident. For base64 it is a part that does not depend on
// its neighbours.
func forms(value string) []string {
	list := []string{value, hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value)))}
	for before := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + value))
		list = append(list, text[8:len(text)-8])
	}
	return list
}

// secret writes a secret to a file of the host, makes the run use it, and returns its value.
func (tr *trial) secret(t *testing.T, name string) string {
	value := "secret/" + rand.Text()
	path := filepath.Join(tr.dir, name)
	if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
		t.Fatal(err)
	}
	tr.flags = append(tr.flags, "--secret", name+"=@"+path)
	return value
}

// secretNeighbour keeps another sandbox alive that has a secret, after one with a secret that is gone.
func secretNeighbour(t *testing.T, tr *trial) func(outcome) {
	var values []string
	keep := func() (end func()) {
		other := tr.lane.trial(t)
		values = append(values, other.secret(t, "NEIGHBOUR_TOKEN"))
		return other.hold("test -s /run/secrets/NEIGHBOUR_TOKEN || exit 9; cp /run/secrets/NEIGHBOUR_TOKEN /tmp; cp /run/secrets/NEIGHBOUR_TOKEN /dev/shm")
	}
	keep()()
	end := keep()
	return func(got outcome) {
		end()
		if slices.ContainsFunc(values, func(v string) bool { return strings.Contains(got.Stdout+got.Stderr, v) }) {
			t.Error("the neighbour's secret came out")
		}
	}
}
