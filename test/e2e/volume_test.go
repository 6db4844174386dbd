//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/linux/disk"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/tier"
)

const disks = "disk_workspace_mb=64"

func needDisk(t *testing.T) {
	t.Helper()
	if why, hint := disk.Missing(); why != "" {
		need.Missing(t, "%s: %s", why, hint)
	}
}

type object = map[string]any

// withDisk makes a session with a workspace.
func (s *server) withDisk(workspace object) (status int, session object) {
	return s.ask(http.MethodPost, api+"/sessions", object{"spec_version": "1.1", "base_image": "host", "workspace": workspace})
}

// prints runs a script, in a session unless that is nil, and returns its output.
func (s *server) prints(session any, workspace object, script string) string {
	s.t.Helper()
	body := object{"spec_version": "1.1", "command": []string{"sh", "-c", "exec 2>&1; " + script}, "timeout_sec": longTime}
	if session != nil {
		body["session_id"] = session
	} else {
		body["base_image"], body["workspace"] = "host", workspace
	}
	status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", body)
	if status != http.StatusOK || run["phase"] == "queued" {
		s.t.Fatalf("%s: %d %v", script, status, run)
	}
	if run["phase"] != "completed" {
		s.t.Logf("%s: %v", script, run)
	}
	return fmt.Sprint(run["stdout"])
}

// images returns the loop devices of a data folder, and the contents of its folder of volumes.
func images(t *testing.T, data string) (devices, folders []string) {
	t.Helper()
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, name := range files {
		if has, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(has), data) {
			devices = append(devices, strings.TrimSpace(string(has)))
		}
	}
	folders, _ = filepath.Glob(filepath.Join(data, "volumes", "*"))
	return devices, folders
}

