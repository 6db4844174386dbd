//go:build linux

package idmap

import (
	"fmt"
	"os"
	"path/filepath"
)

// The subordinate ids of a user, as useradd gives them.
const (
	grantFirst = 100000
	grantSize  = 65536
)

// Grant returns the command with which root gives a user subordinate ids. No other user or account has them: users who share ids can signal
// and trace each other's sandboxes. root is as in [Options].
func Grant(root, name string) string {
	taken := accounts(Options{Root: root})
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			continue // no user has any
		}
		_, all := parseSub(string(text), "", "")
		taken = append(taken, all...)
	}
	for _, s := range without([]span{{grantFirst, rootFirst}}, taken) {
		if s.size() >= grantSize {
			return fmt.Sprintf("usermod --add-subuids %d-%d --add-subgids %[1]d-%[2]d %[3]s", s.first, s.first+grantSize-1, name)
		}
	}
	return "give " + name + " a range in /etc/subuid and /etc/subgid"
}
