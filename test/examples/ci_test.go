//go:build linux

package examples

import (
	"encoding/xml"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// workflow is the part of a workflow's file that a runner needs.
type workflow struct {
	On          string            `yaml:"on"`
	Permissions map[string]string `yaml:"permissions"`
	Jobs        map[string]struct {
		Steps []struct {
			Uses string            `yaml:"uses"`
			If   string            `yaml:"if"`
			Run  string            `yaml:"run"`
			With map[string]string `yaml:"with"`
		} `yaml:"steps"`
	} `yaml:"jobs"`
}

// TestWorkflow does the same as a runner with pull-request.yml for each of the changes: it checks out, and runs the command
// steps, those with always() even after a failure.
func TestWorkflow(t *testing.T) {
	raw, err := os.ReadFile("../../examples/ci/pull-request.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file workflow
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	// With pull_request GitHub would run the change's version of the workflow on the runner, outside of any sandbox.
	if file.On != "pull_request_target" || len(file.Permissions) != 1 || file.Permissions["contents"] != "read" {
		t.Errorf("on %s with %v", file.On, file.Permissions)
	}
	// The change unmergeable has no merge commit, so its checkout fails.
	for change, passes := range map[string]bool{"good": true, "broken": false, "hostile": false, "unmergeable": false} {
		t.Run(change, func(t *testing.T) {
			dir := t.TempDir()
			written := filepath.Join(dir, "step-summary")
			earlier(t, filepath.Join(dir, "results"))
			failed, checkouts := false, 0
			for _, step := range file.Jobs["test"].Steps {
				switch {
				case strings.HasPrefix(step.Uses, "actions/checkout@") && !failed:
					checkouts++
					if step.With["persist-credentials"] != "false" {
						t.Errorf("the token is left in %s", step.With["path"])
					}
					from, to := "../../examples/ci/change/"+change, filepath.Join(dir, step.With["path"])
					switch step.With["ref"] {
					case "refs/pull/${{ github.event.pull_request.number }}/merge":
						failed = change == "unmergeable"
					case "${{ github.base_ref }}":
						from, to = "../../examples", filepath.Join(to, "examples")
					default:
						t.Errorf("a checkout of %q", step.With["ref"])
					}
					if failed {
						continue
					}
					if err := os.CopyFS(to, os.DirFS(from)); err != nil {
						t.Fatal(err)
					}
				case step.Run != "" && (!failed || step.If == "always()"):
					if out, err := bash(t, dir, "set -e\n"+step.Run, "GITHUB_STEP_SUMMARY="+written, "GITHUB_TOKEN=secret"); err != nil {
						failed = true
						t.Logf("%s: %v\n%s", step.Run, err, out)
					}
				}
			}
			if change == "unmergeable" {
				if got := leftOf(t, dir, written); !failed || got != "" {
					t.Errorf("failed %v, and published results of an earlier job: %s", failed, got)
				}
				return
			}
			if failed == passes || checkouts != 2 {
				t.Errorf("failed %v after %d checkouts", failed, checkouts)
			}
			summary, err := os.ReadFile(written)
			if want := map[bool]string{true: "## Tests passed", false: "## Tests failed"}[passes]; err != nil || !strings.HasPrefix(string(summary), want) {
				t.Errorf("summary %q, %v", summary, err)
			}
			var suite struct {
				Tests    int `xml:"tests,attr"`
				Failures int `xml:"failures,attr"`
				Errors   int `xml:"errors,attr"`
			}
			report, err := os.ReadFile(filepath.Join(dir, "results/junit.xml"))
			if err == nil {
				err = xml.Unmarshal(report, &suite)
			}
			if err != nil || suite.Tests == 0 || passes != (suite.Failures+suite.Errors == 0) {
				t.Errorf("report %s, %v", report, err)
			}
		})
	}
}

// earlier writes the results of an earlier job, which a runner of one's own still has.
func earlier(t *testing.T, results string) {
	t.Helper()
	if err := os.MkdirAll(results, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"summary.md", "junit.xml"} {
		if err := os.WriteFile(filepath.Join(results, name), []byte("## Tests passed (earlier)\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// leftOf returns what a job has published: its summary, and the results in dir.
func leftOf(t *testing.T, dir string, files ...string) (text string) {
	t.Helper()
	for _, name := range append(files, filepath.Join(dir, "results/summary.md"), filepath.Join(dir, "results/junit.xml")) {
		raw, err := os.ReadFile(name)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		text += string(raw)
	}
	return text
}

// utf16 is ASCII in UTF-16, with a byte order mark.
func utf16(text string) string {
	return "\xff\xfe" + strings.Join(strings.Split(text, ""), "\x00") + "\x00"
}

// TestReports gives summary.py hostile reports.
func TestReports(t *testing.T) {
	const fine = `<testsuite><testcase classname="A" name="b"/></testsuite>`
	for _, c := range []struct {
		name, run, report string
		passes            bool
	}{
		{"fine", `{"phase": "completed"}`, fine, true},
		{"none", `{"phase": "completed"}`, "", false},
		{"no test in it", `{"phase": "completed"}`, `<testsuite/>`, false},
		{"no XML", `{"phase": "completed"}`, `<testsuite>`, false},
		{"entities", `{"phase": "completed"}`, `<!DOCTYPE a [<!ENTITY b "c">]>` + fine, false},
		{"entities in an encoding of its own", `{"phase": "completed"}`, utf16("<?xml version='1.0' encoding='utf-16'?><!DOCTYPE a [<!ENTITY b 'c'>]>" + fine), false},
		{"an unknown encoding", `{"phase": "completed"}`, "<?xml version='1.0' encoding='x'?>" + strings.Replace(fine, "b", "\xff", 1), false},
		{"too large", `{"phase": "completed"}`, strings.Repeat(" ", 2<<20) + fine, false},
		{"too many", `{"phase": "completed"}`, "<a>" + strings.Repeat("<testcase/>", 1001) + "</a>", false},
		{"a failure", `{"phase": "completed"}`, `<a><testcase name="|[x](y)&#10;www.z"><failure message="&lt;b&gt; http://x"/></testcase></a>`, false},
		{"not completed", `{"phase": "failed", "reason_code": "oom_killed"}`, fine, false},
		{"never run", `{"error": {"code": "policy_denied", "message": "too much"}}`, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			raw := filepath.Join(dir, "raw")
			if err := os.Mkdir(raw, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(raw, "run.json"), []byte(c.run), 0o644); err != nil {
				t.Fatal(err)
			}
			if c.report != "" {
				if err := os.WriteFile(filepath.Join(raw, "report.xml"), []byte(c.report), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			out, err := bash(t, "../../examples/ci", `python3 summary.py "$RESULTS"`, "RESULTS="+dir)
			if passed := err == nil; passed != c.passes || strings.Contains(out, "Traceback") {
				t.Errorf("%v\n%s", err, out)
			}
			for _, obeyed := range []string{"[x](", "<b>", "http://", "www.", "|[", "\n|&"} {
				if strings.Contains(out, obeyed) {
					t.Errorf("the summary has %q of the report:\n%s", obeyed, out)
				}
			}
			junit, err := os.ReadFile(filepath.Join(dir, "junit.xml"))
			if err != nil || !c.passes && !strings.Contains(string(junit), "<error") && !strings.Contains(string(junit), "<failure") {
				t.Errorf("junit.xml %s, %v", junit, err)
			}
		})
	}
}

// TestHarness: a test that fails in any way is reported as failed.
func TestHarness(t *testing.T) {
	dir := t.TempDir()
	err := os.WriteFile(filepath.Join(dir, "test_ways.py"), []byte(`import unittest

class Ways(unittest.TestCase):
    def test_a_success(self):
        with self.subTest(n=1):
            pass

    def test_failing_part(self):
        for n in range(3):
            with self.subTest(n=n):
                self.assertNotEqual(n, 1)

    def test_broken_part(self):
        with self.subTest(n=1):
            raise OSError("away")

    @unittest.expectedFailure
    def test_unexpected_success(self):
        pass

class Unprepared(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise OSError("no class")

    def test_never_run(self):
        pass
`), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	out, err := bash(t, dir, `python3 "$HARNESS"`, "HARNESS="+filepath.Join(copied(t), "ci/harness.py"))
	if err == nil || !strings.Contains(out, "FAILED") {
		t.Fatalf("%v\n%s", err, out)
	}
	type bad struct {
		Message string `xml:"message,attr"`
	}
	var suite struct {
		Cases []struct {
			Name    string `xml:"name,attr"`
			Failure *bad   `xml:"failure"`
			Error   *bad   `xml:"error"`
		} `xml:"testcase"`
	}
	report, err := os.ReadFile(filepath.Join(dir, "report.xml"))
	if err == nil {
		err = xml.Unmarshal(report, &suite)
	}
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range suite.Cases {
		switch {
		case c.Failure != nil:
			got[c.Name] = "failure: " + c.Failure.Message
		case c.Error != nil:
			got[c.Name] = "error: " + c.Error.Message
		default:
			got[c.Name] = ""
		}
	}
	want := map[string]string{
		"test_a_success": "", "test_failing_part": "failure: AssertionError: 1 == 1", "test_broken_part": "error: OSError: away",
		"test_unexpected_success": "failure: unexpected success", "setUpClass (test_ways.Unprepared)": "error: OSError: no class",
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v\n%s", got, want, report)
	}
}

// TestNoSummary: if a summary cannot be written, the summary of an earlier job does not stay in its place.
func TestNoSummary(t *testing.T) {
	dir := t.TempDir()
	out, err := bash(t, "../../examples/ci", `
		mkdir "$DIR/results" "$DIR/bin"
		echo '## Tests passed' | tee "$DIR/results/summary.md" >"$DIR/results/junit.xml"
		printf '#!/bin/sh\nexit 1\n' >"$DIR/bin/python3"; chmod +x "$DIR/bin/python3"
		! PATH=$DIR/bin:$PATH ./untrusted.sh change/good "$DIR/results"
		test ! -e "$DIR/results/summary.md" && test ! -e "$DIR/results/junit.xml"`, "DIR="+dir)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestNoBelljar: without belljar on the PATH, the results of an earlier job are removed, too.
func TestNoBelljar(t *testing.T) {
	dir := t.TempDir()
	earlier(t, filepath.Join(dir, "results"))
	out, err := bash(t, "../../examples/ci", `
		mkdir "$DIR/bin" && ln -s "$(command -v rm)" "$(command -v dirname)" "$DIR/bin"
		! PATH=$DIR/bin ./untrusted.sh change/good "$DIR/results"`, "DIR="+dir)
	if err != nil || !strings.Contains(out, "belljar is not on the PATH") {
		t.Errorf("%v\n%s", err, out)
	}
	if got := leftOf(t, dir); got != "" {
		t.Errorf("results of an earlier job are left: %s", got)
	}
}
