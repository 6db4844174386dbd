//go:build linux

package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// badCalls are failing tool calls; each returns its error to the model as text.
const badCalls = `[
  {"calls": [{"name": "run_code", "input": {"language": "cobol", "code": "x"}}]},
  {"given": "error: the arguments of run_code are wrong: language is one of python, javascript, bash", "calls": [{"name": "run_code", "input": {"language": "python"}}]},
  {"given": "error: the arguments of run_code are wrong", "calls": [{"name": "write_file", "input": {"path": "../x", "contents": ""}}]},
  {"given": "error: path \"../x\" leads out of the workspace", "calls": [{"name": "read_file", "input": {"path": "nothing"}}]},
  {"given": "error: \"nothing\" does not exist", "calls": [{"name": "shell", "input": {"command": "exit 3"}}]},
  {"given": "[exit code 3]", "calls": [{"name": "shell", "input": {"command": "yes | head -c 100000"}}]},
  {"given": ["y\ny\n", "92000 characters left out"], "calls": [{"name": "shell", "input": {"command": "printf 'no text: \\377'"}}]},
  {"given": "no text: ", "calls": [{"name": "list_files", "input": {}}]},
  {"given": "nothing is there", "text": "That was all wrong."}
]`

// TestToolsGoWrong calls the tools with wrong arguments, in both languages: no call ends the program.
func TestToolsGoWrong(t *testing.T) {
	dir := filepath.Join(copied(t), "tools")
	installed(t, dir)
	if out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "typescript/node_modules/.bin/tsc"), "-p", filepath.Join(dir, "typescript")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.json"), []byte(badCalls), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, program := range map[string]string{"python": "python3 python/ask.py", "typescript": "node typescript/build/ask.js"} {
		t.Run(name, func(t *testing.T) {
			out, err := bash(t, dir, "python3 ../model/model.py bad.json -- "+program+" 'Do it all wrong'")
			if err != nil || !strings.HasSuffix(out, "That was all wrong.\n") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestNoPicture makes the analysis leave files that only have the names of pictures: none of them is
// fetched.
func TestNoPicture(t *testing.T) {
	dir := filepath.Join(copied(t), "plot")
	const play = `[
	  {"calls": [{"name": "python", "input": {"code": "import os\nopen('page.png', 'w').write('<script>')\nopen('empty.png', 'w')\nos.symlink('/etc/passwd', 'link.png')\nos.mkdir('d.png')\nopen('short.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n')\n"}}]},
	  {"given": ["page.png is no picture", "empty.png is no picture", "link.png is no picture", "short.png is no picture"], "calls": [{"name": "python", "input": {"program": ""}}]},
	  {"given": "the arguments are wrong", "calls": [{"name": "python", "input": {"code": "raise SystemExit(3)"}}]},
	  {"given": "[command exited with status 3]", "text": "Nothing."}
	]`
	if err := os.WriteFile(filepath.Join(dir, "play.json"), []byte(play), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := bash(t, dir, "python3 ../model/model.py play.json -- python3 analyse.py orders.csv 'Draw nothing.'")
	if err != nil || !strings.HasSuffix(out, "Nothing.\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "out")); !os.IsNotExist(err) {
		t.Errorf("something came home: %v", err)
	}
}