// TestVolumes checks sessions and runs with workspaces on disk: their contents, the access to volumes, and that nothing is left.
func TestVolumes(t *testing.T) {
	t.Parallel()
	needDisk(t)
	data := t.TempDir()
	s := serve(t, data, "--set", disks)
	wrong := func(want int, code, field string) func(int, object) {
		return func(status int, answer object) {
			t.Helper()
			e, _ := answer["error"].(object)
			details, _ := e["details"].(object)
			if status != want || e["code"] != code || field != "" && details["field"] != field {
				t.Errorf("%d %v, want %d %s %s", status, answer, want, code, field)
			}
		}
	}
	volume := func(name any, mb int) (int, object) {
		return s.ask(http.MethodPost, api+"/volumes", object{"name": name, "mb": mb})
	}
	if status, made := volume("data", 16); status != http.StatusOK || made["name"] != "data" || made["mb"] != 16.0 {
		t.Fatalf("%d %v", status, made)
	}
	wrong(409, "conflict", "")(volume("data", 16))
	wrong(400, "invalid_request", "name")(volume("../data", 16))
	wrong(400, "invalid_request", "mb")(volume("tiny", 7))
	wrong(403, "policy_denied", "mb")(volume("huge", 65))
	wrong(404, "not_found", "")(s.withDisk(object{"volume": "none"}))
	wrong(409, "conflict", "workspace.mb")(s.withDisk(object{"volume": "data", "mb": 32}))
	wrong(403, "policy_denied", "workspace.mb")(s.withDisk(object{"medium": "disk", "mb": 65}))
	wrong(404, "not_found", "")(s.ask(http.MethodDelete, api+"/volumes/none", nil))

	_, first := s.withDisk(object{"volume": "data"})
	id := first["session_id"]
	if got, _ := json.Marshal(first["workspace"]); string(got) != `{"mb":16,"medium":"disk","volume":"data"}` {
		t.Errorf("the session has %s: %v", got, first)
	}
	if limits, _ := first["limits"].(object); limits["workspace_mb"] != 16.0 {
		t.Errorf("limits: %v", limits)
	}
	if got := s.prints(id, nil, "echo kept > f; id -u; stat -c %u f; head -c 30M /dev/zero > big; rm big; ls -A; stat -f -c %T ."); !strings.Contains(got, "No space left") || !strings.HasSuffix(got, "f\next2/ext3\n") {
		t.Errorf("in the session: %s", got)
	}
	status, refused := s.withDisk(object{"volume": "data"})
	wrong(409, "conflict", "")(status, refused)
	if !strings.Contains(fmt.Sprint(refused), fmt.Sprint(id)) {
		t.Errorf("it does not say who has it: %v", refused)
	}
	wrong(409, "conflict", "")(s.ask(http.MethodDelete, api+"/volumes/data", nil))
	if got := s.prints(nil, object{"volume": "data", "read_only": true}, "cat f; echo x > f"); got != "kept\nsh: 1: cannot create f: Read-only file system\n" {
		t.Errorf("a reader: %s", got)
	}
	for i, size := range []int{5, 12 << 20, 12<<20 + 1} {
		file, want := strings.Repeat("g", size), http.StatusOK
		if i == 2 {
			want = http.StatusInsufficientStorage
		}
		req, err := http.NewRequest(http.MethodPut, s.URL+api+"/sessions/"+fmt.Sprint(id)+"/fs/raw?path=g"+fmt.Sprint(len(file)), strings.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-KEY", s.Key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want && !(want == http.StatusOK && resp.StatusCode/100 == 2) {
			t.Errorf("a file of %d bytes: %d", len(file), resp.StatusCode)
		}
	}
	body, rest := io.Pipe()
	unfinished, err := http.NewRequest(http.MethodPut, s.URL+api+"/sessions/"+fmt.Sprint(id)+"/fs/raw?path=u", body)
	if err != nil {
		t.Fatal(err)
	}
	unfinished.Header.Set("X-API-KEY", s.Key)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if resp, err := http.DefaultClient.Do(unfinished); err == nil {
			resp.Body.Close()
		}
	}()
	if _, err := rest.Write(make([]byte, 2<<20)); err != nil { // more than fits into buffers: the agent writes it
		t.Fatal(err)
	}
	if got := s.prints(id, nil, "ls -A"); strings.Contains(got, ".belljar") {
		t.Errorf("a killed sandbox would leave %s", got)
	}
	rest.CloseWithError(io.ErrUnexpectedEOF)
	<-stopped
	_, forked := s.ask(http.MethodPost, api+"/sessions/"+fmt.Sprint(id)+"/fork", object{"count": 2})
	copies, _ := forked["sessions"].([]any)
	for _, x := range copies {
		copied, _ := x.(object)
		if got := s.prints(copied["session_id"], nil, "cat f g5; stat -f -c %T ."); got != "kept\ngggggext2/ext3\n" {
			t.Errorf("a copy: %s", got)
		}
		s.ask(http.MethodDelete, api+"/sessions/"+fmt.Sprint(copied["session_id"]), nil)
	}
	if len(copies) != 2 {
		t.Errorf("forked: %v", forked)
	}

	s.kill()
	s = serve(t, data, "--set", disks)
	if got := s.prints(id, nil, "cat f"); got != "kept\n" {
		t.Errorf("after the restart: %s", got)
	}
	wrong(409, "conflict", "")(s.withDisk(object{"volume": "data"}))
	if _, list := s.ask(http.MethodGet, api+"/volumes", nil); !strings.Contains(fmt.Sprint(list), fmt.Sprintf("written_by:%v", id)) {
		t.Errorf("volumes: %v", list)
	}
	s.ask(http.MethodDelete, api+"/sessions/"+fmt.Sprint(id), nil)
	for n := range 3 { // one after the other, without a pause
		if got, want := s.prints(nil, object{"volume": "data"}, "echo more >> f; wc -l < f"), fmt.Sprintln(n+2); got != want {
			t.Errorf("run %d: %s", n, got)
		}
	}
	// A volume that its program has made inaccessible is accessible again later.
	if got := s.prints(nil, object{"volume": "data"}, "touch .tmp; chmod 0 ."); got != "" {
		t.Error(got)
	}
	if got := s.prints(nil, object{"volume": "data"}, "stat -c %a ."); got != "700\n" {
		t.Errorf("a closed volume: %s", got)
	}
	status, refused = s.ask(http.MethodPost, api+"/sessions", object{
		"spec_version": "1.1", "base_image": "host", "workspace": object{"volume": "data"}, "workspace_exec": true,
	})
	wrong(409, "conflict", "workspace_exec")(status, refused)
	for line, want := range map[string]string{
		"volume create cli 8m": "cli", "volume ls": "data", "run --quiet --volume data:ro -- cat f": "kept", "runtimes --json": `"disk_workspace_cap_mb": 64`,
		"run --quiet --disk 8m --volume new -- sh -c pwd": "/workspace",
	} {
		cmd := exec.CommandContext(t.Context(), built.Belljar, strings.Fields(line)...)
		cmd.Env = append(os.Environ(), "BELLJAR_SERVER="+s.URL, "BELLJAR_API_KEY="+s.Key)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	for _, name := range []string{"cli", "new"} {
		s.ask(http.MethodDelete, api+"/volumes/"+name, nil)
	}
	s.fullVolume()
	if got := s.prints(nil, object{"medium": "disk", "mb": 32}, "ls -A; head -c 30M /dev/zero > big && stat -c %s big"); got != "31457280\n" {
		t.Errorf("a disk of its own: %s", got)
	}
	if devices, _ := images(t, data); len(devices) > 0 {
		t.Errorf("a run that has ended has %v", devices)
	}
	if status, answer := s.ask(http.MethodDelete, api+"/volumes/data", nil); status != http.StatusNoContent {
		t.Errorf("removed: %d %v", status, answer)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.output)
	}
	until(t, "nothing is left", func() bool {
		devices, folders := images(t, data)
		return len(devices)+len(folders) == 0
	})
}

