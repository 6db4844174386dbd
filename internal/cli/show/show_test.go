package show

import (
	"testing"

	"github.com/belljar/belljar/internal/notice"
)

// A command on one line reads as a shell would execute it: a line break in a word is no space, after which a comment would go on.
func TestCommand(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"ls", "-l", ""}, "ls -l ''"},
		{[]string{"sh", "-c", "make test # it's"}, `sh -c 'make test # it'\''s'`},
		{[]string{"sh", "-c", "make test #\nrm -r '.'\t\\"}, `sh -c $'make test #\nrm -r \'.\'\t\\'`},
		{[]string{"a\x1b[2Kb\u009bc\r"}, `$'a\u001b[2Kb\u009bc\u000d'`},
	} {
		if got := notice.OneLine(Command(c.argv)); got != c.want {
			t.Errorf("%q: %s, want %s", c.argv, got, c.want)
		}
	}
}
