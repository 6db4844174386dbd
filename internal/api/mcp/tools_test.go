//go:build linux

package mcp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/mcp"
)

func code(change ...func(*mcp.Terms)) mcp.Terms {
	t := mcp.Terms{Toolset: belljar.Toolset{Mode: belljar.ToolsCode}}
	for _, c := range change {
		c(&t)
	}
	return t
}

func toolNames(t *testing.T, p *peer) (names []string, all map[string]map[string]any) {
	t.Helper()
	all = map[string]map[string]any{}
	for _, item := range p.rpc("tools/list", map[string]any{}).Result["tools"].([]any) {
		tool := item.(map[string]any)
		names = append(names, tool["name"].(string))
		all[tool["name"].(string)] = tool
	}
	slices.Sort(names)
	return names, all
}

// The tools of a mode are fixed; sandbox.run is in both.
func TestToolsOfModes(t *testing.T) {
	w := newWorld(t)
	for _, mode := range []belljar.ToolMode{belljar.ToolsCompute, belljar.ToolsCode} {
		p := w.peer("ann", mcp.Terms{Toolset: belljar.Toolset{Mode: mode}})
		names, _ := toolNames(t, p)
		want := append(mode.Tools(), "sandbox.run")
		slices.Sort(want)
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("mode %s: %s", mode, diff)
		}
		p.close()
	}
	chosen := w.peer("ann", mcp.Terms{Tools: []string{"sandbox_run"}})
	if names, _ := toolNames(t, chosen); !slices.Equal(names, []string{"sandbox_run"}) {
		t.Errorf("of chosen tools there are %v", names)
	}
	if r := chosen.rpc("tools/call", map[string]any{"name": "sandbox.run", "arguments": map[string]any{}}); r.Error == nil || r.Error.Code != -32602 {
		t.Errorf("a tool that is not offered answers %s", r.raw)
	}
}