// fullVolume checks that requests whose files do not fit into a volume are refused with a hint about volumes, and change nothing in it.
func (s *server) fullVolume() {
	t, large, full := s.t, strings.Repeat("x", 1<<20), object{"volume": "full", "mb": 8}
	t.Helper()
	refused := func(status int, answer object, field string) {
		t.Helper()
		e, _ := answer["error"].(object)
		if e == nil { // a run
			e = answer
		}
		details, _ := e["details"].(object)
		if details["field"] != nil && details["field"] != field || details["inodes"] != nil || !strings.Contains(fmt.Sprint(e["hint"]), "another volume with a larger workspace.mb (--disk)") {
			t.Errorf("%d %v", status, answer)
		}
	}
	s.prints(nil, full, "echo precious > f; head -c 9M /dev/zero > rest")
	spec := func(more object) object {
		maps.Copy(more, object{"spec_version": "1.1", "base_image": "host"})
		return more
	}
	status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", spec(object{
		"command": []string{"true"}, "workspace": full, "files": []object{{"path": "f", "content_b64": []byte(large)}},
	}))
	if refused(status, run, ""); run["reason_code"] != "provision_failed" {
		t.Errorf("%v", run)
	}
	_, source := s.ask(http.MethodPost, api+"/sessions", spec(object{}))
	s.prints(source["session_id"], nil, "head -c 1M /dev/urandom > f")
	_, saved := s.ask(http.MethodPost, fmt.Sprint(api, "/sessions/", source["session_id"], "/snapshots"), object{})
	status, answer := s.ask(http.MethodPost, api+"/sessions", spec(object{"workspace": full, "snapshot": saved["snapshot_id"]}))
	if refused(status, answer, "workspace.volume"); status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %v", status, answer)
	}
	s.ask(http.MethodDelete, fmt.Sprint(api, "/sessions/", source["session_id"]), nil)
	_, using := s.withDisk(full)
	status, answer = s.ask(http.MethodPost, fmt.Sprint(api, "/sessions/", using["session_id"], "/fs/write"), object{"path": "f", "contents": large, "overwrite": true})
	if refused(status, answer, ""); status != http.StatusInsufficientStorage {
		t.Errorf("%d %v", status, answer)
	}
	_, space := s.ask(http.MethodGet, fmt.Sprint(api, "/sessions/", using["session_id"], "/fs/space"), nil)
	if space["bytes"] == nil || space["bytes"] != space["max_bytes"] {
		t.Errorf("a full volume has %v", space)
	}
	if got := s.prints(using["session_id"], nil, "cat f; ls -A"); got != "precious\nf\nrest\n" {
		t.Errorf("a full volume has %s", got)
	}
	s.ask(http.MethodDelete, fmt.Sprint(api, "/sessions/", using["session_id"]), nil)
	if status, answer := s.ask(http.MethodDelete, api+"/volumes/full", nil); status != http.StatusNoContent {
		t.Errorf("removed: %d %v", status, answer)
	}
}

