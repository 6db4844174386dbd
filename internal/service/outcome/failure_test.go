package outcome

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
)

func TestFailure(t *testing.T) {
	const stack = "Traceback (most recent call last):\n  File \"/workspace/sub/main.py\", line 3, in <module>\n    load()\n    ^^^^^^\n" +
		"  File \"/usr/lib/python3.11/json/x.py\", line 9, in y\n    z\n  File \"/tmp/t.py\", line 1, in t\nValueError: no\n"
	frame := func(file string, line int, function, skipped string) belljar.FailureFrame {
		return belljar.FailureFrame{File: file, Line: line, Function: function, Skipped: skipped}
	}
	for name, c := range map[string]struct {
		stdout, stderr, cwd string
		want                *belljar.RunFailure
	}{
		"none": {"hello\n", "warning\n", "", nil},
		"stack": {"", stack, "", &belljar.RunFailure{Language: "python", Type: "ValueError", Message: "no", Frames: []belljar.FailureFrame{
			frame("/tmp/t.py", 1, "t", "elsewhere"), frame("/usr/lib/python3.11/json/x.py", 9, "y", "runtime"), frame("sub/main.py", 3, "<module>", "")}}},
		"a test of stdout": {"--- FAIL: TestX (0s)\n    x_test.go:4: no\n", "exit status 1\n", "sub", &belljar.RunFailure{Language: "go", Type: "FAIL", Message: "no",
			Frames: []belljar.FailureFrame{frame("sub/x_test.go", 4, "TestX", "")}}},
		"a compiler before a shell": {"", "x.c:1:2: error: bad\nsh: 1: ./x: not found\n", "/tmp", &belljar.RunFailure{Language: "c", Type: "error", Message: "bad",
			Frames: []belljar.FailureFrame{{File: "x.c", Line: 1, Column: 2, Skipped: "elsewhere"}}}},
		"Java": {"", "Exception in thread \"main\" java.lang.Error\n\tat a.B.c(B.java:3)\n", "sub", &belljar.RunFailure{Language: "java", Type: "java.lang.Error",
			Frames: []belljar.FailureFrame{frame("a/B.java", 3, "a.B.c", "")}}},
		"javac in a folder": {"", "Main.java:1: error: x\n", "app", &belljar.RunFailure{Language: "java", Type: "error", Message: "x",
			Frames: []belljar.FailureFrame{frame("app/Main.java", 1, "", "")}}},
		"javac with a whole path": {"", "/workspace/src/A.java:1: error: x\n", "app", &belljar.RunFailure{Language: "java", Type: "error", Message: "x",
			Frames: []belljar.FailureFrame{frame("src/A.java", 1, "", "")}}},
		"a test of a Go module": {"--- FAIL: TestX (0s)\n    x_test.go:4: no\nFAIL\nFAIL\texample.com/m/p\t0.1s\n", "", "sub", &belljar.RunFailure{
			Language: "go", Type: "FAIL", Message: "no", Frames: []belljar.FailureFrame{frame("example.com/m/p/x_test.go", 4, "TestX", "elsewhere")}}},
		"Go with -trimpath": {"", "panic: no\n\ngoroutine 1 [running]:\nmain.f()\n\tapp/f.go:3 +0x25\nmain.main()\n\t./main.go:4 +0x25\n", "sub", &belljar.RunFailure{
			Language: "go", Type: "panic", Message: "no", Frames: []belljar.FailureFrame{frame("app/f.go", 3, "main.f", "elsewhere"), frame("sub/main.go", 4, "main.main", "")}}},
		"go build": {"", "p/x.go:4:2: undefined: y\n", "sub", &belljar.RunFailure{Language: "go", Type: "error", Message: "undefined: y",
			Frames: []belljar.FailureFrame{{File: "sub/p/x.go", Line: 4, Column: 2}}}},
	} {
		if got := Failure(c.stdout, c.stderr, c.cwd); !cmp.Equal(got, c.want) {
			t.Errorf("%s: %s", name, cmp.Diff(c.want, got))
		}
	}
}

// A program's own frame is kept outside the many frames of a library, short or long ones.
func TestOwnFrameIsKept(t *testing.T) {
	for _, long := range []int{1, 900} {
		library := strings.Repeat("  File \"/usr/lib/python3.11/"+strings.Repeat("x", long)+".py\", line 1, in copy\n", 990)
		got := Failure("", "Traceback (most recent call last):\n  File \"/workspace/main.py\", line 3, in <module>\n"+library+"RecursionError: deep\n", "")
		place, ok := got.Place()
		last := len(got.Frames) - 1
		if want := (belljar.FailureFrame{File: "main.py", Line: 3, Function: "<module>"}); !ok || place != want || got.Frames[last] != want {
			t.Errorf("%+v %t", place, ok)
		}
		if long == 1 && len(got.Frames) != mostPlace || long == 900 && (last < 3 || last*long > mostFailure) {
			t.Errorf("%d frames", len(got.Frames))
		}
	}
}

func TestFailureBounds(t *testing.T) {
	var b strings.Builder
	b.WriteString("Traceback (most recent call last):\n")
	for i := range 9000 {
		fmt.Fprintf(&b, "  File \"/workspace/%s.py\", line %d, in f\n", strings.Repeat("long/", i%190), i+1)
	}
	b.WriteString("ValueError: " + strings.Repeat("é", 5000) + "\n")
	got := Failure("", b.String(), "")
	raw, err := json.Marshal(got)
	if err != nil || len(raw) > mostFailure+mostReason+mostPlace*80 || len(got.Frames) == 0 || len(got.Message) > mostReason {
		t.Errorf("%v: %d bytes, %d frames", err, len(raw), len(got.Frames))
	}
}