// sandbox.run's schema is the fixed one, with this server's runtimes.
func TestSchemaToTheLetter(t *testing.T) {
	_, tools := toolNames(t, newWorld(t).peer("ann", code()))
	var want any
	if err := json.Unmarshal([]byte(`{
    "type": "object",
    "properties": {
      "runtime": {"enum": ["docker", "firecracker", "native"]},
      "session_id": {"type": "string"},
      "base_image": {"type": "string"},
      "command": {"type": "array", "items": {"type": "string"}},
      "files": {"type": "array", "items": {"type": "object", "properties": {"path": {"type": "string"}, "content_b64": {"type": "string"}}}},
      "timeout_sec": {"type": "integer"},
      "env": {"type": "object"}
    },
    "oneOf": [
      { "required": ["session_id", "command"] },
      { "required": ["base_image", "command"] }
    ]}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, tools["sandbox.run"]["inputSchema"]); diff != "" {
		t.Error(diff)
	}
}

// The schemas have the API's fields; every tool has an output schema and annotations.
func TestSchemaFields(t *testing.T) {
	w := newWorld(t)
	_, tools := toolNames(t, w.peer("ann", code()))
	_, compute := toolNames(t, w.peer("ann", mcp.Terms{}))
	tools["sandbox_run"] = compute["sandbox_run"]
	network := func(t *mcp.Terms) { t.Network, t.Egress = true, belljar.ParseEgress([]string{"a.example"}) }
	_, networked := toolNames(t, w.peer("ann", code(network)))
	_, compute = toolNames(t, w.peer("ann", code(network, func(t *mcp.Terms) { t.Mode = belljar.ToolsCompute })))
	networked["sandbox_run"] = compute["sandbox_run"]
	for name, want := range map[string][2]string{ // fields taken and given
		"sandbox_run":       {"runtime code args env files timeout_seconds", "ok runtime exit_code duration_ms stdout stderr error"},
		"sandbox_open":      {"session_key", "sandbox_id image workdir created"},
		"sandbox_exec":      {"sandbox_id cmd cwd env timeout_seconds stream", "exec_id exit_code stdout stderr status"},
		"sandbox_code":      {"sandbox_id code language timeout_seconds replay", "exec_id exit_code stdout stderr status results"},
		"sandbox_fork":      {"sandbox_id count live", "sandbox_ids consistent"},
		"sandbox_exec_read": {"sandbox_id exec_id since_seq max_chunks", "chunks done"},
		"sandbox_exec_wait": {"sandbox_id exec_id timeout_seconds", "done exit_code"},
		"sandbox_fs_write":  {"sandbox_id path contents contents_b64 mode overwrite", "ok path"},
		"sandbox_fs_read":   {"sandbox_id path max_bytes", "contents contents_b64 truncated size_bytes"},
		"sandbox_fs_list":   {"sandbox_id path recursive", "entries"},
		"sandbox_fs_delete": {"sandbox_id path recursive", "ok deleted"},
		"sandbox_close":     {"sandbox_id delete_workspace", "ok"},
		"sandbox.run":       {"runtime session_id base_image command files timeout_sec env", "run_id log_stream_url policy_hash image_digest"},
	} {
		tool := tools[name]
		for i, key := range []string{"inputSchema", "outputSchema"} {
			schema, _ := tool[key].(map[string]any)
			fields, _ := schema["properties"].(map[string]any)
			for field := range strings.FieldsSeq(want[i]) {
				if fields[field] == nil {
					t.Errorf("%s: %s has no %s", name, key, field)
				}
			}
			if schema["type"] != "object" {
				t.Errorf("%s: %s is of type %v", name, key, schema["type"])
			}
		}
		hints, _ := tool["annotations"].(map[string]any)
		for _, hint := range []string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} {
			if _, ok := hints[hint].(bool); !ok {
				t.Errorf("%s: no %s", name, hint)
			}
		}
		runs := name == "sandbox.run" || name == "sandbox_exec" || name == "sandbox_code" // in a persistent sandbox
		if destroys := runs || strings.HasSuffix(name, "_delete") || strings.HasSuffix(name, "_write") || strings.HasSuffix(name, "_close"); hints["destructiveHint"] != destroys {
			t.Errorf("%s has the hints %v", name, hints)
		}
		if open := networked[name]["annotations"].(map[string]any)["openWorldHint"]; open != (runs || name == "sandbox_run") {
			t.Errorf("%s with a network has openWorldHint %v", name, open)
		}
		reads := strings.HasSuffix(name, "_read") || strings.HasSuffix(name, "_wait") || strings.HasSuffix(name, "_list")
		if hints["readOnlyHint"] != reads || hints["openWorldHint"] != false || tool["title"] == nil || tool["description"] == nil {
			t.Errorf("%s is described as %v", name, tool)
		}
	}
}

// Hosts whose models refuse the schema of sandbox.run do not get the tool, unless the operator names it.
func TestHostsWithoutRun(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		host  string
		tools []string
		has   bool
	}{{"claude-ai", nil, false}, {"Visual Studio Code", nil, false}, {"inspector", nil, true}, {"claude-ai", []string{"sandbox.run"}, true}} {
		p := initialize(t, w.stdio("ann", mcp.Terms{Tools: c.tools}), c.host)
		if names, _ := toolNames(t, p); slices.Contains(names, "sandbox.run") != c.has {
			t.Errorf("%s with %v gets %v", c.host, c.tools, names)
		}
	}
}

func TestComputeRun(t *testing.T) {
	w := newWorld(t)
	p := w.peer("ann", mcp.Terms{Toolset: belljar.Toolset{Language: "bash", TimeoutSec: 60}})
	r := p.tool("sandbox_run", map[string]any{
		"code": `echo "$1 $GREETING"; cat data/in.txt; echo oops >&2; exit 3`, "args": []string{"hello"},
		"env": map[string]string{"GREETING": "there"}, "files": map[string]string{"data/in.txt": "from a file\n"},
	}).good(t)
	want := map[string]any{"ok": false, "runtime": "bash", "exit_code": 3.0, "stdout": "hello there\nfrom a file\n", "stderr": "oops\n"}
	for name, value := range want {
		if r.data[name] != value {
			t.Errorf("%s is %v, want %v", name, r.data[name], value)
		}
	}
	for _, word := range []string{"exit code 3", "\nstdout:\nhello there\nfrom a file\n", "\nstderr:\noops"} {
		if !strings.Contains(r.text, word) {
			t.Errorf("the text has no %q:\n%s", word, r.text)
		}
	}
	if _, ok := r.data["duration_ms"].(float64); !ok {
		t.Error("no duration_ms")
	}
	if r := p.tool("sandbox_run", map[string]any{"code": "print(6*7)", "runtime": "python"}).good(t); r.data["stdout"] != "42\n" || r.data["ok"] != true {
		t.Errorf("python: %v", r.data)
	}
	p.tool("sandbox_run", map[string]any{"code": "1", "files": map[string]string{"../a": "x"}}).refused(t, `files "../a": path`, "correct files,")
	slow := p.tool("sandbox_run", map[string]any{"code": "sleep 60", "timeout_seconds": 1}).good(t)
	if slow.data["timed_out"] != true || slow.data["ok"] != false || !strings.Contains(slow.text, "timeout_seconds") {
		t.Errorf("a run that is too slow: %s %v", slow.text, slow.data)
	}
	tools := t.TempDir()
	if err := errors.Join(os.Chmod(tools, 0o755), os.WriteFile(tools+"/cc", []byte("#!/bin/sh\necho main.c:1: no such type; exit 1\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	unbuilt := p.tool("sandbox_run", map[string]any{"runtime": "c", "code": "x", "env": map[string]string{"PATH": tools}}).good(t)
	if unbuilt.data["stderr"] != "main.c:1: no such type\n" || !strings.Contains(unbuilt.text, "compile_failed") || !strings.Contains(unbuilt.text, "\nstderr:\nmain.c:1: no such type") {
		t.Errorf("a program that does not compile: %s %v", unbuilt.text, unbuilt.data)
	}
	p.close()
	if left := w.sessions("ann"); len(left) > 0 {
		t.Errorf("one-shot runs leave sessions: %v", left)
	}
}

// A result links the artifacts of a run, and contains its pictures. A file with a picture's name must be a picture.
func TestArtifacts(t *testing.T) {
	w := newWorld(t)
	p := w.peer("ann", mcp.Terms{Capture: []string{"*.csv"}})
	png, err := os.ReadFile("testdata/dot.png")
	if err != nil {
		t.Fatal(err)
	}
	r := p.tool("sandbox_run", map[string]any{"runtime": "bash", "files": map[string]string{"given.csv": "x"}, "code": `
		mkdir -p artifacts plots; echo 1,2 > table.csv; echo deep > artifacts/notes.txt; echo no > plots/fake.png; echo '<svg xmlns="x"/>' > plots/p.svg
		printf '` + escaped(png) + `' > plots/dot.png; echo gone > elsewhere.txt`}).good(t)
	var links, pictures []string
	for _, part := range r.parts {
		switch part["type"] {
		case "resource_link":
			links = append(links, part["name"].(string))
		case "image":
			pictures = append(pictures, part["mimeType"].(string))
		}
	}
	slices.Sort(links)
	slices.Sort(pictures)
	if diff := cmp.Diff([]string{"artifacts/notes.txt", "plots/dot.png", "plots/fake.png", "plots/p.svg", "table.csv"}, links); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"image/png"}, pictures); diff != "" {
		t.Error(diff)
	}
	run := r.data["run_id"].(string)
	read := p.rpc("resources/read", map[string]any{"uri": "belljar://runs/" + run + "/artifacts/artifacts/notes.txt"})
	contents := read.Result["contents"].([]any)[0].(map[string]any)
	if contents["text"] != "deep\n" || contents["mimeType"] != "text/plain" {
		t.Errorf("the artifact is %s", read.raw)
	}
	if list := p.rpc("resources/list", map[string]any{}).Result["resources"].([]any); len(list) != 5 {
		t.Errorf("resources/list has %d", len(list))
	}
	// No other client can read it, even if it belongs to the same user.
	for _, user := range []string{"ann", "bob"} {
		other := w.peer(user, code())
		for _, uri := range []string{"belljar://runs/" + run + "/output", "belljar://runs/" + run + "/artifacts/table.csv"} {
			if r := other.rpc("resources/read", map[string]any{"uri": uri}); r.Error == nil || r.Error.Code != -32002 {
				t.Errorf("another client of %s reads %s: %s", user, uri, r.raw)
			}
		}
	}
}

// Models read no SVG as a picture: every client gets it as text, if it is short. Clients of older protocols get no links.
func TestPicturesOfClients(t *testing.T) {
	w := newWorld(t)
	for version, want := range map[string][]string{
		"2025-11-25": {"text", "resource_link", "resource_link", "text"}, "2025-06-18": {"text", "resource_link", "resource_link", "text"},
		"2025-03-26": {"text", "text"}, "2024-11-05": {"text", "text"},
	} {
		p := initializeAs(t, w.stdio("ann", mcp.Terms{MaxOutput: 1000}), "cursor", version)
		r := p.tool("sandbox_run", map[string]any{"runtime": "bash", "code": `
			echo '<svg xmlns="x"/>' > a.svg; printf '<svg>%2000d</svg>' 7 > b.svg`}).good(t)
		var kinds []string
		for _, part := range r.parts {
			kinds = append(kinds, part["type"].(string))
		}
		slices.SortFunc(kinds[1:], func(a, b string) int { return strings.Compare(a, b) })
		slices.Sort(want[1:])
		if diff := cmp.Diff(want, kinds); diff != "" {
			t.Errorf("%s: %s", version, diff)
		}
		if !strings.Contains(r.text, "/artifacts/b.svg") || !slices.ContainsFunc(r.parts, func(part map[string]any) bool { return part["text"] == "<svg xmlns=\"x\"/>\n" }) {
			t.Errorf("%s: %v", version, r.parts)
		}
	}
	p := w.peer("ann", code(func(t *mcp.Terms) { t.MaxOutput = 1000 }))
	sandbox := p.open()
	p.exec(sandbox, "sh", "-c", "printf '<svg>%2000d</svg>' 7 > b.svg").good(t)
	if r := p.tool("sandbox_fs_read", map[string]any{"sandbox_id": sandbox, "path": "b.svg", "max_bytes": 100}).good(t); len(r.parts) != 1 || !strings.HasPrefix(r.text, "<svg> ") || !strings.Contains(r.text, "offset 100") {
		t.Errorf("%v", r.parts)
	}
}

func escaped(raw []byte) string {
	var b strings.Builder
	for _, c := range raw {
		b.WriteString(`\` + string([]byte{'0' + c>>6, '0' + c>>3&7, '0' + c&7}))
	}
	return b.String()
}

// A model can request less; a request for more is refused, and the error has the limit.
func TestBounds(t *testing.T) {
	w := newWorld(t)
	p := w.peer("ann", mcp.Terms{Toolset: belljar.Toolset{TimeoutSec: 5, Image: "host", Runtime: "fake"}})
	p.tool("sandbox_run", map[string]any{"code": "1", "timeout_seconds": 6}).refused(t, "5 seconds at most", "policy_denied", "timeout_seconds")
	p.tool("sandbox_run", map[string]any{"code": "pass", "timeout_seconds": 5}).good(t)
	limited := w.peer("ann", code(func(t *mcp.Terms) { t.TimeoutSec = 5 }))
	if r := limited.tool("sandbox_open", nil).good(t); !strings.Contains(r.text, "a command may take 5 seconds at most.") {
		t.Errorf("%q", r.text)
	}
	run := func(more map[string]any) result {
		arguments := map[string]any{"command": []string{"true"}, "base_image": "host"}
		maps.Copy(arguments, more)
		return p.tool("sandbox.run", arguments)
	}
	run(map[string]any{"timeout_sec": 600}).refused(t, "5 seconds at most")
	run(map[string]any{"base_image": "python:3.11"}).refused(t, "base_image here is host")
	run(map[string]any{"runtime": "docker"}).refused(t, "runtime here is fake")
	run(nil).good(t)
	more := w.peer("ann", mcp.Terms{Toolset: belljar.Toolset{Network: true}})
	more.tool("sandbox_run", map[string]any{"code": "pass"}).refused(t, "network_policy", "policy_denied", "SANDBOX_EGRESS_ALLOW")
}

// A client's URL selects among what the server allows, and descriptions name what sandboxes reach.
func TestNetworkTerms(t *testing.T) {
	server := mcp.Terms{Toolset: belljar.Toolset{Network: true, Egress: belljar.ParseEgress([]string{"a.example", "b.example"})}}
	narrowed, err := server.Narrowed("allow=b.example&mode=code")
	if err != nil || !narrowed.Network || len(narrowed.Egress.Hosts) != 1 || narrowed.Egress.Hosts[0] != "b.example" {
		t.Errorf("%+v, %v", narrowed, err)
	}
	if _, err := server.Narrowed("allow=c.example"); belljar.CodeOf(err) != belljar.CodePolicyDenied || !strings.Contains(err.Error(), "a.example, b.example") {
		t.Errorf("more than the server allows: %v", err)
	}
	var free mcp.Terms
	if narrowed, err = free.Narrowed("allow=c.example&allow=203.0.113.7"); err != nil || !narrowed.Network || narrowed.Egress.Len() != 2 {
		t.Errorf("%+v, %v", narrowed, err)
	}
	preset := mcp.Terms{Toolset: belljar.Toolset{Network: true, Egress: belljar.Egress{Presets: []string{"pip"}}}}
	if narrowed, err = preset.Narrowed("allow=c.example"); err != nil || narrowed.Egress.Len() != 2 || narrowed.Egress.Presets[0] != "pip" {
		t.Errorf("%+v, %v", narrowed, err)
	}
	for _, test := range []struct {
		terms mcp.Terms
		want  string
	}{{mcp.Terms{ServerNetwork: true}, "sandbox with network access to what the server allows and"}, {server, "sandbox with network access to a.example, b.example only and"}, {preset, "network access to packages of pip only and"}, {free, "sandbox without network and"}} {
		listed := string(newWorld(t).peer("ann", test.terms).rpc("tools/list", nil).raw)
		if !strings.Contains(listed, test.want) {
			t.Errorf("no %q in %.1000s", test.want, listed)
		}
	}
}

// Every sandbox has the operator's secrets. The model knows their names, but never gets a value.
func TestSecretTerms(t *testing.T) {
	const value = "correct horse battery"
	terms := belljar.Toolset{Secrets: map[string]belljar.Secret{"API_TOKEN": {Value: value}}}
	w := newWorld(t)
	once := w.peer("ann", mcp.Terms{Toolset: terms}).tool("sandbox_run", map[string]any{"code": "print(open('../secrets/API_TOKEN').read())"}).good(t)
	terms.Mode = belljar.ToolsCode
	p := w.peer("bob", mcp.Terms{Toolset: terms})
	opened := p.tool("sandbox_open", map[string]any{}).good(t)
	in := p.exec(opened.data["sandbox_id"].(string), "cat", "../secrets/API_TOKEN").good(t)
	for _, r := range []result{once, opened, in} {
		if strings.Contains(fmt.Sprint(r), "correct") {
			t.Errorf("%v", r)
		}
	}
	stars := strings.Repeat("*", len(value))
	if !strings.Contains(once.text, stars) || !strings.Contains(in.text, stars) || !strings.Contains(opened.text, "/run/secrets: API_TOKEN") {
		t.Errorf("%q, %q, %q", once.text, in.text, opened.text)
	}
}

// An error about arguments names their path, and the right form.
func TestBadArguments(t *testing.T) {
	p := newWorld(t).peer("ann", code())
	sandbox := p.open()
	p.tool("sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "file", "contents": ""}).good(t)
	for _, c := range []struct {
		tool      string
		arguments map[string]any
		words     []string
	}{
		{"sandbox_exec", map[string]any{"sandbox_id": sandbox}, []string{"cmd is missing"}},
		{"sandbox_exec", map[string]any{"sandbox_id": sandbox, "cmd": "ls -l"}, []string{"cmd must be an array, got a string", `["sh", "-c"`}},
		{"sandbox_exec", map[string]any{"sandbox_id": sandbox, "cmd": []any{"ls", 3}}, []string{"cmd[1] must be a string, got a number"}},
		{"sandbox_exec", map[string]any{"sandbox_id": sandbox, "cmd": []any{}}, []string{"cmd must not be empty (invalid_request)"}},
		{"sandbox_exec", map[string]any{"sandbox_id": sandbox, "comand": []any{"ls"}}, []string{`unknown argument "comand"`, "did you mean cmd", "its arguments are sandbox_id, cmd, cwd"}},
		{"sandbox_exec", map[string]any{"sandbox_id": sandbox, "cmd": []any{"ls"}, "env": map[string]any{"A": 1}}, []string{"env.A must be a string"}},
		{"sandbox_exec", map[string]any{"sandbox_id": sandbox, "cmd": []any{"ls"}, "timeout_seconds": -1}, []string{"timeout_seconds must be at least 1"}},
		{"sandbox_exec", map[string]any{"sandbox_id": sandbox, "cmd": []any{"ls"}, "timeout_seconds": 1.5}, []string{"timeout_seconds must be a whole number"}},
		{"sandbox_exec", map[string]any{"sandbox_id": sandbox, "cmd": []any{"ls"}, "cwd": "/etc"}, []string{"cwd", "/workspace"}},
		{"sandbox_exec", map[string]any{"sandbox_id": "../x", "cmd": []any{"ls"}}, []string{"does not exist", "call sandbox_open"}},
		{"sandbox_fs_read", map[string]any{"sandbox_id": sandbox, "path": "../../etc/passwd"}, []string{"path_escapes"}},
		{"sandbox_fs_read", map[string]any{"sandbox_id": sandbox, "path": "x", "max_bytes": 1 << 30}, []string{"max_bytes must be between 1 and 8388608"}},
		{"sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "x", "contents": "a", "contents_b64": "YQ=="}, []string{"both given"}},
		{"sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "x", "contents_b64": "%"}, []string{"not base64"}},
		{"sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "x", "mode": "rwx"}, []string{"octal"}},
		{"sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "file", "mode": "0755", "overwrite": true}, []string{"one of contents and contents_b64 is required", "makes an empty file"}},
		{"sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "file", "contents": nil, "overwrite": true}, []string{"one of contents and contents_b64 is required"}},
		{"sandbox_fs_delete", map[string]any{"sandbox_id": sandbox, "recursive": true}, []string{"path"}},
		{"sandbox_fs_delete", map[string]any{"sandbox_id": sandbox, "path": nil, "recursive": true}, []string{"path"}},
		{"sandbox_fs_delete", map[string]any{"sandbox_id": sandbox, "path": "", "recursive": true}, []string{"path"}},
		{"sandbox_exec_read", map[string]any{"sandbox_id": sandbox, "exec_id": "none"}, []string{"has no exec", "sandbox_exec's answer"}},
		{"sandbox.run", map[string]any{"command": []any{"ls"}}, []string{"either session_id or base_image", "what to do: correct the arguments, and make the call again"}},
		{"sandbox.run", map[string]any{"command": []any{"ls"}, "session_id": sandbox, "base_image": "host"}, []string{"exclude each other"}},
		{"sandbox.run", map[string]any{"command": []any{"ls"}, "base_image": "host", "cpu": 4}, []string{`unknown argument "cpu"`}},
		{"sandbox.run", map[string]any{"command": []any{"ls"}, "base_image": "host", "files": []any{map[string]any{"path": 1}}}, []string{"files[0].path must be a string"}},
		{"sandbox.run", map[string]any{"command": []any{"ls"}, "base_image": "host", "files": []any{map[string]any{"path": "a", "content": "x"}}}, []string{`unknown argument "files[0].content"`}},
		{"sandbox.run", map[string]any{"command": []any{"ls"}, "base_image": "host", "files": []any{map[string]any{"path": "a", "content_b64": "%"}}}, []string{"files[0].content_b64 is not base64"}},
		{"sandbox.run", map[string]any{"command": []any{"ls"}, "base_image": "host", "files": []any{map[string]any{"path": "a"}}}, []string{"files[0].content_b64 is required", "makes an empty file"}},
		{"sandbox.run", map[string]any{"command": []any{"ls"}, "base_image": "host", "files": []any{map[string]any{"path": "a", "content_b64": nil}}}, []string{"files[0].content_b64"}},
		{"sandbox.run", map[string]any{"command": []any{"ls"}, "base_image": "host", "timeout_sec": -1}, []string{"timeout_sec must be at least 1"}},
		{"sandbox.run", map[string]any{"command": []any{"ls"}, "base_image": "host", "env": map[string]any{"A": 1}}, []string{"env.A must be a string"}},
		{"sandbox_exec_read", map[string]any{"sandbox_id": sandbox, "exec_id": "x", "since_seq": json.Number("1e25")}, []string{"since_seq must be a whole number"}},
		{"sandbox_exec_read", map[string]any{"sandbox_id": sandbox, "exec_id": "x", "since_seq": json.Number("1e2000000")}, []string{"since_seq must be a whole number"}},
		{"sandbox_fs_read", map[string]any{"sandbox_id": sandbox, "path": "nope"}, []string{"does not exist", "sandbox_fs_list lists"}},
		{"sandbox_fs_read", map[string]any{"sandbox_id": sandbox, "path": "."}, []string{"not a regular file", "sandbox_fs_list lists"}},
		{"sandbox_fs_list", map[string]any{"sandbox_id": sandbox, "path": "nope"}, []string{"does not exist", "sandbox_fs_list lists"}},
		{"sandbox_fs_read", map[string]any{"sandbox_id": sandbox, "path": "file/below"}, []string{"is not a folder", "sandbox_fs_list lists"}},
		{"sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": strings.Repeat("x", 256), "contents": ""}, []string{"longer than 255 bytes (invalid_request)\nwhat"}},
	} {
		p.tool(c.tool, c.arguments).refused(t, c.words...)
	}
	compute := newWorld(t).peer("ann", mcp.Terms{})
	compute.tool("sandbox.run", map[string]any{"command": []any{"ls"}, "session_id": sandbox}).refused(t, "does not exist", "give base_image")
	compute.tool("sandbox_run", map[string]any{"code": "1", "runtime": "perl6"}).refused(t, `"perl6" is not known`, "one of python, node, bash")
	// Models send null for absent arguments.
	p.tool("sandbox_exec", map[string]any{"sandbox_id": sandbox, "cmd": []any{"true"}, "cwd": nil, "env": nil, "timeout_seconds": nil}).good(t)
	p.rpc("tools/call", map[string]any{"name": "sandbox_open", "arguments": nil}).tool(t).good(t)
	p.rpc("tools/call", map[string]any{"name": "sandbox_open", "arguments": []any{}}).tool(t).refused(t, "the arguments must be an object", "its arguments are session_key")
	// Some models set every field, and send "" for one of two that exclude each other.
	p.tool("sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "y", "contents": "", "contents_b64": "aGk=", "mode": "", "overwrite": false}).good(t)
	// A whole number may be written as a decimal.
	part := p.tool("sandbox_fs_read", map[string]any{"sandbox_id": sandbox, "path": "y", "max_bytes": json.Number("1.0"), "offset": json.Number("1e0")}).good(t)
	if part.data["contents"] != "i" {
		t.Errorf("one byte behind the first: %v", part.data)
	}
	r := p.rpc("tools/call", map[string]any{"name": "sandbox_excec", "arguments": map[string]any{}})
	if r.Error == nil || r.Error.Code != -32602 || !strings.Contains(r.Error.Message, "sandbox_exec") {
		t.Errorf("an unknown tool answers %s", r.raw)
	}
}