// TestVolumesThroughKills kills a server while it makes and removes volumes and sandboxes with them. Every listed volume can be used,
// a written file exists, and nothing else is on the disk or mounted.
func TestVolumesThroughKills(t *testing.T) {
	t.Parallel()
	needDisk(t)
	data := t.TempDir()
	s := serve(t, data, "--set", disks)
	s.prints(nil, object{"volume": "old", "mb": 8}, "head -c 5M /dev/urandom > f && sha256sum f > sum && sync")
	for round := range tier.Rounds(t, 1, 40) {
		done := make(chan struct{})
		go func(s *server) {
			defer close(done)
			for n := 0; ; n++ { // until it is killed
				name := fmt.Sprintf("v%d-%d", round, n%3)
				if _, _, err := s.try(http.MethodPost, api+"/volumes", object{"name": name, "mb": 8}); err != nil {
					return
				}
				for _, w := range []object{{"volume": name}, {"medium": "disk", "mb": 8}} {
					_, x, err := s.try(http.MethodPost, api+"/sessions", object{"spec_version": "1.1", "base_image": "host", "workspace": w})
					if err == nil && n%2 == 0 {
						_, _, _ = s.try(http.MethodDelete, api+"/sessions/"+fmt.Sprint(x["session_id"]), nil)
					}
				}
				_, _, _ = s.try(http.MethodDelete, api+"/volumes/"+name, nil)
			}
		}(s)
		time.Sleep(rand.N(400 * time.Millisecond))
		s.kill()
		<-done
		s = serve(t, data, "--set", disks)
		_, page := s.ask(http.MethodGet, api+"/sessions?limit=200", nil)
		for _, x := range page["items"].([]any) {
			s.ask(http.MethodDelete, api+"/sessions/"+fmt.Sprint(x.(object)["session_id"]), nil)
		}
		until(t, "the sandboxes of the killed server are gone", func() bool { // until then a volume may be in use
			devices, _ := images(t, data)
			return len(devices) == 0
		})
		_, list := s.ask(http.MethodGet, api+"/volumes", nil)
		all, _ := list["items"].([]any)
		for _, x := range all {
			name := x.(object)["name"]
			if got := s.prints(nil, object{"volume": name}, "test "+fmt.Sprint(name)+" != old || sha256sum --quiet -c sum; echo ok > new && cat new"); got != "ok\n" {
				t.Errorf("round %d: %v: %s", round, x, got)
			}
			if name != "old" {
				s.ask(http.MethodDelete, api+"/volumes/"+fmt.Sprint(name), nil)
			}
		}
		until(t, "only the old one is left", func() bool {
			devices, folders := images(t, data)
			return len(devices) == 0 && len(folders) == 1
		})
	}
}
