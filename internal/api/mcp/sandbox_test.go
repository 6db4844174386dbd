//go:build linux

package mcp_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/mcp"
	"github.com/belljar/belljar/test/apitest"
)

func workflow(id string) mcp.Terms {
	return code(func(t *mcp.Terms) { t.Workflow = id })
}

// A sandbox lasts from call to call, and ends with its client.
func TestSandboxLasts(t *testing.T) {
	w := newWorld(t)
	p := w.peer("ann", code())
	first := p.tool("sandbox_open", map[string]any{}).good(t)
	sandbox := first.data["sandbox_id"].(string)
	if first.data["created"] != true || first.data["workdir"] != "/workspace" || first.data["image"] != "host" {
		t.Errorf("opened: %v", first.data)
	}
	again := p.tool("sandbox_open", map[string]any{"session_key": ""}).good(t)
	if again.data["sandbox_id"] != sandbox || again.data["created"] != false {
		t.Errorf("opened again: %v", again.data)
	}
	other := p.tool("sandbox_open", map[string]any{"session_key": "build"}).good(t)
	if other.data["sandbox_id"] == sandbox {
		t.Error("another name is the same sandbox")
	}
	file := func(extra map[string]any) map[string]any {
		all := map[string]any{"sandbox_id": sandbox, "path": "/workspace/src/a.sh"}
		maps.Copy(all, extra)
		return all
	}
	if r := p.tool("sandbox_fs_write", file(map[string]any{"contents": "echo ünï\n", "mode": "0755"})).good(t); r.data["path"] != "/workspace/src/a.sh" {
		t.Errorf("wrote %v", r.data)
	}
	p.tool("sandbox_fs_write", file(map[string]any{"contents": "x"})).refused(t, "exists", "overwrite")
	p.tool("sandbox_fs_write", file(map[string]any{"contents": "echo two; exit 7\n", "overwrite": true})).good(t)
	ran := p.exec(sandbox, "sh", "src/a.sh").good(t)
	if ran.data["exit_code"] != 7.0 || ran.data["stdout"] != "two\n" || ran.data["status"] != "completed" || ran.data["exec_id"] == nil {
		t.Errorf("ran: %v", ran.data)
	}
	if r := p.tool("sandbox_fs_read", file(nil)).good(t); r.data["contents"] != "echo two; exit 7\n" || r.text != "echo two; exit 7" || r.data["truncated"] != false {
		t.Errorf("read: %q %v", r.text, r.data)
	}
	part := p.tool("sandbox_fs_read", file(map[string]any{"max_bytes": 4})).good(t)
	if part.data["contents"] != "echo" || part.data["truncated"] != true || part.data["size_bytes"] != 17.0 || !strings.Contains(part.text, "offset 4") {
		t.Errorf("read a part: %q %v", part.text, part.data)
	}
	if r := p.tool("sandbox_fs_read", file(map[string]any{"offset": 99})).good(t); r.data["contents"] != "" || r.text != "note: nothing is there: the file has 17 bytes" {
		t.Errorf("read behind the end: %q %v", r.text, r.data)
	}
	binary := base64.StdEncoding.EncodeToString([]byte{0, 255, 'a'})
	p.tool("sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "b.bin", "contents_b64": binary}).good(t)
	if r := p.tool("sandbox_fs_read", map[string]any{"sandbox_id": sandbox, "path": "b.bin"}).good(t); r.data["contents_b64"] != binary || r.data["contents"] != nil {
		t.Errorf("read binary: %v", r.data)
	}
	if r := p.exec(sandbox, "cat", "b.bin").good(t); r.data["stdout"] != binary || r.data["stdout_encoding"] != "base64" || !strings.Contains(r.text, `\x00\xffa`) {
		t.Errorf("printed binary: %q %v", r.text, r.data)
	}
	list := p.tool("sandbox_fs_list", map[string]any{"sandbox_id": sandbox, "path": "src", "recursive": true}).good(t)
	entry := list.data["entries"].([]any)[0].(map[string]any)
	if entry["path"] != "src/a.sh" || entry["type"] != "file" || entry["size"] != 17.0 || entry["mode"] == nil || entry["mtime_unix"] == nil {
		t.Errorf("listed: %v", list.data)
	}
	p.tool("sandbox_fs_delete", map[string]any{"sandbox_id": sandbox, "path": "src"}).refused(t, "recursive")
	p.exec(sandbox, "mkdir", "empty").good(t)
	p.tool("sandbox_fs_delete", map[string]any{"sandbox_id": sandbox, "path": "empty"}).refused(t, `"empty" is a folder`, "conflict", "set recursive")
	p.tool("sandbox_fs_delete", map[string]any{"sandbox_id": sandbox, "path": "empty", "recursive": true}).good(t)
	p.tool("sandbox_fs_delete", map[string]any{"sandbox_id": sandbox, "path": "."}).refused(t, "invalid_request")
	p.tool("sandbox_fs_delete", map[string]any{"sandbox_id": sandbox, "path": "gone"}).refused(t, "does not exist")
	if r := p.tool("sandbox_fs_delete", map[string]any{"sandbox_id": sandbox, "path": "src", "recursive": true}).good(t); r.data["deleted"] != "/workspace/src" {
		t.Errorf("deleted: %v", r.data)
	}
	p.tool("sandbox_close", map[string]any{"sandbox_id": sandbox, "delete_workspace": true}).good(t)
	p.exec(sandbox, "true").refused(t, "has ended", "sandbox_open")
	if r := p.tool("sandbox_open", map[string]any{}).good(t); r.data["created"] != true {
		t.Errorf("opened after the end: %v", r.data)
	}
	if n := len(w.sessions("ann")); n != 2 {
		t.Errorf("there are %d sandboxes", n)
	}
	p.close()
	if left := w.sessions("ann"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// Commands start in the workspace, even if the image names another folder.
func TestImageWithFolder(t *testing.T) {
	ref, image := apitest.WithImage(t, map[string]any{"WorkingDir": "/usr"})
	p := newWorld(t, image).peer("ann", code(func(t *mcp.Terms) { t.Image = ref }))
	sandbox := p.open()
	p.tool("sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "src/note", "contents": "here"}).good(t)
	if r := p.exec(sandbox, "cat", "src/note").good(t); r.data["stdout"] != "here" {
		t.Errorf("a command does not find a file: %v", r.data)
	}
	if r := p.tool("sandbox_exec", map[string]any{"sandbox_id": sandbox, "cmd": []string{"cat", "note"}, "cwd": "src"}).good(t); r.data["stdout"] != "here" {
		t.Errorf("nor in its own folder: %v", r.data)
	}
}

// A client cannot see the sandboxes of another client, of another user, or of an operator's users.
func TestOthersSandboxes(t *testing.T) {
	w := newWorld(t)
	p := w.peer("ann", code())
	sandbox := p.open()
	exec := p.exec(sandbox, "true").good(t).data["exec_id"]
	plain, err := w.as("ann").Sessions().Create(context.Background(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.1", BaseImage: "host"}})
	if err != nil {
		t.Fatal(err)
	}
	httpServer := w.httpServer(nil)
	operator, _ := httpServer.peer(t, "root", "?mode=code")
	for name, other := range map[string]*peer{"the same user's": w.peer("ann", code()), "another's": w.peer("bob", code()), "an operator's": operator} {
		for tool, arguments := range map[string]map[string]any{
			"sandbox_exec": {"cmd": []string{"true"}}, "sandbox_exec_read": {"exec_id": exec}, "sandbox_exec_wait": {"exec_id": exec},
			"sandbox_fs_write": {"path": "x", "contents": "x"}, "sandbox_fs_read": {"path": "x"}, "sandbox_fs_list": {},
			"sandbox_fs_delete": {"path": "x"}, "sandbox_close": {},
		} {
			arguments["sandbox_id"] = sandbox
			other.tool(tool, arguments).refused(t, "does not exist", "not_found")
		}
		other.tool("sandbox.run", map[string]any{"session_id": sandbox, "command": []string{"true"}}).refused(t, "not_found")
		// Only its own sandbox finds an exec.
		own := other.open()
		other.tool("sandbox_exec_read", map[string]any{"sandbox_id": own, "exec_id": exec}).refused(t, "not_found")
		if name != "the same user's" {
			other.tool("sandbox.run", map[string]any{"session_id": plain.ID, "command": []string{"true"}}).refused(t, "not_found")
			continue
		}
		// sandbox.run may use the user's session that belongs to no agent.
		if r := other.tool("sandbox.run", map[string]any{"session_id": plain.ID, "command": []string{"echo", "hi"}}).good(t); r.data["stdout"] != "hi\n" || r.data["session_id"] != plain.ID {
			t.Errorf("in a session of the user: %v", r.data)
		}
		// The other tools still may not.
		for tool, arguments := range map[string]map[string]any{
			"sandbox_exec": {"cmd": []string{"true"}}, "sandbox_fs_write": {"path": "x", "contents": "x"}, "sandbox_fs_list": {}, "sandbox_close": {},
		} {
			arguments["sandbox_id"] = plain.ID
			other.tool(tool, arguments).refused(t, "does not exist", "not_found")
		}
	}
	// An isolated sandbox belongs to its client alone.
	isolated := w.peer("ann", code(func(t *mcp.Terms) { t.Session = belljar.IsolatedKey }))
	alone := isolated.open()
	isolated.exec(alone, "true").good(t)
	w.peer("ann", code()).tool("sandbox.run", map[string]any{"session_id": alone, "command": []string{"true"}}).refused(t, "not_found")
}

// The agents of a workflow share its sandboxes, which stay when an agent ends.
func TestWorkflow(t *testing.T) {
	w := newWorld(t)
	one, two := w.peer("ann", workflow("run_1")), w.peer("ann", workflow("run_1"))
	a, b := one.open(), two.open()
	if a != b {
		t.Fatal("two agents of a workflow have two sandboxes")
	}
	one.tool("sandbox_fs_write", map[string]any{"sandbox_id": a, "path": "shared", "contents": "from one"}).good(t)
	ids := []int{}
	for i := range 4 {
		ids = append(ids, one.ask("tools/call", map[string]any{"name": "sandbox_exec", "arguments": map[string]any{"sandbox_id": a, "cmd": []string{"echo", fmt.Sprint(i)}}}))
		if r := two.exec(b, "cat", "shared").good(t); r.data["stdout"] != "from one" {
			t.Errorf("two sees %v", r.data)
		}
	}
	for i, id := range ids {
		if r := one.answer(id).tool(t).good(t); r.data["stdout"] != fmt.Sprintf("%d\n", i) {
			t.Errorf("answer %d is %v", i, r.data)
		}
	}
	one.close()
	two.exec(b, "cat", "shared").good(t)
	two.close()
	three := w.peer("ann", workflow("run_1"))
	if three.open() != a {
		t.Error("the workflow's sandbox has ended with its agents")
	}
	elsewhere := w.peer("ann", workflow("run_12"))
	elsewhere.exec(a, "true").refused(t, "not_found")
	named := w.peer("ann", code(func(t *mcp.Terms) { t.Workflow, t.Session = "run_1", "build" }))
	named.tool("sandbox_open", map[string]any{"session_key": "default"}).refused(t, "session_key here is build")
	if named.open() == a {
		t.Error("another name of the workflow is the same sandbox")
	}
	alone := w.peer("ann", code(func(t *mcp.Terms) { t.Workflow, t.Session = "run_1", "isolated" }))
	own := alone.open()
	if own == a || own != alone.open() {
		t.Error("an isolated sandbox is shared, or not the same twice")
	}
	alone.close()
	if slices.ContainsFunc(w.sessions("ann"), func(s belljar.Session) bool { return s.ID == own }) {
		t.Error("an isolated sandbox has outlived its agent")
	}
	if _, err := w.as("ann").Sessions().CloseAll(context.Background(), belljar.CloseRequest{KeyPrefix: "workflow:run_1:"}); err != nil {
		t.Fatal(err)
	}
	three.exec(a, "true").refused(t, "has ended")
}

// The output of a long command can be read in parts, in order and completely.
func TestReadOn(t *testing.T) {
	w := newWorld(t)
	p := w.peer("ann", code())
	sandbox := p.open()
	r := p.tool("sandbox_exec", map[string]any{"sandbox_id": sandbox, "stream": true, "cmd": []string{"sh", "-c",
		`i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i+1)); done; echo last >&2; exit 5`}}).good(t)
	if r.data["status"] != "running" || r.data["exit_code"] != nil || !strings.Contains(r.text, "sandbox_exec_read") {
		t.Errorf("a streamed exec: %v", r.data)
	}
	exec := r.data["exec_id"]
	var stdout, stderr strings.Builder
	since := 0.0
	for {
		r := p.tool("sandbox_exec_read", map[string]any{"sandbox_id": sandbox, "exec_id": exec, "since_seq": since, "max_chunks": 7}).good(t)
		for _, item := range r.data["chunks"].([]any) {
			c := item.(map[string]any)
			if c["seq"].(float64) <= since {
				t.Errorf("chunk %v comes behind %v", c["seq"], since)
			}
			if c["stream"] == "stdout" {
				stdout.WriteString(c["text"].(string))
			} else {
				stderr.WriteString(c["text"].(string))
			}
		}
		since = r.data["next_seq"].(float64)
		if r.data["done"] == true {
			if r.data["exit_code"] != 5.0 {
				t.Errorf("the end is %v", r.data)
			}
			break
		}
	}
	var want strings.Builder
	for i := range 300 {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if stdout.String() != want.String() || stderr.String() != "last\n" {
		t.Errorf("read %d bytes of stdout, %q of stderr", stdout.Len(), stderr.String())
	}
	if r := p.tool("sandbox_exec_wait", map[string]any{"sandbox_id": sandbox, "exec_id": exec}).good(t); r.data["done"] != true || r.data["exit_code"] != 5.0 {
		t.Errorf("waited: %v", r.data)
	}
	p.tool("sandbox_exec_read", map[string]any{"sandbox_id": sandbox, "exec_id": exec, "max_chunks": 5000}).refused(t, "1000 at most", "invalid_request")
}

// A call does not wait longer than clients do. The model can wait for a longer command, and read its output.
func TestLongRun(t *testing.T) {
	w := newWorld(t)
	p := w.peer("ann", code(func(t *mcp.Terms) { t.Wait = 300 * time.Millisecond }))
	sandbox := p.open()
	r := p.exec(sandbox, "sh", "-c", "until [ -e go ]; do sleep .05; done; echo went").good(t)
	if r.data["status"] != "running" || !strings.Contains(r.text, "continues") {
		t.Fatalf("a long command: %s %v", r.text, r.data)
	}
	exec := r.data["exec_id"]
	if r := p.tool("sandbox_exec_wait", map[string]any{"sandbox_id": sandbox, "exec_id": exec, "timeout_seconds": 0}).good(t); r.data["done"] != false {
		t.Errorf("waited for nothing: %v", r.data)
	}
	one := p.tool("sandbox.run", map[string]any{"base_image": "host", "command": []string{"sh", "-c", "sleep 1; mkdir output; echo slow | tee output/f"}}).good(t)
	p.tool("sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "go", "contents": ""}).good(t)
	for _, x := range []struct {
		sandbox, exec any
		want          string
		files         int
	}{{sandbox, exec, "went\n", 0}, {one.data["run_id"], one.data["run_id"], "slow\n", 1}} {
		until(t, "the command ends", func() bool {
			r = p.tool("sandbox_exec_wait", map[string]any{"sandbox_id": x.sandbox, "exec_id": x.exec}).good(t)
			return r.data["done"] == true
		})
		if files, _ := r.data["artifacts"].([]any); len(files) != x.files || len(r.parts) != 1+x.files {
			t.Errorf("files: %v %v", files, r.parts)
		}
		r := p.tool("sandbox_exec_read", map[string]any{"sandbox_id": x.sandbox, "exec_id": x.exec}).good(t)
		if !strings.Contains(r.text, strings.TrimSpace(x.want)) {
			t.Errorf("read %q, want %q", r.text, x.want)
		}
	}
}

// Long output is cut. The result reports how much is missing, and how to get it.
func TestHugeOutput(t *testing.T) {
	w := newWorld(t)
	p := w.peer("ann", code(func(t *mcp.Terms) { t.MaxOutput = 1000 }))
	sandbox := p.open()
	r := p.exec(sandbox, "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo end").good(t)
	for _, word := range []string{"stdout is truncated (3000004 bytes were kept", "sandbox_exec_read", "left out here", "xend"} {
		if !strings.Contains(r.text, word) {
			t.Errorf("the text does not say %q: %.300s", word, r.text)
		}
	}
	if len(r.text) > 2000 || r.data["stdout_truncated"] != true || len(r.data["stdout"].(string)) > 1200 {
		t.Errorf("a text of %d bytes, stdout of %d", len(r.text), len(r.data["stdout"].(string)))
	}
	// Lists are cut, too. No name in them forges a line.
	files := "mkdir output; for i in $(seq 100 199); do echo x > output/$i; done; cp output/100 \"$(printf 'output/1\\nforged\\342\\200\\256')\""
	p.exec(sandbox, "sh", "-c", files).good(t)
	for field, r := range map[string]result{
		"entries":   p.tool("sandbox_fs_list", map[string]any{"sandbox_id": sandbox, "path": "output"}).good(t),
		"artifacts": p.tool("sandbox.run", map[string]any{"base_image": "host", "command": []string{"sh", "-c", files}}).good(t),
	} {
		list, _ := r.data[field].([]any)
		if len(r.text) > 1300 || len(list) == 0 || !strings.Contains(r.text, fmt.Sprintf("\nnote: there are 101, and %d are shown; ", len(list))) {
			t.Errorf("%s: %d are in a text of %d bytes: %s", field, len(list), len(r.text), r.text)
		}
		if !strings.Contains(r.text, `output/1\nforged\u202e"`) {
			t.Errorf("%s: a name is not quoted: %s", field, r.text)
		}
	}
}

// An empty file is read as a note, because hosts refuse an empty text. As a resource it has an empty blob: clients refuse contents with
// neither text nor blob.
func TestEmptyResource(t *testing.T) {
	p := newWorld(t).peer("ann", code())
	sandbox := p.open()
	p.tool("sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": "empty.txt", "contents": ""}).good(t)
	if r := p.tool("sandbox_fs_read", map[string]any{"sandbox_id": sandbox, "path": "empty.txt"}).good(t); r.text != "note: nothing is there: the file has 0 bytes" || r.data["contents"] != "" {
		t.Errorf("%q %v", r.text, r.data)
	}
	r := p.rpc("resources/read", map[string]any{"uri": "belljar://sandboxes/" + sandbox + "/files/empty.txt"})
	list, _ := r.Result["contents"].([]any)
	if len(list) != 1 {
		t.Fatalf("contents: %s", r.raw)
	}
	contents, _ := list[0].(map[string]any)
	if blob, ok := contents["blob"].(string); !ok || blob != "" {
		t.Errorf("an empty file: %v", contents)
	}
}

// Text without a known type is plain text.
func TestTypeOfResource(t *testing.T) {
	p := newWorld(t).peer("ann", code())
	sandbox := p.open()
	for name, c := range map[string][2]string{
		"Makefile": {"YWxsOgo=", "text/plain"}, "x.unknown-type": {"YWxsOgo=", "text/plain"}, "x.csv": {"YSxi", "text/csv"}, "core": {"//8=", "application/octet-stream"},
	} {
		p.tool("sandbox_fs_write", map[string]any{"sandbox_id": sandbox, "path": name, "contents_b64": c[0]}).good(t)
		r := p.rpc("resources/read", map[string]any{"uri": "belljar://sandboxes/" + sandbox + "/files/" + name})
		if list, _ := r.Result["contents"].([]any); len(list) != 1 || list[0].(map[string]any)["mimeType"] != c[1] {
			t.Errorf("%s: %s", name, r.raw)
		}
	}
}

// Clients of a workflow have an isolated sandbox each, however many calls open it at once. It ends with its client alone.
func TestIsolatedInWorkflow(t *testing.T) {
	w := newWorld(t)
	h := w.httpServer(nil)
	var clients []*web
	ids := map[any]bool{}
	for range 2 {
		p, c := h.peer(t, "ann", "?mode=code&workflow=w")
		open := map[string]any{"name": "sandbox_open", "arguments": map[string]any{"session_key": belljar.IsolatedKey}}
		first, second := p.ask("tools/call", open), p.ask("tools/call", open)
		one, two := p.answer(first).tool(t).good(t), p.answer(second).tool(t).good(t)
		if one.data["sandbox_id"] != two.data["sandbox_id"] {
			t.Errorf("two calls open two: %v, %v", one.data, two.data)
		}
		ids[one.data["sandbox_id"]] = true
		clients = append(clients, c)
	}
	if len(ids) != 2 {
		t.Errorf("two clients share a sandbox: %v", ids)
	}
	for i, c := range clients {
		c.do(context.Background(), http.MethodDelete, "", nil).Body.Close()
		if left := w.sessions("ann"); len(left) != 1-i {
			t.Errorf("after the end of client %d: %v", i, left)
		}
	}
}

// After a restart of the server a client finds its isolated sandbox again, and the sandbox ends with the client.
func TestIsolatedRestart(t *testing.T) {
	for name, query := range map[string]string{"of its own": "?mode=code&session=isolated", "in a workflow": "?mode=code&workflow=w"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			first := w.httpServer(nil)
			p, c := first.peer(t, "ann", query)
			open := func() result {
				return p.tool("sandbox_open", map[string]any{"session_key": belljar.IsolatedKey}).good(t)
			}
			sandbox := open().data["sandbox_id"].(string)
			if err := first.door.Close(); err != nil {
				t.Fatal(err)
			}
			c.url = w.httpServer(nil).URL + "/mcp"
			p.exec(sandbox, "true").good(t)
			if r := open(); r.data["sandbox_id"] != sandbox || r.data["created"] != false {
				t.Errorf("after the restart: %v", r.data)
			}
			c.url = w.httpServer(nil).URL + "/mcp" // a server that does not know the sandbox ends the session
			p.rpc("ping", map[string]any{})
			c.do(context.Background(), http.MethodDelete, "", nil).Body.Close()
			if left := w.sessions("ann"); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
		})
	}
}

// If the operator sets a template or an image, sandbox.run needs no image.
func TestCommandOnItsOwn(t *testing.T) {
	w := newWorld(t)
	if _, err := w.as("ann").Templates().Build(t.Context(), belljar.TemplateSpec{Name: "t", BaseImage: "host", Run: []string{"echo kept > word"}}); err != nil {
		t.Fatal(err)
	}
	for _, set := range []belljar.Toolset{{Template: "t"}, {Image: "host"}} {
		p := w.peer("ann", mcp.Terms{Toolset: set})
		for name, arguments := range map[string]map[string]any{
			"no image":  {"command": []string{"ls"}},
			"its image": {"base_image": "host", "command": []string{"ls"}},
		} {
			if got := p.tool("sandbox.run", arguments).good(t); strings.Contains(got.text, "word") != (set.Template != "") {
				t.Errorf("%+v, %s: %s", set, name, got.text)
			}
		}
		p.tool("sandbox.run", map[string]any{}).refused(t, "error: give command (invalid_request)")
		var in map[string]any
		for _, x := range p.rpc("tools/list", map[string]any{}).Result["tools"].([]any) {
			if tool := x.(map[string]any); tool["name"] == "sandbox.run" {
				in = tool["inputSchema"].(map[string]any)
			}
		}
		if in == nil || in["oneOf"] != nil || fmt.Sprint(in["required"]) != "[command]" {
			t.Errorf("%+v: input schema %v", set, in)
		}
	}
}
