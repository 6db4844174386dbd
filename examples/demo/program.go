package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/belljar/belljar"
)

// program is one example: how to run it, and the expected outcome.
type program struct {
	name    string
	tries   string // its purpose, in a few words
	hostile bool
	args    []string // after "belljar run --json"
	stdin   string   // a file
	check   func(result) error
}

// result is the output of belljar run --json.
type result struct {
	belljar.Run
	Stdout    string             `json:"stdout"`
	Stderr    string             `json:"stderr"`
	Artifacts []belljar.Artifact `json:"artifacts"`
}

// run runs p in a sandbox. An error means that there is no result; a program that fails has one.
func (p program) run(ctx context.Context, binary string) (result, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, append([]string{"run", "--json"}, p.args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if p.stdin != "" {
		f, err := os.Open(p.stdin)
		if err != nil {
			return result{}, err
		}
		defer f.Close()
		cmd.Stdin = f
	}
	failed := cmd.Run()
	var got result
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		return result{}, fmt.Errorf("belljar run: %w: %s", errors.Join(failed, err), strings.TrimSpace(stderr.String()))
	}
	return got, nil
}

// programs lists the examples in folder. Artifacts go to out; port is a service of this machine.
func programs(folder, out string, port int) []program {
	at := func(name string) string { return filepath.Join(folder, name) }
	return []program{
		{
			name: "report.py", tries: "reads a CSV, writes a report and statistics",
			args:  []string{"--file", at("report/orders.csv"), "--capture", "report.md", "--capture", "stats.json", "--out", out, at("report/report.py")},
			check: all(completed, prints("120 orders"), func(result) error { return artifact(out) }),
		},
		{
			name: "words.mjs", tries: "counts the words of its input, in Node",
			args: []string{at("words/words.mjs")}, stdin: at("words/jar.txt"),
			check: all(completed, prints("96 words, 49 different ones")),
		},
		{
			name: "pipeline.sh", tries: "pipes seq, awk, sort and head together",
			args:  []string{at("pipeline.sh")},
			check: all(completed, prints("17673 takes 278 steps")),
		},
		{
			name: "primes.c", tries: "is compiled in the sandbox, then run",
			args:  []string{at("primes.c")},
			check: all(completed, prints("148933 primes below 2000000")),
		},
		{
			name: "quiz.py", tries: "asks questions and reads the answers",
			args: []string{at("quiz/quiz.py")}, stdin: at("quiz/answers.txt"),
			check: all(completed, prints("2 of 3 right")),
		},
		{
			name: "traceback.py", tries: "fails as programs do",
			args: []string{at("traceback.py")},
			check: all(ended(belljar.PhaseFailed, belljar.ReasonNonZeroExit), exits(1), func(r result) error {
				return contains("stderr", r.Stderr, "ValueError: could not convert string to float: 'free'")
			}),
		},
		{
			name: "loop.py", tries: "never ends and ignores TERM", hostile: true,
			args:  []string{"--timeout", "1", at("hostile/loop.py")},
			check: ended(belljar.PhaseTimedOut, belljar.ReasonExecutionTimeout),
		},
		{
			name: "memory.py", tries: "takes memory until something gives", hostile: true,
			args:  []string{"--memory", "128m", "--allow-weak", "memory", "--workspace", "16m", at("hostile/memory.py")},
			check: where("memory", all(ended(belljar.PhaseFailed, belljar.ReasonOOMKilled), exits(137)), ended(belljar.PhaseFailed, belljar.ReasonNonZeroExit)),
		},
		{
			name: "forkbomb.py", tries: "forks without end, and so do its children", hostile: true,
			args: []string{"--pids", "64", "--timeout", "20", at("hostile/forkbomb.py")},
			// Without a cgroup the fork fails too, but there is no counter.
			check: where("pids", ended(belljar.PhaseFailed, belljar.ReasonPidsLimit), exits(1)),
		},
		{
			name: "flood.py", tries: "prints 64 MiB", hostile: true,
			args:  []string{at("hostile/flood.py")},
			check: all(completed, truncated),
		},
		{
			name: "disk.py", tries: "fills every folder it can write to", hostile: true,
			args:  []string{"--workspace", "64m", at("hostile/disk.py")},
			check: all(completed, prints("then ENOSPC"), bounded),
		},
		{
			name: "secrets.py", tries: "looks for keys, passwords and people's files", hostile: true,
			args:  []string{at("hostile/secrets.py")},
			check: all(completed, prints("found 0 secrets")),
		},
		{
			name: "network.py", tries: "calls this machine, a resolver and the internet", hostile: true,
			args:  []string{at("hostile/network.py"), strconv.Itoa(port)},
			check: all(completed, prints("reached 0 of")),
		},
	}
}
