//go:build linux

package examples

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar/test/sdk"
	"github.com/belljar/belljar/test/served"
)

// TestPages runs the examples of the task pages and compares their output.
func TestPages(t *testing.T) {
	s := served.Start(t, built.Belljar)
	user := []string{"BELLJAR_SERVER=" + s.URL, "BELLJAR_API_KEY=" + s.User(t, "reader")}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	const first = "completed 42\nstep 0\nstep 1\nstep 2\n"
	for _, c := range []struct {
		page, language, begins string // of the block
		run                    string // in a folder with the block in the file BLOCK
		server                 bool
		prints                 string
	}{
		{page: "agent.md", language: "sh", begins: "printf", run: ". ./BLOCK",
			prints: "sandbox.run\nsandbox_close\n…\nsandbox_open\n"},
		{page: "agent.md", language: "python", begins: "from belljar", run: "python3 BLOCK",
			prints: "exit status 0\nanswer\n\nexit status 0\n42\n"},
		{page: "agent.md", language: "yaml", begins: "---",
			run:    `echo '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}' | belljar mcp --agent-file BLOCK | jq -r '.result.tools[].name'`,
			prints: "sandbox_close\n…\nsandbox_open\n"},
		{page: "hosted.md", language: "python", begins: "from belljar", run: "python3 BLOCK", server: true,
			prints: "0 ['3', '10']\n['data.csv']\n"},
		{page: "build.md", language: "python", begins: "from belljar", run: "python3 BLOCK", server: true, prints: first},
		{page: "build.md", language: "js", begins: "import", run: "mv BLOCK first.mjs; node first.mjs", server: true, prints: first},
		{page: "build.md", language: "go", begins: "package main", run: `mv BLOCK main.go; at=$PWD; cd "$ROOT"; go run -trimpath "$at/main.go"`, server: true, prints: first},
	} {
		t.Run(c.page+"/"+c.language, func(t *testing.T) {
			dir, env := t.TempDir(), []string{"ROOT=" + root}
			if c.server {
				env = append(env, user...)
			}
			if c.language == "js" {
				typescript, err := typescript()
				if err == nil {
					err = sdk.Depend(dir, typescript)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			block := blockOf(t, filepath.Join(root, "docs", c.page), c.language, c.begins)
			if err := os.WriteFile(filepath.Join(dir, "BLOCK"), []byte(block), 0o644); err != nil {
				t.Fatal(err)
			}
			printed, err := bash(t, dir, c.run, env...)
			if err != nil || !like(c.prints, printed) {
				t.Errorf("%s prints\n%s\nand ends with %v, want\n%s", block, printed, err, c.prints)
			}
		})
	}
}

// blockOf returns the block of a page with the given language and beginning.
func blockOf(t *testing.T, page, language, begins string) string {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(raw), "```"+language+"\n"+begins)
	block, _, ended := strings.Cut(block, "\n```\n")
	if !found || !ended {
		t.Fatalf("%s has no block in %s that begins with %q", page, language, begins)
	}
	return begins + block + "\n"
}
