package show

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/notice"
)

// A command on one line reads as a shell executes it: a line break in a word is not a space, which could begin a comment.
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

// A terminal obeys U+009B like ESC [. JSON allows it unescaped.
func TestJSONIsForTerminals(t *testing.T) {
	const name = "a\u009b2J\x7fé<\u00a0"
	var b strings.Builder
	if err := JSON(&b, map[string]string{"path": name}); err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"path\": \"a\\u009b2J\\u007fé<\u00a0\"\n}\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil || got["path"] != name {
		t.Errorf("%q, %v", got, err)
	}
}
